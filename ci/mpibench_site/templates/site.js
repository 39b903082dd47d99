// On every page of the site. Values of a metric come in a script for each month, as a page on a file share may load nothing else.
"use strict";
(() => {
{% include "drawing.js" %}
const $ = (id) => document.getElementById(id), ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const months = [], known = { changes: [], withdrawn: [] }, symbols = Object.keys(signs);
window.mpibenchValues = (header, values) => { months.push({ header, values }); };
window.mpibenchChanges = (found) => { Object.assign(known, found); };

/** Small curves beside key figures and nodes, from zero; dashed: the limit. */
function drawSmall() {
  const axis = { visible: false, fixedrange: true }, shared = { type: "scatter", mode: "lines", hoverinfo: "skip" };
  for (const node of document.querySelectorAll("[data-curve]")) {
    const { values, limit } = JSON.parse(node.dataset.curve), x = values.map((_, at) => at);
    const data = [{ ...shared, mode: values.length > 1 ? "lines" : "markers", x, y: values, connectgaps: true, line: { color: ink("--link"), width: 1.5 } }];
    if (limit !== null) data.push({ ...shared, x: [0, Math.max(1, values.length - 1)], y: [limit, limit], line: { color: ink("--soft"), width: 1, dash: "dash" } });
    const layout = { margin: { l: 2, r: 2, t: 2, b: 2 }, showlegend: false, xaxis: axis, yaxis: { ...axis, rangemode: "tozero" } };
    Plotly.react(node, ...themed({ data, layout }), { staticPlot: true });
  }
}

// A family of metrics over time.
const family = JSON.parse($("family")?.textContent ?? "null"), plot = $("plot"), hidden = new Set();
const wrapped = (lines) => lines.map((one) => asText(one).match(/.{1,70}(\s|$)|.{1,70}/g).join("<br>  ")).join("<br>");

/** All nights of a metric; its bounds stand where they change. */
function nightsOf(metric) {
  const nights = [];
  for (const { header, values } of months) {
    const [middle = [], low, high, steps] = values[metric.key] ?? [], start = Date.parse(`${header.month}-01T00:00:00Z`);
    let next = 0, bounds = [null, null, null];
    middle.forEach((y, at) => {
      while (next < steps.length && steps[next][0] <= at) bounds = steps[next++].slice(1);
      if (y !== null) nights.push({ x: new Date(start + header.days[at] * 864e5).toISOString().slice(0, 16), y, up: high[at] - y, down: y - low[at], page: header.pages[at], bounds });
    });
  }
  return nights;
}
function traces(size) {
  const shown = [], bounds = [], rates = new Map(), same = {};
  const stepped = (name, x, y, line, meta) => bounds.push({ type: "scatter", mode: "lines", name, x, y, line: { width: 1.2, shape: "hv", ...line }, hoverinfo: "name+y", meta });
  for (const metric of family.lines.filter((one) => (one.size ?? "") === size)) {
    const place = metric.stack % symbols.length, at = (same[place] = (same[place] ?? -1) + 1), nights = nightsOf(metric), of = (key) => nights.map((night) => night[key]), x = of("x");
    if (!nights.length) continue;
    shown.push({ type: "scatter", mode: "lines+markers", name: metric.name, x, y: of("y"), customdata: of("page"), visible: !hidden.has(metric.name),
      line: { color: colour(place), width: 1.5, dash: Object.keys(strokes)[at % 4] }, marker: { color: colour(place), size: 5, symbol: symbols[place] },
      error_y: { type: "data", symmetric: false, array: of("up"), arrayminus: of("down"), color: colour(place), thickness: 1, width: 0 },
      hovertemplate: `%{y:.5g} ${asText(family.unit)} (%{error_y.arrayminus:.3g} less to %{error_y.array:.3g} more)<br>%{x}<extra>${asText(metric.name)}</extra>` });
    if (hidden.has(metric.name)) continue;
    ["at least", "at most"].forEach((name, which) => {
      const values = nights.map((night) => night.bounds[which]);
      if (values.some((one) => one !== null)) stepped(`${metric.name}: reference, ${name}`, x, values, { color: colour(place), dash: "dot" }, "reference");
    });
    for (const night of nights) if (night.bounds[2] !== null) rates.set(night.x, night.bounds[2]);
  }
  const days = [...rates.keys()].sort();
  if (days.length) stepped("line rate", days, days.map((x) => rates.get(x)), { color: ink("--ink"), dash: "longdash" }, "line rate");
  return { shown, bounds };
}
function drawMetric() {
  const size = $("size").value, { shown, bounds } = traces(size === "" ? "" : Number(size)), days = shown.flatMap((one) => one.x).sort();
  const marks = (found, name, height, marker, text) => {
    const there = found.map((one) => ({ ...one, x: one.at.slice(0, 16) })).filter(({ x }) => days.length && x >= days[0].slice(0, 10) && x <= days.at(-1)), of = (what) => there.map(what);
    return there.length ? [{ type: "scatter", mode: "markers", name, x: of(({ x }) => x), y: of(() => height), yaxis: "y2", customdata: of(({ page }) => page), marker, text: of((one) => wrapped(text(one))), hovertemplate: "%{x}<br>%{text}<extra></extra>" }] : [];
  };
  const notes = [
    ...marks(known.changes, "changed that night", 0.02, { symbol: "triangle-up", size: 10, color: ink("--note") }, ({ what, more }) => [...what, ...(more ? [`and ${more} more`] : [])]),
    ...marks(known.withdrawn, "withdrawn", 0.06, { symbol: "x-thin", size: 9, line: { width: 2, color: ink("--soft") } }, ({ why }) => [why]),
  ];
  const narrow = plot.clientWidth < 560, shapes = family.events.map(({ day, worse }) => ({ type: "line", x0: `${day}T00:00`, x1: `${day}T00:00`, yref: "paper", y0: 0, y1: 1, line: { color: ink(worse ? "--bad" : "--good"), width: 1.5, dash: "dashdot" } }));
  const layout = { ...paperSize(plot), height: narrow ? 340 : 440, margin: { l: 56, r: 12, t: 12, b: 48 }, showlegend: false, shapes, xaxis: { type: "date", nticks: narrow ? 4 : 8 },
    yaxis: { title: { text: `${family.quantity}${family.unit ? ` [${family.unit}]` : ""}` }, rangemode: $("scale").value === "zero" ? "tozero" : "normal" }, yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true } };
  $("legend").replaceChildren(...shown.map(({ name, line, marker, visible }) => {
    const item = document.createElement("li"), button = document.createElement("button"), sign = document.createElement("span");
    sign.textContent = `${strokes[line.dash]}${signs[marker.symbol]} `; sign.style.color = line.color; sign.setAttribute("aria-hidden", "true");
    button.append(sign, name); button.type = "button"; button.setAttribute("aria-pressed", String(visible));
    button.addEventListener("click", () => { if (!hidden.delete(name)) hidden.add(name); drawMetric(); });
    item.append(button);
    return item;
  }));
  return Plotly.react(plot, ...themed({ data: [...bounds, ...shown, ...notes], layout }), { ...OPTIONS, displayModeBar: narrow ? false : "hover" }).then(() => nameCurves(plot, false));
}
async function startMetric() {
  months.sort((one, other) => (one.header.month < other.header.month ? -1 : 1));
  $("curve").hidden = false;
  for (const id of ["size", "scale"]) $(id).addEventListener("change", drawMetric);
  await drawMetric();
  plot.on("plotly_click", ({ points: [{ customdata }] }) => { if (customdata) location.href = `../nights/${customdata}.html`; });
}

// A page that says how things are now says so, too, when that was long ago: nobody may have built it since.
function sayAge(card) {
  const age = (Date.now() - Date.parse(card.dataset.started)) / 3600e3, line = card.querySelector(".stale");
  if (age <= Number(card.dataset.hours)) return;
  line.textContent = `Not measured since: the last session is ${age < 72 ? `${Math.round(age)} hours` : `${Math.floor(age / 24)} days`} old, or this page was not written again.`;
  line.hidden = false;
  card.classList.add("old");
}
/** Open what the address names, wherever it is folded away. */
function openNamed() {
  let name = "";
  try { name = decodeURIComponent(location.hash.slice(1)); } catch { return; } // somebody cut the address short
  for (let one = $(name); one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  $(name)?.scrollIntoView();
}
addEventListener("hashchange", openNamed);
// What is folded away is printed, too.
addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((one) => { one.open = true; one.dataset.folded = "yes"; }));
addEventListener("afterprint", () => document.querySelectorAll("details[data-folded]").forEach((one) => { one.open = false; delete one.dataset.folded; }));
addEventListener("DOMContentLoaded", async () => {
  document.querySelectorAll(".card[data-started]").forEach(sayAge);
  openNamed();
  drawSmall();
  if (family) await startMetric();
  const drawAll = () => { drawSmall(); if (family) drawMetric(); };
  darkQuery.addEventListener("change", drawAll);
  drawForPaper(drawAll);
  document.documentElement.dataset.ready = "yes";
});
})();
