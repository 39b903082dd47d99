// The map of pinning x processes per node: one table per stack, all on one scale.

const heat = { measure: 0, quantity: "main", size: undefined, fabric: view.fabric, nodes: view.nodes, partition: view.partition };
const FIXED = ["fabric", "nodes", "partition"];

const heatQuantity = () => { const measure = index.measures[heat.measure]; return heat.quantity === "main" ? measure.main : heat.quantity; };

/** The curve of each (stack, ppn, pinning) with the most ranks of its job. */
function heatRows(measure, quantity) {
  const best = new Map();
  for (const row of chunk(measure.chunk)) {
    const one = index.cases[row.c];
    if (row.q !== quantity || !one.proven || !FIXED.every((name) => one[name] === heat[name])) continue;
    const key = JSON.stringify([one.stack, one.ppn, one.pinning]);
    if (!best.has(key) || best.get(key).r <= row.r) best.set(key, row);
  }
  return best;
}

/** The size people ask for first: the largest for rates, 8 bytes or the smallest that carries data for times. */
function usualSize(sizes, quantity) {
  if (quantity.direction !== "lower") return sizes[sizes.length - 1];
  return sizes.includes(8) ? 8 : sizes.find((size) => size > 0) ?? sizes[0];
}

function showMaps() {
  const measure = index.measures[heat.measure];
  const name = heatQuantity(), quantity = index.quantities[name];
  const rows = heatRows(measure, name);
  const sizes = measure.sizes.length ? measure.sizes : [null];
  if (!sizes.includes(heat.size)) heat.size = usualSize(sizes, quantity);
  const cells = new Map();
  for (const [key, row] of rows) {
    const position = row.x.indexOf(heat.size), at = position < 0 ? null : spread(row.y[position]);
    if (at) cells.set(key, { row, position, at });
  }
  const values = [...cells.values()].map(({ at }) => at.mid).filter((value) => value > 0);
  const judged = quantity.direction !== "none" && values.length > 0;
  const best = quantity.direction === "lower" ? Math.min(...values) : Math.max(...values);
  const worse = (value) => (quantity.direction === "lower" ? value / best : best / value);
  const ppns = valuesOf("ppn"), policies = valuesOf("pinning");
  const cell = (stack, ppn, pinning) => {
    const found = cells.get(JSON.stringify([stack, ppn, pinning]));
    if (!found) return missingCell(measure, stack, ppn, pinning);
    const value = found.at.mid, ratio = judged && value > 0 ? worse(value) : null;
    const strength = ratio === null ? 0 : 0.5 / ratio ** 1.2;
    return el("td", { style: { background: `rgba(var(--heat), ${strength.toFixed(3)})` } },
      el("button", { type: "button", class: "case", title: `${number(found.at.low)} to ${withUnit(found.at.high, quantity.unit)}, ${found.at.count} repeats`,
        on: { click: () => clickPoint(measure, [found.row, found.position]) } }, number(value), el("small", {}, ratio === null ? "" : ratio < 1.005 ? "best" : `× ${ratio.toFixed(2)}`)));
  };
  const used = index.stacks.map((_, stack) => stack).filter((stack) => [...cells.keys()].some((key) => JSON.parse(key)[0] === stack));
  document.getElementById("maps").replaceChildren(...(used.length ? used.map((stack) => el("div", { class: "scroll" }, el("table", {},
    el("caption", {}, stackName(stack)),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "ppn"), policies.map((policy) => el("th", { scope: "col" }, policy)))),
    el("tbody", {}, ppns.map((ppn) => el("tr", {}, el("th", { scope: "row" }, ppnText(ppn)), policies.map((policy) => cell(stack, ppn, policy)))))))) : [el("p", {}, "No proven measurement under this condition.")]));
  document.getElementById("heat-condition").textContent = [measure.label, `${quantity.title}${quantity.unit ? ` (${quantity.unit})` : ""}`,
    sizeText(heat.size), ...FIXED.map((dimension) => `${DIMENSIONS[dimension].label.toLowerCase()} ${DIMENSIONS[dimension].text(heat[dimension])}`)].join(", ") + ".";
  showHeatControls(measure, sizes);
}

/** A cell without a number says why, if a case was to fill it. */
function missingCell(measure, stack, ppn, pinning) {
  const number = index.cases.findIndex((one) => one.stack === stack && one.ppn === ppn && one.pinning === pinning && one.group === measure.group && FIXED.every((name) => one[name] === heat[name]));
  if (number < 0) return el("td", {});
  const words = { failed: "✕ failed", interrupted: "■ interrupted", skipped: "– skipped", dry: "· dry run", retried: "↻ retried" };
  const word = words[index.cases[number].outcome];
  return el("td", {}, word ? el("button", { type: "button", class: "case", "data-case": number }, word) : "");
}

function showHeatControls(measure, sizes) {
  const change = (key) => (value) => { heat[key] = value; if (key === "measure" && heat.quantity !== "main" && !index.measures[value].quantities.includes(heat.quantity)) heat.quantity = "main"; showMaps(); };
  const title = (name) => `${index.quantities[name].title}${index.quantities[name].unit ? ` (${index.quantities[name].unit})` : ""}`;
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.name : null;
  const form = document.getElementById("heat-controls");
  const inside = form.contains(document.activeElement);
  form.replaceChildren(...[
    select("Benchmark", index.measures.map((one, position) => [position, one.label]), heat.measure, change("measure")),
    select("Quantity", measure.quantities.map((name) => [name, title(name)]), heatQuantity(), change("quantity")),
    sizes.length > 1 ? select("Message size", sizes.map((size) => [size, sizeText(size)]), heat.size, change("size")) : null,
    ...FIXED.filter((name) => valuesOf(name).length > 1).map((name) => select(DIMENSIONS[name].label, valuesOf(name).map((value) => [value, DIMENSIONS[name].text(value)]), heat[name], change(name))),
  ].filter(Boolean));
  if (inside && focused) { const again = form.querySelector(`[data-name="${focused}"]`); if (again) again.focus(); }
}
