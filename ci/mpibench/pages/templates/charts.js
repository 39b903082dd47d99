// Draws the charts of a page, each in its element.
const figures = JSON.parse(document.getElementById("figures").textContent);
const drawAll = () => Promise.all(figures.map((figure, place) => Plotly.react(document.getElementById(`chart-${place}`), ...themed(figure), OPTIONS)));
darkQuery.addEventListener("change", drawAll);
drawAll().then(() => { document.documentElement.dataset.ready = "yes"; });
