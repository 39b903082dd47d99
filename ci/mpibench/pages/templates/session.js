// The page of a session: charts under a chosen condition, the map of pinning and processes per node, the panel of a case.
const $ = (id) => document.getElementById(id), chunks = {};
/** Decode an embedded JSON block once, when it is first needed. */
const chunk = (id) => (chunks[id] ??= JSON.parse($(id).textContent));
const index = chunk("index"), { dimensions, stacks, measures, cases, quantities } = index, names = Object.keys(dimensions);

/** Build an element. Text is only ever set as text: outputs and names come from outside. */
function el(tag, attributes, ...children) {
  const { on = {}, ...plain } = attributes, node = document.createElement(tag);
  for (const [event, handler] of Object.entries(on)) node.addEventListener(event, handler);
  for (const [key, value] of Object.entries(plain)) if (value !== undefined) node.setAttribute(key, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== ""));
  return node;
}
/** Four significant digits, as in the tables of the page. */
function number(value) {
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}
function sizeText(size) {
  if (size === null) return "no size";
  for (const [factor, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) if (size >= factor && size % factor === 0) return `${size / factor} ${unit}`;
  return `${size} B`;
}
const withUnit = (value, unit) => (unit ? `${number(value)} ${unit}` : number(value));
const betterText = ({ direction }) => (direction === "none" ? "" : `${direction} is better`);
const titled = ({ title, unit }) => (unit ? `${title} (${unit})` : title);
const valueText = (name, value) => dimensions[name].texts[dimensions[name].values.indexOf(value)] ?? String(value);
const conditionText = (condition, of = names) => of.map((name) => `${dimensions[name].label.toLowerCase()} ${valueText(name, condition[name])}`);
const common = () => Object.fromEntries(names.map((name) => [name, dimensions[name].first]));
const isUnder = (one, condition, of = names) => of.every((name) => one[name] === condition[name]);
/** Median, smallest and largest of the repeats; null if no repeat gave a value. */
function spread(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b), half = sorted.length >> 1;
  if (!sorted.length) return null;
  return { mid: sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2, low: sorted[0], high: sorted.at(-1), count: sorted.length };
}
/** Size to median, range and place of each point of a curve. */
const pointsOf = (row) => new Map(row.x.map((size, at) => [size, { ...spread(row.y[at]), at }]).filter(([, point]) => point.count));
const stackName = (stack) => el("span", { class: `stack s${stack % index.symbols.length}` }, stacks[stack]);

// What is drawn when it comes into view, and drawn again for another theme or paper.
const lazy = new Map();
const seen = new IntersectionObserver((entries) => { for (const { isIntersecting, target } of entries) if (isIntersecting) show(target); }, { rootMargin: "300px 0px" });
function later(node, draw) { lazy.set(node, draw); seen.observe(node); return node; }
function show(node) {
  seen.unobserve(node);
  const draw = () => { if (lazy.has(node)) { lazy.get(node)(); node.dataset.drawn = "yes"; } };
  if (window.Plotly) draw(); else plotly.then(draw);
}
function forget(node) { seen.unobserve(node); lazy.delete(node); }
function redraw(all) { for (const node of lazy.keys()) if (all || node.dataset.drawn) show(node); }

/** A labelled select; options are [value, text]; values are compared and returned as they are. */
function select(label, options, current, change) {
  const node = el("select", { "aria-label": label, on: { change: () => change(options[Number(node.value)][0]) } });
  options.forEach(([value, text], at) => { node.append(Object.assign(el("option", { value: at }, text), { selected: value === current })); });
  return el("label", {}, label, node);
}
/** Put controls into a form; the one in use stays in use. */
function fill(form, controls) {
  const used = form.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  form.replaceChildren(...controls.filter(Boolean));
  if (used) form.querySelector(`[aria-label="${used}"]`)?.focus();
}

// Curves: one small chart per value of one dimension.

