// Curves: one small chart per value of one dimension, drawn when it scrolls into view.

/** Where 0 bytes stand on a logarithmic axis: one size before the smallest; the tick says 0. */
function zeroOf(sizes) {
  const positive = sizes.filter((size) => size > 0);
  return positive.length ? Math.min(...positive) / 2 : 1;
}
const names = Object.keys(DIMENSIONS);
const view = {
  facet: "measure", measure: 0, quantity: "main", ranks: "most", base: null, unproven: false, hidden: new Set(), published: true, ...commonCondition(names),
};
const charts = document.getElementById("charts");
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
}, { rootMargin: "300px 0px" });

const quantityOf = (measure) => (view.quantity === "main" ? measure.main : view.quantity);

/** Curves of one measure under one condition, those of hidden stacks left out. */
function curvesOf(measure, condition) {
  const quantity = quantityOf(measure);
  const most = new Map();
  const rows = chunk(measure.chunk).filter((row) => {
    const one = index.cases[row.c];
    if (row.q !== quantity || !(one.proven || view.unproven) || view.hidden.has(one.stack)) return false;
    if (!names.every((name) => one[name] === condition[name])) return false;
    most.set(row.c, Math.max(most.get(row.c) || 0, row.r));
    return true;
  });
  return rows.filter((row) => (view.ranks === "most" ? row.r === most.get(row.c) : row.r === view.ranks));
}

/** Base of ratios: figures of a paper instead of a stack. */
const PUBLISHED = "published";
/** Published curves for a chart. Others measured them elsewhere: they have no case, no repeats and no proof. */
function publishedOf(measure, condition) {
  const quantity = quantityOf(measure);
  // Ranks that share cores are never beside ranks that had a core each.
  if (index.cases.some((one) => one.oversubscribed && names.every((name) => one[name] === condition[name]))) return [];
  return view.published ? measure.published.filter((one) => one.q === quantity && ["fabric", "nodes", "ppn"].every((name) => one[name] === condition[name])) : [];
}

/** The charts to show: title, measure, condition. */
function facets() {
  const condition = Object.fromEntries(names.map((name) => [name, view[name]]));
  if (view.facet === "measure") {
    return index.measures
      .filter((measure) => measure.quantities.includes(quantityOf(measure)))
      .map((measure) => ({ title: measure.label, measure, condition }));
  }
  const measure = index.measures[view.measure];
  return valuesOf(view.facet).map((value) => ({
    title: `${DIMENSIONS[view.facet].label.toLowerCase()} ${DIMENSIONS[view.facet].text(value)}`,
    measure, condition: { ...condition, [view.facet]: value },
  }));
}

function sizeAxis(sizes) {
  const positive = sizes.filter((size) => size > 0);
  const top = Math.max(...positive, 1);
  const step = Math.max(1, Math.ceil(Math.log2(top) / 6));
  const few = positive.length <= 6;
  const ticks = few ? positive : [];
  for (let power = 0; !few && 2 ** power <= top; power += step) if (2 ** power >= Math.min(...positive)) ticks.push(2 ** power);
  const zero = zeroOf(sizes);
  const values = sizes.includes(0) ? [zero, ...ticks] : ticks;
  const first = sizes.includes(0) ? zero : Math.min(...positive, top);
  return {
    type: "log", title: { text: "message size (bytes)", standoff: 6 }, tickvals: values,
    ticktext: values.map((value) => (sizes.includes(0) && value === zero ? "0" : sizeText(value).replace(" B", "").replace("iB", "i"))),
    range: [Math.log10(first / 1.5), Math.log10(top * 1.5)], fixedrange: false,
  };
}

