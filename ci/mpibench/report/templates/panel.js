// The panel of one case: job, files, proof, condition, gates. Opened from any number on the page, or by #case-<n>.

const panel = document.getElementById("panel");
let opener = null;
let point = null;

function openCase(number, clicked) {
  opener = document.activeElement;
  point = clicked || null;
  const hash = `#case-${number}`;
  if (location.hash === hash) showPanel(number);
  else location.hash = hash;
}
function closePanel() {
  if (panel.hidden) return;
  panel.hidden = true;
  point = null;
  history.replaceState(null, "", location.pathname + location.search);
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
}
function followHash() {
  const match = /^#case-(\d+)$/.exec(location.hash);
  if (match && Number(match[1]) < index.cases.length) showPanel(Number(match[1]));
  else if (!panel.hidden) panel.hidden = true;
}

const pairs = (rows) =>
  el("dl", { class: "facts" }, rows.filter(([, value]) => value !== "").map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
const title = (text) => el("h3", {}, text);
function grid(head, rows, numeric = []) {
  const kind = (column) => (numeric.includes(column) ? { class: "num" } : {});
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((text, column) => el("th", { scope: "col", ...kind(column) }, text)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, column) => el("td", kind(column), cell === null ? "" : cell)))))));
}

function pointBlock() {
  if (!point) return null;
  const unit = point.quantity.unit;
  const found = spread(point.values);
  const repeats = point.values.map((value, position) => `${position + 1}: ${value === null ? "no value" : withUnit(value, unit)}`);
  return el("div", { class: "point" },
    el("b", {}, `${point.label}, ${point.quantity.title}, ${sizeText(point.size)}, ${point.ranks} ranks`),
    el("div", {}, found ? `median ${withUnit(found.mid, unit)}, ${number(found.low)} to ${withUnit(found.high, unit)}` : "no value"),
    el("div", {}, `repeats ${repeats.join("; ")}`));
}
function fileBlock(data) {
  const script = new Set(data.script);
  const job = data.files.filter(([name]) => script.has(name));
  const others = data.files.filter(([name]) => !script.has(name));
  const item = ([name, href, bytes]) => el("li", {}, el("a", { href }, name), ` ${bytesText(bytes)}`);
  const list = (files) => (files.length ? el("ul", { class: "files" }, files.map(item)) : null);
  if (!data.path) return [title("Files"), el("p", {}, "No job was started, so there are no files.")];
  return [
    title("Files"),
    el("p", {}, data.href ? el("a", { href: data.href, class: "directory" }, data.path) : data.path),
    data.note ? el("p", { class: "note" }, data.note) : null,
    job.length ? [el("div", {}, "Job script and output"), list(job)] : el("p", {}, `Job script and output: ${data.script.join(", ")}`),
    others.length ? [el("div", {}, "Benchmark output and evidence"), list(others)] : null,
  ];
}
function proofBlock(proof) {
  if (!proof) return [title("Proof"), el("p", {}, "None was stored.")];
  const good = proof.status === "proven";
  const rest = proof.rank_count - proof.ranks.length;
  return [
    title("Proof"),
    el("p", { class: `evidence ${proof.status}` }, `${good ? "✓" : "✕"} condition ${proof.status}`),
    pairs([["transport", proof.transport], ["library", proof.library], ["kernel", proof.kernel.join("; ")], ["links", proof.links.join("; ")], ["benchmark time", proof.seconds.map((value) => `${number(value)} s`).join(", ")]]),
    proof.notes.map((text) => el("p", { class: "note" }, text)),
    proof.version ? el("pre", {}, proof.version) : null,
    proof.ranks.length ? grid(["rank", "host", "may use CPUs", "ran on CPU", "NUMA node"], proof.ranks, [0, 3, 4]) : null,
    rest > 0 ? el("p", {}, `${rest} more ranks are in the job's files.`) : null,
    proof.traffic.length
      ? grid(["launch", "repeat", "node", "device", "sent", "received"],
        proof.traffic.map(([launch, repeat, node, device, out, into]) => [launch || "all", repeat === null ? "all" : String(repeat), node, device, bytesText(out), bytesText(into)]), [1, 4, 5])
      : null,
  ];
}
function gateBlock(gates) {
  if (!gates.length) return [title("Comparisons with references"), el("p", {}, "None: recorded, not judged.")];
  const mark = { pass: "✓ reached", fail: "✕ missed", "no reference": "○ no reference" };
  return [
    title("Comparisons with references"),
    grid(["metric", "layer", "value", "reference", "at least", "at most", "unit", "outcome"],
      gates.map(([metric, layer, value, reference, lower, upper, unit, outcome]) =>
        [metric, layer, number(value), number(reference), number(lower), number(upper), unit === "us" ? "µs" : unit, mark[outcome]]), [2, 3, 4, 5]),
  ];
}

function showPanel(number) {
  const data = chunk(`case-${number}`);
  const stack = index.cases[number].stack;
  const close = el("button", { type: "button", class: "close", on: { click: closePanel } }, "Close");
  panel.replaceChildren(...[
    close,
    el("h2", {}, data.title),
    el("p", {}, stack < 0 ? data.stack : stackName(stack), " ", el("span", { class: `mark ${data.outcome}` }, `${data.mark} ${data.meaning}`)),
    data.sentences.map((text) => el("p", {}, text)),
    pointBlock(),
    title("Job"), pairs(data.case),
    fileBlock(data), proofBlock(data.proof), gateBlock(data.gates),
    data.condition.length ? [title("Condition"), pairs(data.condition)] : null,
    data.launcher ? [title("Launcher"), el("pre", {}, data.launcher)] : null,
    data.environment.length ? [title("Environment"), el("pre", {}, data.environment.map(([key, value]) => `${key}=${value}`).join("\n"))] : null,
    data.reason ? [title("What ReFrame said"), el("pre", {}, data.reason)] : null,
  ].flat(3).filter(Boolean));
  panel.hidden = false;
  panel.scrollTop = 0;
  close.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.case[data-case]");
  if (button) openCase(Number(button.dataset.case));
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closePanel(); });
window.addEventListener("hashchange", followHash);