const PUBLISHED = "published"; // base of ratios: figures of a paper instead of a stack
const view = { facet: "measure", measure: 0, quantity: "main", ranks: "most", base: null, unproven: false, hidden: new Set(), published: true, ...common() };
const quantityOf = (measure, chosen = view.quantity) => (chosen === "main" ? measure.main : chosen);
const baseName = () => (view.base === PUBLISHED ? "the published figure" : stacks[view.base]);

/** Measured curves of one measure under one condition, those of hidden stacks left out. */
function measuredOf(measure, condition) {
  const most = {}, rows = chunk(measure.chunk).filter((row) => {
    const one = cases[row.c];
    if (row.q !== quantityOf(measure) || !(one.proven || view.unproven) || view.hidden.has(one.stack) || !isUnder(one, condition)) return false;
    most[row.c] = Math.max(most[row.c] || 0, row.r);
    return true;
  });
  return rows.filter((row) => row.r === (view.ranks === "most" ? most[row.c] : view.ranks))
    .map((row) => ({ row, case: cases[row.c], stack: cases[row.c].stack, name: stacks[cases[row.c].stack], points: pointsOf(row) }));
}
const otherMemory = ({ partition, fabric }) => index.beside[partition]?.[fabric];
/** The curves over the same links of the other memory, host or GPUs, drawn dashed. */
function besideOf(measure, condition) {
  const fabric = otherMemory(condition);
  return fabric ? measuredOf(measure, { ...condition, fabric }).map((line) => ({ ...line, name: `${line.name}, ${fabric}`, beside: true })) : [];
}
/** Published curves for a chart. Others measured them elsewhere: they have no case, no repeats and no proof. */
function publishedOf(measure, condition) {
  // Ranks that share cores are never beside ranks that had a core each.
  if (!view.published || cases.some((one) => one.oversubscribed && isUnder(one, condition))) return [];
  return measure.published.filter((one) => one.q === quantityOf(measure) && isUnder(one, condition, ["fabric", "nodes", "ppn"]))
    .map((one) => ({ ...one, name: one.source, points: new Map(one.x.map((size, at) => [size, { mid: one.y[at], low: one.y[at], high: one.y[at] }])) }));
}
/** The charts to show: title, measure, condition. */
function facets() {
  const condition = Object.fromEntries(names.map((name) => [name, view[name]])), measure = measures[view.measure];
  if (view.facet === "measure") return measures.filter((one) => one.quantities.includes(quantityOf(one))).map((one) => ({ title: one.label, measure: one, condition }));
  return dimensions[view.facet].values.map((value) => ({ title: conditionText({ [view.facet]: value }, [view.facet])[0], measure, condition: { ...condition, [view.facet]: value } }));
}
/** One line: its band, then itself; published ones dashed and hollow, in the colour of text, so that none is taken for a measurement. */
function traces(line, place, { quantity, base, log, zero, published }) {
  const by = (size) => (base ? base.get(size)?.mid : 1);
  const shown = [...line.points].filter(([size, { low }]) => by(size) && (!log || low > 0));
  if (!shown.length) return [];
  const sized = shown[0][0] !== null, paint = line.case ? colour(line.stack) : theme().soft;
  const x = shown.map(([size]) => (sized ? size || zero : line.name)), y = (key) => shown.map(([size, point]) => point[key] / by(size)), mid = y("mid"), low = y("low"), high = y("high");
  const text = shown.map(([size, point], at) => {
    if (!line.case) return `published, not measured here<br>${line.name}, ${sizeText(size)}: ${withUnit(point.mid, quantity.unit)}<br>${line.title}`;
    const other = published.find((one) => one.points.get(size)?.mid);
    const ratio = base ? `<br>${mid[at].toFixed(3)} of ${baseName()}` : other ? `<br>${(point.mid / other.points.get(size).mid).toFixed(3)} of ${other.name}` : "";
    return `${line.name}${sized ? `, ${sizeText(size)}` : ""}<br>${withUnit(point.mid, quantity.unit)} (${number(point.low)} to ${number(point.high)}, ${point.count} repeats)${ratio}`;
  });
  const symbol = line.case ? index.symbols[line.stack % index.symbols.length] + (line.beside ? "-open" : "") : ["circle-open", "square-open", "diamond-open"][place % 3];
  const own = { x, y: mid, type: "scatter", mode: sized ? "lines+markers" : "markers", name: line.name, showlegend: false, text, hovertemplate: "%{text}<extra></extra>",
    line: { color: paint, width: 1.6, dash: !line.case ? "dash" : !line.case.proven ? "dot" : line.beside ? "dash" : "solid" }, marker: { symbol, size: sized ? 5.5 : 9, color: paint },
    ...(line.case ? { customdata: shown.map(([, { at }]) => [line.row, at]) } : {}) };
  if (!line.case) return [own];
  if (!sized) return [{ ...own, error_y: { type: "data", symmetric: false, array: high.map((value, at) => value - mid[at]), arrayminus: low.map((value, at) => mid[at] - value), color: paint, thickness: 1.4, width: 6 } }];
  return [{ x: [...x, ...[...x].reverse()], y: [...high, ...low.reverse()], type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: paint, opacity: 0.25, hoverinfo: "skip", showlegend: false }, own];
}
/** 0 bytes stand one size before the smallest; the tick says 0. */
function sizeAxis(sizes, zero) {
  const positive = sizes.filter((size) => size > 0), top = Math.max(...positive, 1), bottom = Math.min(...positive, top), step = Math.max(1, Math.ceil(Math.log2(top) / 6));
  const ticks = positive.length <= 6 ? positive : Array.from({ length: 64 }, (_, at) => 2 ** (at * step)).filter((size) => size >= bottom && size <= top);
  const values = sizes.includes(0) ? [zero, ...(ticks.length > 1 ? ticks.slice(1) : ticks)] : ticks; // the first would meet the text of 0
  return { type: "log", title: { text: "message size (bytes)", standoff: 6 }, tickvals: values, range: [Math.log10((sizes.includes(0) ? zero : bottom) / 1.5), Math.log10(top * 1.5)],
    ticktext: values.map((value) => (sizes.includes(0) && value === zero ? "0" : sizeText(value).replace(" B", "").replace("iB", "i"))) };
}
/** Range of the values: one for all charts of the same quantity of the same benchmark, so that they compare at a glance. */
function rangeOf(lines, log) {
  const all = view.facet === "measure" ? lines : facets().flatMap(({ measure, condition }) => [...measuredOf(measure, condition), ...besideOf(measure, condition), ...publishedOf(measure, condition)]);
  const values = all.flatMap((line) => [line.row?.limit ?? [], ...[...line.points.values()].map(({ low, high }) => [low, high])].flat()).filter((value) => !log || value > 0);
  const low = Math.min(...values), high = Math.max(...values);
  return !(high > 0) ? {} : { range: log ? [Math.log10(low / 1.25), Math.log10(high * 1.25)] : [0, high * 1.06] };
}
/** Ticks: powers of ten, with 2 and 5 between them where there is room; plotly.js names this D2. */
const decades = ([low, high] = [0, 0]) => (high - low > 3.2 ? Math.ceil((high - low) / 6) : high - low > 0.7 ? "D2" : undefined);

