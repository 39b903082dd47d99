// Shared by all drawings: the colours of the page, light or dark. The tool bar saves one as SVG, which every ticket system shows.
const palette = {{ palette | tojson }}, darkQuery = matchMedia("(prefers-color-scheme: dark)");
const signs = {{ symbols | tojson }}, strokes = { solid: "\u2501", dash: "\u254d", dot: "\u2508", dashdot: "\u2509" };
let printing = false;
/** Draw everything for paper before it is printed, and again for the screen. */
function drawForPaper(drawAll) {
  for (const [moment, paper] of [["beforeprint", true], ["afterprint", false]]) addEventListener(moment, () => { printing = paper; if (window.Plotly) drawAll(); });
}
/** Width of a drawing on paper, where nothing follows the window; on the screen it does. */
const paperSize = (node) => (printing ? { autosize: false, width: Math.min(node.clientWidth, 1000) } : {});
const isDark = () => darkQuery.matches && !printing;
const theme = () => isDark() ? { ink: "#e3e7eb", soft: "#9ba6b0", rule: "#2b3137", paper: "#22282d" } : { ink: "#1c2024", soft: "#57616b", rule: "#e4e8ec", paper: "#ffffff" };
const colour = (place) => palette[isDark() ? "dark" : "light"][place % palette.light.length];
// plotly.js has a button that sends a chart to a server of its makers: there is none here.
const OPTIONS = { showSendToCloud: false, plotlyServerURL: "", responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, toImageButtonOptions: { format: "svg" } };

/** Data and layout of a figure in the colours of the page. */
function themed({ data, layout }) {
  let text = JSON.stringify(data);
  if (isDark()) palette.light.forEach((light, place) => { text = text.replaceAll(`"${light}"`, `"${palette.dark[place]}"`); });
  const { ink, soft, rule, paper } = theme(), clear = "rgba(0,0,0,0)", font = { color: ink, family: getComputedStyle(document.body).fontFamily, size: 12 };
  const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, color: soft, automargin: true };
  const shared = { paper_bgcolor: clear, plot_bgcolor: clear, font, hovermode: "closest", hoverlabel: { bgcolor: paper, bordercolor: soft, font }, colorway: palette[isDark() ? "dark" : "light"],
    xaxis: axis, yaxis: axis, polar: { bgcolor: clear, radialaxis: axis, angularaxis: axis }, modebar: { bgcolor: clear, color: soft, activecolor: ink } };
  return [JSON.parse(text), { ...layout, template: { layout: shared } }];
}

// Text of others becomes no markup of a chart, which knows some tags of its own.
const asText = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");
const MOST_ENDS = 6, nameSize = () => (printing ? 8 : 10), nameWidth = (ends) => 26 + 0.58 * nameSize() * Math.max(...ends.map(({ name }) => name.length));
/** Names of few curves behind their right ends, each with the sign of its curve and moved apart where two would meet; none where there is no room.
    An end has the name, colour, dash and symbol of its curve and its last `value`; `range` is that of the axis of values, over `height` pixels. */
function endLabels(ends, [bottom, top], log, width, height) {
  if (!ends.length || ends.length > MOST_ENDS || nameWidth(ends) > 0.4 * width) return [];
  const size = nameSize(), step = (size + 3) / height;
  const placed = ends.map((end) => ({ ...end, y: ((log ? Math.log10(end.value) : end.value) - bottom) / (top - bottom) })).sort((a, b) => a.y - b.y);
  placed.forEach((end, place) => { end.y = Math.max(end.y, place ? placed[place - 1].y + step : 0); });
  placed.reduceRight((limit, end) => (end.y = Math.min(end.y, limit)) - step, 1);
  return placed.map(({ name, paint, dash, symbol, y }) => ({ name, text: `<span style="color:${paint}">${strokes[dash] ?? strokes.solid}${signs[symbol] ?? ""}</span> ${asText(name)}`,
    x: 1, xref: "paper", xanchor: "left", y, yref: "paper", yanchor: "middle", showarrow: false, font: { size } }));
}
/** Name the curves of a drawing at their ends, of many the thick ones; where there is no room, in its legend. */
function nameCurves(node, showlegend = true) {
  const { yaxis } = node._fullLayout, log = yaxis.type === "log";
  const named = node._fullData.filter(({ _input, mode, visible, line, meta }) => _input.name && visible === true && mode?.includes("lines") && line.width && meta !== "reference");
  const ends = named.flatMap(({ name, line, marker, y }) => { const value = y.findLast((one) => Number.isFinite(one) && (one > 0 || !log)); return value === undefined ? [] : [{ name, value, paint: line.color, dash: line.dash, symbol: marker?.symbol, width: line.width }]; });
  const labels = endLabels(ends.length > MOST_ENDS ? ends.filter(({ width }) => width > 2) : ends, yaxis.range, log, node.clientWidth, yaxis._length);
  return Plotly.relayout(node, labels.length ? { annotations: [...node.layout.annotations ?? [], ...labels], "margin.r": nameWidth(labels), showlegend: false } : { showlegend });
}
