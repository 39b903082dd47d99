// Shared by all parts of the page: data, elements, numbers, theme, plotly.

const chunks = new Map();
/** Decode an embedded JSON block once, when it is first needed. */
function chunk(id) {
  if (!chunks.has(id)) chunks.set(id, JSON.parse(document.getElementById(id).textContent));
  return chunks.get(id);
}
const index = chunk("index");

/** Build an element. Text is only ever set as text: outputs and names come from outside. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** Four significant digits, as in the tables of the page. */
function number(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(3);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}
function sizeText(size) {
  if (size === null) return "no size";
  for (const [factor, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]])
    if (size >= factor && size % factor === 0) return `${size / factor} ${unit}`;
  return `${size} B`;
}
function bytesText(count) {
  for (const [factor, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (count >= factor) return `${Number((count / factor).toPrecision(3))} ${unit}`;
  return `${count} B`;
}
const withUnit = (value, unit) => (unit ? `${number(value)} ${unit}` : number(value));
const numbersOf = (values) => values.filter((value) => value !== null);
/** Median, smallest and largest of the repeats; null if no repeat gave a value. */
function spread(values) {
  const sorted = numbersOf(values).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const half = sorted.length >> 1;
  const mid = sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  return { mid, low: sorted[0], high: sorted[sorted.length - 1], count: sorted.length };
}

const darkQuery = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkQuery.matches && !printing;
const colour = (stack) => {
  const palette = index.palette[isDark() ? "dark" : "light"];
  return palette[stack % palette.length];
};
const themeColours = () =>
  isDark() ? { ink: "#e3e7eb", soft: "#9ba6b0", grid: "#2b3137" } : { ink: "#1c2024", soft: "#57616b", grid: "#e4e8ec" };
const stackName = (stack) => el("span", { class: `stack s${stack % index.symbols.length}` }, index.stacks[stack]);

/** Run the embedded plotly.js when the first chart is drawn, so that the page itself is there at once. */
function plotly() {
  if (!window.Plotly) {
    const script = document.createElement("script");
    script.nonce = document.currentScriptNonce;
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }
  return window.Plotly;
}
document.currentScriptNonce = document.currentScript.nonce;

// What distinguishes one condition from another, and how its values are named.
const DIMENSIONS = {
  fabric: { label: "Fabric", text: (value) => value },
  nodes: { label: "Nodes", text: (value) => String(value) },
  ppn: { label: "Processes per node", text: ppnText },
  pinning: { label: "Pinning", text: (value) => value },
  partition: { label: "Partition", text: (value) => value },
};
function ppnText(value) {
  const symbols = new Set(index.cases.filter((one) => one.ppn === value).map((one) => one.symbol));
  symbols.delete(String(value));
  symbols.delete("");
  return symbols.size ? `${value} (${[...symbols].join(", ")})` : String(value);
}
const POLICIES = ["default", "none", "bunch", "scatter", "nic_local", "nic_remote"];
function inOrder(values, name) {
  if (name === "pinning") return values.sort((a, b) => POLICIES.indexOf(a) - POLICIES.indexOf(b));
  return values.sort((a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b))));
}
const measuredCases = new Set();
for (const one of index.measures) for (const number of one.cases) measuredCases.add(number);
/** Values of a dimension among the cases that measured something. */
function valuesOf(name) {
  const found = new Set([...measuredCases].map((number) => index.cases[number][name]));
  return inOrder([...found].filter((value) => value !== null && value !== ""), name);
}
/** The condition most proven cases share: what a page shows first is then not empty. */
function commonCondition(names) {
  const count = new Map();
  for (const number of measuredCases) {
    const one = index.cases[number];
    if (!one.proven) continue;
    const key = JSON.stringify(names.map((name) => one[name]));
    count.set(key, (count.get(key) || 0) + 1);
  }
  const best = [...count.entries()].reduce((a, b) => (b[1] > a[1] ? b : a), ["null", 0])[0];
  const values = JSON.parse(best) || names.map((name) => valuesOf(name)[0]);
  return Object.fromEntries(names.map((name, position) => [name, values[position]]));
}

/** A labelled select; options are [value, text]; values are compared and returned as they are. */
function select(label, options, current, change) {
  const node = el("select", { "aria-label": label, "data-name": label });
  options.forEach(([value, text], position) => {
    const option = el("option", { value: position }, text);
    option.selected = value === current;
    node.append(option);
  });
  node.addEventListener("change", () => change(options[Number(node.value)][0]));
  return el("label", {}, label, node);
}
