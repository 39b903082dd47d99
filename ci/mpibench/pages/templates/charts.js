// Draws the charts of a page, each in its element.
const draw = async (node) => {
  const { data, layout } = JSON.parse(node.dataset.figure), narrow = ({ x, texttemplate }) => texttemplate && node.clientWidth < 45 * x.length;
  for (const map of data.filter(narrow)) delete map.texttemplate;
  const title = { x: 0, xanchor: "left", ...layout.title, font: { size: 14 } }, legend = { itemclick: false, itemdoubleclick: false, ...layout.legend };
  await Plotly.react(node, ...themed({ data, layout: { margin: { l: 60, r: 12, t: layout.title ? 56 : 12, b: 44 }, ...layout, title, legend, ...paperSize(node) } }), OPTIONS);
  if (layout.meta === "named curves") await nameCurves(node, layout.showlegend);
};
const drawAll = () => Promise.all([...document.querySelectorAll("[data-figure]")].map(draw));
plotly.then(drawAll).then(() => { document.documentElement.dataset.ready = "yes"; });
darkQuery.addEventListener("change", () => plotly.then(drawAll));
drawForPaper(drawAll);