const baseName = () => (view.base === PUBLISHED ? "the published figure" : index.stacks[view.base]);
/** What values are divided by, per size: medians of a stack or published figures; null where values are shown as they are. */
function baseOf(rows, published) {
  if (view.base === null) return null;
  if (view.base === PUBLISHED) return new Map(published.length ? published[0].x.map((size, at) => [size, published[0].y[at]]) : []);
  const row = rows.find((one) => index.cases[one.c].stack === view.base);
  return new Map(row ? row.x.map((size, position) => [size, (spread(row.y[position]) || {}).mid]) : []);
}
/** Points of a curve that can be drawn, each divided by the base where there is one. */
function pointsOf(row, base, log) {
  return row.x.map((size, position) => {
    const at = spread(row.y[position]), by = base ? base.get(size) : 1;
    return { size, position, at: at && by ? { mid: at.mid / by, low: at.low / by, high: at.high / by } : null, found: at };
  }).filter(({ at }) => at && (!log || at.low > 0));
}
/** How a value stands to the published figure of the same size; empty where there is none. */
function ratioText(value, size, published) {
  const one = published.find((curve) => curve.y[curve.x.indexOf(size)]);
  return one ? `<br>${(value / one.y[one.x.indexOf(size)]).toFixed(3)} of ${one.source}` : "";
}
const hoverText = (name, size, found, at, quantity, published) =>
  `${name}${size === null ? "" : `, ${sizeText(size)}`}<br>${withUnit(found.mid, quantity.unit)} (${number(found.low)} to ${number(found.high)}, ${found.count} repeats)`
  + (view.base === null ? ratioText(found.mid, size, published) : `<br>${at.mid.toFixed(3)} of ${baseName()}`);

