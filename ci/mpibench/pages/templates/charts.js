// Draws the charts of the page; the tool bar saves one as SVG, which every ticket system shows and which prints well.
const options = {responsive: true, displaylogo: false, toImageButtonOptions: {format: "svg"}};
const figures = JSON.parse(document.getElementById("figures").textContent);
const drawn = figures.map((figure, place) =>
  Plotly.newPlot(document.getElementById(`chart-${place}`), figure.data, figure.layout, options));
Promise.all(drawn).then(() => { document.documentElement.dataset.ready = "yes"; });