function drawCurves(figure) {
  const { measure, condition } = figure.facet, plot = figure.querySelector(".plot"), quantity = quantities[quantityOf(measure)];
  const measured = measuredOf(measure, condition), published = publishedOf(measure, condition), beside = besideOf(measure, condition), lines = [...published, ...beside, ...measured];
  const empty = (text) => { plot.classList.add("empty"); plot.replaceChildren(text); };
  figure.querySelector(".absent").replaceChildren(...absent(measure, condition, measured), ...(beside.length ? [`Dashed: ${otherMemory(condition)}, over the same links.`] : []));
  figure.dataset.curves = measured.length;
  if (!measured.length) return empty("No proven measurement under this condition.");
  const sizes = [...new Set(lines.flatMap(({ points }) => [...points.keys()]))].filter((size) => size !== null).sort((a, b) => a - b);
  const base = view.base === null ? null : (view.base === PUBLISHED ? published[0] : measured.find(({ stack }) => stack === view.base))?.points ?? new Map();
  const log = quantity.log && !base && sizes.length > 0, zero = Math.min(...sizes.filter((size) => size > 0), 2) === Infinity ? 1 : (sizes.find((size) => size > 0) ?? 2) / 2;
  const data = lines.flatMap((line, place) => traces(line, place, { quantity, base, log, zero, published }));
  figure.dataset.published = data.length ? published.length : 0;
  if (!data.length) return empty(`Nothing of ${baseName()} to compare with.`);
  const range = base || !sizes.length ? {} : rangeOf(lines, log);
  // What the links carry; plotly.js wants places of texts on logarithmic axes as logarithms, and of lines as they are.
  const limits = base || !sizes.length ? [] : [...new Set(lines.map(({ row }) => row?.limit).filter(Boolean))];
  const shapes = limits.map((y) => ({ x0: 0, x1: 1, xref: "paper", y0: y, y1: y, line: { width: 1, dash: "dot", color: theme().soft } }));
  const annotations = limits.map((y) => ({ text: `line rate ${withUnit(y, quantity.unit)}`, x: 0, xref: "paper", xanchor: "left", y: log ? Math.log10(y) : y, yanchor: "top", showarrow: false, font: { size: printing ? 8 : 10, color: theme().soft } }));
  figure.dataset.limits = limits.join(" ");
  const layout = { ...(printing ? { autosize: false, width: 300, height: 195 } : { autosize: true }), margin: { l: 52, r: 8, t: 6, b: 40 }, hoverdistance: 12, shapes, annotations,
    font: { size: printing ? 9 : 11 }, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: sizes.length ? sizeAxis(sizes, zero) : { type: "category", title: { text: "stack", standoff: 6 }, range: [-0.6, measured.length - 0.4] },
    yaxis: { type: log ? "log" : "linear", zeroline: false, title: { text: base ? `ratio to ${baseName()}` : titled(quantity), standoff: 4 }, tickformat: "~g", nticks: 6, ...range,
      ...(log ? { dtick: decades(range.range) } : base ? {} : { rangemode: "tozero" }) } };
  Plotly.newPlot(plot, ...themed({ data, layout }), { ...OPTIONS, displayModeBar: false, showTips: false, responsive: !printing });
  if (sizes.length) nameCurves(plot, false);
  plot.on("plotly_click", ({ points: [{ customdata }] }) => { if (customdata) openPoint(measure, ...customdata); });
}
const ENDS = { failed: "✕ failed", unjudged: "○ not judged", interrupted: "■ interrupted", skipped: "– skipped", dry: "· dry run", retried: "↻ retried", known: "△" };
/** Cases of this condition that gave no curve here, so that a missing line is never silent. */
function absent(measure, condition, lines) {
  const drawn = new Set(lines.map(({ row }) => row.c)), listed = new Set([...lines.map(({ stack }) => stack), ...view.hidden]);
  const ended = cases.flatMap((one, at) => {
    if (one.stack < 0 || one.group !== measure.group || drawn.has(at) || view.hidden.has(one.stack) || !ENDS[one.outcome] || !isUnder(one, condition)) return [];
    listed.add(one.stack);
    return [stackName(one.stack), " ", el("button", { type: "button", class: "case", "data-case": at }, ENDS[one.outcome]), "  "];
  });
  return [...ended, ...stacks.flatMap((_, stack) => (listed.has(stack) ? [] : [stackName(stack), " no case  "]))];
}
/** The same numbers as a table, for readers without a pointer and for copying. */
function toggleTable(figure, button) {
  const old = figure.querySelector(".scroll");
  button.setAttribute("aria-expanded", String(!old));
  if (old) return old.remove();
  const { measure, condition } = figure.facet, measured = [...measuredOf(measure, condition), ...besideOf(measure, condition)], published = publishedOf(measure, condition);
  const sizes = [...new Set([...measured, ...published].flatMap(({ points }) => [...points.keys()]))].sort((a, b) => a - b);
  const cell = (line) => [line.name, (size) => {
    const point = line.points.get(size), open = { click: () => openPoint(measure, line.row, point.at) };
    return point ? el("button", { type: "button", class: "plain", title: `${number(point.low)} to ${number(point.high)}`, on: open }, number(point.mid)) : "";
  }];
  const over = (line, other) => [`${line.name} over published`, (size) => { const ours = line.points.get(size)?.mid, theirs = other.points.get(size)?.mid; return ours && theirs ? (ours / theirs).toFixed(3) : ""; }];
  const plain = (one) => [`published: ${one.name}`, (size) => (one.points.has(size) ? number(one.points.get(size).mid) : "")];
  const columns = [...measured.map(cell), ...published.flatMap((one) => [plain(one), ...measured.map((line) => over(line, one))])];
  const row = (kind, first, rest) => el("tr", {}, el(kind, {}, first), rest.map((text) => el(kind, { class: "num" }, text)));
  figure.append(el("div", { class: "scroll" }, el("table", {}, el("thead", {}, row("th", `size; median in ${quantities[quantityOf(measure)].unit || "1"}`, columns.map(([head]) => head))),
    el("tbody", {}, sizes.map((size) => row("td", sizeText(size), columns.map(([, text]) => text(size))))))));
}
function showCharts() {
  for (const figure of $("charts").children) { forget(figure); if (window.Plotly) Plotly.purge(figure.querySelector(".plot")); }
  $("charts").replaceChildren(...facets().map((facet) => {
    const control = (text, click, more = {}) => { const button = el("button", { type: "button", class: "plain", ...more, on: { click: () => click(button) } }, text); return button; };
    const plot = el("div", { class: "plot" }), figure = el("figure", {}, el("figcaption", {}, el("b", {}, facet.title, " ", el("small", {}, betterText(quantities[quantityOf(facet.measure)]))),
      control("values", (button) => toggleTable(figure, button), { "aria-expanded": "false" }),
      control("larger", (button) => { button.textContent = figure.classList.toggle("wide") ? "smaller" : "larger"; if (plot.data) Plotly.Plots.resize(plot); })), plot, el("p", { class: "absent" }));
    return later(Object.assign(figure, { facet }), () => drawCurves(figure));
  }));
}
function showControls() {
  const many = names.filter((name) => dimensions[name].values.length > 1), fixed = names.filter((name) => dimensions[name].values.length === 1);
  const update = () => { showControls(); showCharts(); }, change = (key) => (value) => { view[key] = value; update(); };
  const shown = view.facet === "measure" ? measures : [measures[view.measure]], sources = [...new Set(measures.flatMap(({ published }) => published.map(({ source }) => source)))];
  const present = [...new Set(shown.flatMap((measure) => measure.quantities))], ranks = [...new Set(shown.flatMap((measure) => measure.ranks))].sort((a, b) => a - b);
  if (!present.includes(view.quantity)) view.quantity = "main";
  fill($("curve-controls"), [
    select("One chart per", [["measure", "benchmark"], ...many.map((name) => [name, dimensions[name].label.toLowerCase()])], view.facet, change("facet")),
    view.facet !== "measure" && select("Benchmark", measures.map(({ label }, at) => [at, label]), view.measure, change("measure")),
    select("Quantity", [["main", "main quantity of each"], ...present.map((name) => [name, quantities[name].title])], view.quantity, change("quantity")),
    ...many.filter((name) => name !== view.facet).map((name) => dimensionSelect(name, view, change(name))),
    (stacks.length > 1 || sources.length > 0) && select("Show", [[null, "values"], ...stacks.map((name, stack) => [stack, `ratio to ${name}`]), ...(sources.length ? [[PUBLISHED, "ratio to published figures"]] : [])], view.base, change("base")),
    measures.some(({ nested }) => nested) && select("Ranks", [["most", "all of the job"], ...ranks.map((value) => [value, String(value)])], view.ranks, change("ranks")),
    index.unproven && el("label", { class: "check" }, Object.assign(el("input", { type: "checkbox", on: { change: ({ target }) => change("unproven")(target.checked) } }), { checked: view.unproven }), "also without proof (dotted)"),
    fixed.length > 0 && el("small", {}, `Everywhere: ${conditionText(common(), fixed).join(", ")}.`),
  ]);
  const what = view.facet === "measure" ? [] : [measures[view.measure].label];
  $("curve-condition").textContent = `${[...what, ...conditionText(view, names.filter((name) => name !== view.facet))].join(", ")}.`;
  const toggle = (pressed, click, name) => el("li", {}, el("button", { type: "button", "aria-pressed": String(pressed), title: "show or hide", on: { click: () => { click(); update(); } } }, name));
  $("legend").replaceChildren(...stacks.map((_, stack) => toggle(!view.hidden.has(stack), () => view.hidden.delete(stack) || view.hidden.add(stack), stackName(stack))),
    ...(sources.length ? [toggle(view.published, () => { view.published = !view.published; if (view.base === PUBLISHED) view.base = null; }, el("span", { class: "stack published" }, `published: ${sources.join(", ")}`))] : []));
}
const dimensionSelect = (name, chosen, change) => select(dimensions[name].label, dimensions[name].values.map((value, at) => [value, dimensions[name].texts[at]]), chosen[name], change);