/** Published curves: dashed, hollow, in the colour of text, so that none is taken for a measurement. */
function publishedTraces(published, quantity, base, log, zero) {
  const { soft } = themeColours();
  return published.map((one, position) => {
    const points = one.x.map((size, at) => ({ size, value: one.y[at], by: base ? base.get(size) : 1 })).filter(({ value, by }) => by && (!log || value > 0));
    return {
      x: points.map(({ size }) => size || zero), y: points.map(({ value, by }) => value / by), type: "scatter", mode: "lines+markers", name: one.source, showlegend: false,
      line: { color: soft, width: 1.4, dash: "dash" }, marker: { symbol: ["circle-open", "square-open", "diamond-open"][position % 3], size: 6, color: soft },
      text: points.map(({ size, value }) => `published, not measured here<br>${one.source}, ${sizeText(size)}: ${withUnit(value, quantity.unit)}<br>${one.title}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }).filter(({ x }) => x.length);
}

function traces(rows, quantity, base, log, zero, published) {
  const found = [];
  for (const row of rows) {
    const one = index.cases[row.c];
    const points = pointsOf(row, base, log);
    if (!points.length) continue;
    const x = points.map(({ size }) => size || zero);
    const name = index.stacks[one.stack];
    const dash = one.proven ? "solid" : "dot";
    found.push({
      x: [...x, ...[...x].reverse()], y: [...points.map(({ at }) => at.high), ...points.map(({ at }) => at.low).reverse()],
      type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: colour(one.stack), opacity: 0.25, hoverinfo: "skip", showlegend: false,
    }, {
      x, y: points.map(({ at }) => at.mid), type: "scatter", mode: "lines+markers", name,
      line: { color: colour(one.stack), width: 1.6, dash }, marker: { symbol: index.symbols[one.stack % index.symbols.length], size: 5.5, color: colour(one.stack) },
      customdata: points.map(({ position }) => [row, position]),
      text: points.map((one) => hoverText(name, one.size, one.found, one.at, quantity, published)),
      hovertemplate: "%{text}<extra></extra>", showlegend: false,
    });
  }
  return found;
}

/** Benchmarks without a message size: one point per stack with its spread, from zero. */
function bars(rows, quantity, base) {
  return rows.flatMap((row) => pointsOf(row, base, false).map(({ at, found }) => {
    const one = index.cases[row.c], name = index.stacks[one.stack];
    return {
      x: [name], y: [at.mid], type: "scatter", mode: "markers", showlegend: false, customdata: [[row, 0]],
      marker: { symbol: index.symbols[one.stack % index.symbols.length], size: 9, color: colour(one.stack) },
      error_y: { type: "data", symmetric: false, array: [at.high - at.mid], arrayminus: [at.mid - at.low], color: colour(one.stack), thickness: 1.4, width: 6 },
      text: [hoverText(name, null, found, at, quantity, [])], hovertemplate: "%{text}<extra></extra>",
    };
  }));
}

/** Range of an axis: one for all charts that show the same quantity of the same benchmark, so that they compare at a glance. */
function rangeOf(rows, log, published) {
  if (view.base !== null) return undefined;
  let low = Infinity, high = 0;
  const shown = view.facet === "measure" ? null : facets();
  const all = shown ? shown.flatMap(({ measure, condition }) => curvesOf(measure, condition)) : rows;
  const others = shown ? shown.flatMap(({ measure, condition }) => publishedOf(measure, condition)) : published;
  for (const row of [...all, ...others.map((one) => ({ y: one.y.map((value) => [value]) }))])
    for (const values of row.y) for (const value of numbersOf(values)) if (!log || value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
  if (!(high > 0)) return undefined;
  return log ? [Math.log10(low / 1.25), Math.log10(high * 1.25)] : [0, high * 1.06];
}

/** Ticks of a logarithmic axis: powers of ten, with 2 and 5 between them where there is room; plotly.js names this D2. */
const decades = ([low, high]) => (high - low > 3.2 ? Math.ceil((high - low) / 6) : high - low > 0.7 ? "D2" : undefined);

function layout(rows, quantity, log, sizes, range) {
  const theme = themeColours();
  const axis = { gridcolor: theme.grid, linecolor: theme.grid, zeroline: false, color: theme.soft, automargin: true };
  const unit = quantity.unit ? ` (${quantity.unit})` : "";
  const text = view.base === null ? `${quantity.title}${unit}` : `ratio to ${baseName()}`;
  const measured = sizes.length > 0;
  const size = printing ? { autosize: false, width: 300, height: 195 } : { autosize: true };
  return {
    ...size, margin: { l: 52, r: 8, t: 6, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    font: { family: getComputedStyle(document.body).fontFamily, size: printing ? 9 : 11, color: theme.soft }, hovermode: "closest", hoverdistance: 12,
    hoverlabel: { bgcolor: isDark() ? "#22282d" : "#ffffff", bordercolor: theme.soft, font: { family: getComputedStyle(document.body).fontFamily, color: theme.ink, size: 12 } },
    xaxis: { ...axis, ...(measured ? sizeAxis(sizes) : { type: "category", title: { text: "stack", standoff: 6 }, range: [-0.6, rows.length - 0.4] }) },
    yaxis: {
      ...axis, type: measured && log ? "log" : "linear", title: { text, standoff: 4 }, tickformat: "~g", nticks: 6, minor: { showgrid: false },
      ...(range && measured ? { range, ...(log ? { dtick: decades(range) } : {}) } : {}), ...((measured && log) || view.base !== null ? {} : { rangemode: "tozero" }),
    },
  };
}

const PLAIN = { displayModeBar: false, showTips: false, doubleClick: "reset" };

function draw(figure) {
  seen.unobserve(figure);
  const { measure, condition } = figure.facet;
  const plot = figure.querySelector(".plot");
  const rows = curvesOf(measure, condition);
  const quantity = index.quantities[quantityOf(measure)];
  figure.querySelector(".absent").replaceChildren(...absent(measure, condition, rows));
  figure.dataset.drawn = "yes";
  figure.dataset.curves = rows.length;
  if (!rows.length) {
    plot.classList.add("empty");
    plot.replaceChildren("No proven measurement under this condition.");
    return;
  }
  const published = publishedOf(measure, condition);
  const sizes = [...new Set([...rows, ...published].flatMap((row) => row.x))].filter((size) => size !== null).sort((a, b) => a - b);
  const base = baseOf(rows, published), log = quantity.log && !base;
  const found = sizes.length ? traces(rows, quantity, base, log, zeroOf(sizes), published) : bars(rows, quantity, base);
  figure.dataset.published = found.length ? published.length : 0;
  if (found.length) found.unshift(...publishedTraces(published, quantity, base, log, zeroOf(sizes)));
  if (!found.length) {
    plot.classList.add("empty");
    plot.replaceChildren(`Nothing of ${baseName()} to compare with.`);
    return;
  }
  plotly().newPlot(plot, found, layout(rows, quantity, log, sizes, rangeOf(rows, log, published)), { ...PLAIN, responsive: !printing });
  plot.on("plotly_click", ({ points }) => { if (points[0].customdata) clickPoint(measure, points[0].customdata); });
}
function clickPoint(measure, [row, position]) {
  openCase(row.c, { label: measure.label, quantity: index.quantities[row.q], size: row.x[position], ranks: row.r, values: row.y[position] });
}

/** Cases of this condition that gave no curve here, so that a missing line is never silent. */
function absent(measure, condition, rows) {
  const drawn = new Set(rows.map((row) => row.c));
  const marks = { failed: "✕ failed", interrupted: "■ interrupted", skipped: "– skipped", dry: "· dry run", retried: "↻ retried", known: "△" };
  const listed = new Set(rows.map((row) => index.cases[row.c].stack));
  const found = index.cases.flatMap((one, number) => {
    if (one.stack < 0 || one.group !== measure.group || drawn.has(number) || view.hidden.has(one.stack) || !marks[one.outcome]) return [];
    if (!names.every((name) => one[name] === condition[name])) return [];
    listed.add(one.stack);
    return [stackName(one.stack), " ", el("button", { type: "button", class: "case", "data-case": number }, marks[one.outcome]), "  "];
  });
  const without = index.stacks.map((_, stack) => stack).filter((stack) => !listed.has(stack) && !view.hidden.has(stack));
  return [...found, ...without.flatMap((stack) => [stackName(stack), " no case  "])];
}

/** The same numbers as a table, for readers without a pointer and for copying. */
function toggleTable(figure, button) {
  const old = figure.querySelector(".scroll");
  button.setAttribute("aria-expanded", String(!old));
  if (old) { old.remove(); return; }
  const { measure, condition } = figure.facet;
  const rows = curvesOf(measure, condition);
  const quantity = index.quantities[quantityOf(measure)];
  const published = publishedOf(measure, condition);
  const sizes = [...new Set([...rows, ...published].flatMap((row) => row.x))].sort((a, b) => a - b);
  const printed = (one, size) => { const at = one.x.indexOf(size); return at < 0 ? null : one.y[at]; };
  const ratio = (row, one, size) => {
    const position = row.x.indexOf(size), at = position < 0 ? null : spread(row.y[position]), by = printed(one, size);
    return at && at.mid && by ? (at.mid / by).toFixed(3) : "";
  };
  const beside = published.flatMap((one) => [
    [`published: ${one.source}`, (size) => number(printed(one, size))],
    ...rows.map((row) => [`${index.stacks[index.cases[row.c].stack]} over published`, (size) => ratio(row, one, size)]),
  ]);
  const cell = (row, size) => {
    const position = row.x.indexOf(size), at = position < 0 ? null : spread(row.y[position]);
    if (!at) return "";
    return el("button", { type: "button", class: "plain", title: `${number(at.low)} to ${number(at.high)}`, on: { click: () => clickPoint(measure, [row, position]) } }, number(at.mid));
  };
  figure.append(grid([`size; median in ${quantity.unit || "1"}`, ...rows.map((row) => index.stacks[index.cases[row.c].stack]), ...beside.map(([title]) => title)],
    sizes.map((size) => [sizeText(size), ...rows.map((row) => cell(row, size)), ...beside.map(([, text]) => text(size))]),
    [...rows, ...beside].map((_, column) => column + 1)));
}

function showCharts() {
  seen.disconnect();
  for (const plot of charts.querySelectorAll(".js-plotly-plot")) plotly().purge(plot);
  charts.replaceChildren(...facets().map((facet) => {
    const figure = el("figure", {});
    const enlarge = el("button", { type: "button", class: "plain", on: { click: () => {
      enlarge.textContent = figure.classList.toggle("wide") ? "smaller" : "larger";
      const plot = figure.querySelector(".js-plotly-plot");
      if (plot) plotly().Plots.resize(plot);
    } } }, "larger");
    const table = el("button", { type: "button", class: "plain", "aria-expanded": "false", on: { click: () => toggleTable(figure, table) } }, "values");
    figure.append(el("figcaption", {}, el("b", {}, facet.title), table, enlarge), el("div", { class: "plot" }), el("p", { class: "absent" }));
    figure.facet = facet;
    seen.observe(figure);
    return figure;
  }));
}

function showControls() {
  const many = names.filter((name) => valuesOf(name).length > 1);
  const change = (key) => (value) => { view[key] = value; showControls(); showCharts(); };
  const shown = view.facet === "measure" ? index.measures : [index.measures[view.measure]];
  const quantities = [...new Set(shown.flatMap((measure) => measure.quantities))];
  if (view.quantity !== "main" && !quantities.includes(view.quantity)) view.quantity = "main";
  const ranks = [...new Set(shown.flatMap((measure) => measure.ranks))].sort((a, b) => a - b);
  const nested = index.measures.some((measure) => measure.nested);
  const sources = [...new Set(index.measures.flatMap((measure) => measure.published.map((one) => one.source)))];
  document.getElementById("curve-controls").replaceChildren(...[
    select("One chart per", [["measure", "benchmark"], ...many.map((name) => [name, DIMENSIONS[name].label.toLowerCase()])], view.facet, change("facet")),
    view.facet === "measure" ? null : select("Benchmark", index.measures.map((measure, position) => [position, measure.label]), view.measure, change("measure")),
    select("Quantity", [["main", "main quantity of each"], ...quantities.map((name) => [name, index.quantities[name].title])], view.quantity, change("quantity")),
    ...many.filter((name) => name !== view.facet).map((name) => select(DIMENSIONS[name].label, valuesOf(name).map((value) => [value, DIMENSIONS[name].text(value)]), view[name], change(name))),
    index.stacks.length > 1 || sources.length ? select("Show", [
      [null, "values"], ...index.stacks.map((name, stack) => [stack, `ratio to ${name}`]), ...(sources.length ? [[PUBLISHED, "ratio to published figures"]] : []),
    ], view.base, change("base")) : null,
    nested ? select("Ranks", [["most", "all of the job"], ...ranks.map((value) => [value, String(value)])], view.ranks, change("ranks")) : null,
    index.cases.every((one, position) => one.proven || !measuredCases.has(position)) ? null
      : el("label", { class: "check" }, el("input", { type: "checkbox", ...(view.unproven ? { checked: "" } : {}), on: { change: (event) => change("unproven")(event.target.checked) } }), "also without proof (dotted)"),
  ].filter(Boolean));
  const condition = names.filter((name) => name !== view.facet).map((name) => `${DIMENSIONS[name].label.toLowerCase()} ${DIMENSIONS[name].text(view[name])}`);
  const what = view.facet === "measure" ? [] : [index.measures[view.measure].label];
  document.getElementById("curve-condition").textContent = [...what, ...condition].join(", ") + ".";
  const fixed = names.filter((name) => valuesOf(name).length === 1).map((name) => `${DIMENSIONS[name].label.toLowerCase()} ${DIMENSIONS[name].text(valuesOf(name)[0])}`);
  if (fixed.length) document.getElementById("curve-controls").append(el("small", {}, `Everywhere: ${fixed.join(", ")}.`));
  document.getElementById("legend").replaceChildren(...index.stacks.map((_, stack) => el("li", {}, el("button", {
    type: "button", "aria-pressed": String(!view.hidden.has(stack)), title: "show or hide",
    on: { click: () => { if (!view.hidden.delete(stack)) view.hidden.add(stack); showControls(); showCharts(); } },
  }, stackName(stack)))), ...(sources.length ? [el("li", {}, el("button", {
    type: "button", "aria-pressed": String(view.published), title: "show or hide",
    on: { click: () => { view.published = !view.published; if (view.base === PUBLISHED) view.base = null; showControls(); showCharts(); } },
  }, el("span", { class: "stack published" }, `published: ${sources.join(", ")}`)))] : []));
}
