// Draws the charts of a page, each in its element.
const drawAll = () => Promise.all([...document.querySelectorAll("[data-figure]")].map((node) => Plotly.react(node, ...themed(JSON.parse(node.dataset.figure)), OPTIONS)));
plotly.then(drawAll).then(() => { document.documentElement.dataset.ready = "yes"; });
darkQuery.addEventListener("change", () => plotly.then(drawAll));