// The map of pinning and processes per node: one per stack, all on one scale.

const heat = { measure: 0, quantity: "main", size: undefined, ...common() }, FIXED = ["fabric", "nodes", "partition"];
function showMaps() {
  const measure = measures[heat.measure];
  if (!measure.quantities.includes(heat.quantity)) heat.quantity = "main";
  const name = quantityOf(measure, heat.quantity), quantity = quantities[name], lower = quantity.direction === "lower", sizes = measure.sizes.length ? measure.sizes : [null];
  // The size people ask for first: the largest for rates, 8 bytes or the smallest that carries data for times.
  if (!sizes.includes(heat.size)) heat.size = !lower ? sizes.at(-1) : sizes.includes(8) ? 8 : sizes.find((size) => size > 0) ?? sizes[0];
  const cells = new Map(), key = ({ stack, ppn, pinning }) => JSON.stringify([stack, ppn, pinning]);
  for (const row of chunk(measure.chunk)) { // the curve with the most ranks of its job
    const one = cases[row.c], point = row.q === name && one.proven && isUnder(one, heat, FIXED) && pointsOf(row).get(heat.size), place = key(one);
    if (point && !(cells.get(place)?.row.r > row.r)) cells.set(place, { row, point });
  }
  const values = [...cells.values()].map(({ point }) => point.mid).filter((value) => value > 0), best = lower ? Math.min(...values) : Math.max(...values);
  const used = stacks.map((_, stack) => stack).filter((stack) => [...cells.keys()].some((place) => JSON.parse(place)[0] === stack)), { ppn, pinning } = dimensions;
  const cell = (stack, at, policy) => {
    const found = cells.get(key({ stack, ppn: at, pinning: policy }));
    if (found) {
      const { mid, low, high, count } = found.point, ratio = quantity.direction !== "none" && mid > 0 ? (lower ? mid / best : best / mid) : null;
      const open = { click: () => openPoint(measure, found.row, found.point.at) }, title = `${number(low)} to ${withUnit(high, quantity.unit)}, ${count} repeats`;
      return el("td", { style: `--strength: ${ratio === null ? 0 : 50 / ratio ** 1.2}%` }, el("button", { type: "button", class: "plain", title, on: open }, number(mid)),
        ratio === null ? "" : el("small", {}, ratio < 1.005 ? "best" : `\u00d7 ${ratio.toFixed(2)}`));
    }
    // A cell without a number says why, if a case was to fill it.
    const at_ = cases.findIndex((one) => one.stack === stack && one.ppn === at && one.pinning === policy && one.group === measure.group && isUnder(one, heat, FIXED)), why = ENDS[cases[at_]?.outcome];
    return el("td", {}, why ? el("button", { type: "button", class: "case", "data-case": at_ }, why) : "");
  };
  const head = (text, scope) => el("th", { scope }, text), row = (stack, at, place) => el("tr", {}, head(ppn.texts[place], "row"), pinning.values.map((policy) => cell(stack, at, policy)));
  $("maps").replaceChildren(...(used.length ? used.map((stack) => el("figure", {}, el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "map" }, el("caption", {}, stackName(stack)),
    el("thead", {}, el("tr", {}, ["per node", ...pinning.texts].map((text) => head(text, "col")))), el("tbody", {}, ppn.values.map((at, place) => row(stack, at, place))))))) : [el("p", {}, "No proven measurement under this condition.")]));
  $("heat-better").textContent = betterText(quantity);
  $("heat-condition").textContent = `${[measure.label, titled(quantity), sizeText(heat.size), ...conditionText(heat, FIXED)].join(", ")}.`;
  const change = (what) => (value) => { heat[what] = value; showMaps(); };
  fill($("heat-controls"), [
    select("Benchmark", measures.map(({ label }, at) => [at, label]), heat.measure, change("measure")),
    select("Quantity", measure.quantities.map((one) => [one, titled(quantities[one])]), name, change("quantity")),
    sizes.length > 1 && select("Message size", sizes.map((size) => [size, sizeText(size)]), heat.size, change("size")),
    ...FIXED.filter((one) => dimensions[one].values.length > 1).map((one) => dimensionSelect(one, heat, change(one))),
  ]);
}

