// Start: fill the page, react to theme and print, filter the evidence table.

if (index.measures.length) {
  showControls();
  showCharts();
  showMaps();
} else {
  charts.replaceChildren(el("p", {}, "Nothing was measured."));
  document.getElementById("maps").replaceChildren(el("p", {}, "Nothing was measured."));
}
followHash();

function redraw() {
  for (const figure of charts.querySelectorAll("figure[data-drawn]")) draw(figure);
}
darkQuery.addEventListener("change", redraw);
window.addEventListener("beforeprint", () => {
  printing = true;
  for (const figure of charts.querySelectorAll("figure")) draw(figure);
});
window.addEventListener("afterprint", () => { printing = false; redraw(); });

const filter = document.getElementById("filter");
const evidenceRows = [...document.querySelectorAll("#evidence-table tbody tr")];
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of evidenceRows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  document.getElementById("filter-count").textContent = words.length ? `${shown} of ${evidenceRows.length}` : "";
});
document.documentElement.dataset.ready = "yes";