// The panel of one case, opened from any number on the page, or by #case-<n>.

const panel = $("panel"), templates = document.querySelectorAll("template");
let opener = null, clicked = null;
function openCase(at, point = null) {
  opener = document.activeElement;
  clicked = { at, point };
  if (location.hash === `#case-${at}`) followHash();
  else location.hash = `#case-${at}`;
}
function openPoint(measure, row, at) {
  const { title, unit } = quantities[row.q], found = spread(row.y[at]), repeats = row.y[at].map((value, place) => `${place + 1}: ${value === null ? "no value" : withUnit(value, unit)}`);
  openCase(row.c, [el("b", {}, `${measure.label}, ${title}, ${sizeText(row.x[at])}, ${row.r} ranks`),
    el("div", {}, found ? `median ${withUnit(found.mid, unit)}, ${number(found.low)} to ${withUnit(found.high, unit)}` : "no value"), el("div", {}, `repeats ${repeats.join("; ")}`)]);
}
function closePanel() {
  if (panel.hidden) return;
  panel.hidden = true;
  clicked = null;
  history.replaceState(null, "", location.pathname + location.search);
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}
function followHash() {
  const template = templates[/^#case-(\d+)$/.exec(location.hash)?.[1]];
  panel.hidden = !template;
  if (!template) return;
  const close = el("button", { type: "button", class: "close", on: { click: closePanel } }, "Close");
  panel.replaceChildren(close, ...template.content.firstElementChild.cloneNode(true).children);
  if (clicked?.point && location.hash === `#case-${clicked.at}`) Object.assign(panel.querySelector(".point"), { hidden: false }).append(...clicked.point);
  panel.scrollTop = 0;
  close.focus({ preventScroll: true });
}
document.addEventListener("click", ({ target }) => { const button = target.closest("button.case[data-case]"); if (button) openCase(Number(button.dataset.case)); });
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") closePanel(); });
window.addEventListener("hashchange", followHash);

for (const node of document.querySelectorAll("[data-figure]")) {
  const figure = JSON.parse(node.dataset.figure), margin = { l: 60, r: 12, t: figure.layout.title ? 40 : 12, b: 44 };
  later(node, () => {
    Plotly.react(node, ...themed({ ...figure, layout: { margin, ...figure.layout, ...paperSize(node) } }), { ...OPTIONS, displayModeBar: false });
    if (figure.layout.meta === "named curves") nameCurves(node, false);
  });
}
if (measures.length) { showControls(); showCharts(); showMaps(); }
else for (const id of ["charts", "maps"]) $(id).replaceChildren(el("p", {}, "Nothing was measured."));
followHash();
darkQuery.addEventListener("change", () => redraw(false));
drawForPaper(() => redraw(printing));

const rows = [...document.querySelectorAll("#evidence-table tbody tr")];
$("filter").addEventListener("input", () => {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  $("filter-count").textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
});
document.documentElement.dataset.ready = "yes";
