// Draws a family of metrics over time. Values come in a script for each month, as a page on a file share may load nothing else.
"use strict";
(() => {
  const months = [], known = {changes: [], withdrawn: []};
  window.mpibenchValues = (header, values) => { months.push({header, values}); };
  window.mpibenchChanges = (found) => { Object.assign(known, found); };

  const family = JSON.parse(document.getElementById("family").textContent);
  const plot = document.getElementById("plot"), hidden = new Set();
  const pick = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const symbols = {{ symbols | list | tojson }};
  const strokes = {solid: "\u2501", dash: "\u254d", dot: "\u2508", dashdot: "\u2509"};
  const signs = {{ symbols | tojson }};
  const night = (page) => `../nights/${page}.html`;

  function line(metric) {
    const found = {x: [], y: [], up: [], down: [], page: [], state: [], lower: [], upper: [], rate: []};
    for (const {header, values} of months) {
      const one = values[metric.key];
      if (!one) continue;
      const start = Date.parse(`${header.month}-01T00:00:00Z`);
      const [middle, low, high, steps] = one;
      let next = 0, bounds = [null, null, null];
      middle.forEach((value, at) => {
        while (next < steps.length && steps[next][0] <= at) bounds = steps[next++].slice(1);
        if (value === null) return;
        found.x.push(new Date(start + header.days[at] * 864e5).toISOString().slice(0, 16));
        found.y.push(value); found.up.push(high[at] - value); found.down.push(value - low[at]);
        found.page.push(header.pages[at]); found.state.push(header.states[at]);
        found.lower.push(bounds[0]); found.upper.push(bounds[1]); found.rate.push(bounds[2]);
      });
    }
    return found;
  }

  function traces(size) {
    const shown = [], bounds = [], rates = new Map();
    const same = {};
    for (const metric of family.lines.filter((one) => (one.size ?? "") === size)) {
      const place = metric.stack % symbols.length, number = (same[place] = (same[place] ?? -1) + 1);
      const colour = pick(`--s${place}`), data = line(metric);
      if (!data.x.length) continue;
      const off = hidden.has(metric.name);
      shown.push({
        type: "scatter", mode: "lines+markers", name: metric.name, x: data.x, y: data.y, customdata: data.page, visible: !off,
        line: {color: colour, width: 1.5, dash: ["solid", "dash", "dot", "dashdot"][number % 4]},
        marker: {color: colour, size: 5, symbol: symbols[place]},
        error_y: {type: "data", symmetric: false, array: data.up, arrayminus: data.down, color: colour, thickness: 1, width: 0},
        hovertemplate: `%{y:.5g} ${escape(family.unit)} (%{error_y.arrayminus:.3g} less to %{error_y.array:.3g} more)<br>%{x}<extra>${escape(metric.name)}</extra>`,
      });
      if (off) continue;
      for (const [name, values] of [["at least", data.lower], ["at most", data.upper]]) {
        if (values.some((one) => one !== null)) bounds.push({
          type: "scatter", mode: "lines", name: `${metric.name}: reference, ${name}`, x: data.x, y: values,
          line: {color: colour, width: 1.2, dash: "dot", shape: "hv"}, hoverinfo: "name+y", meta: "reference",
        });
      }
      data.x.forEach((x, at) => { if (data.rate[at] !== null) rates.set(x, data.rate[at]); });
    }
    const days = [...rates.keys()].sort();
    if (days.length) bounds.push({
      type: "scatter", mode: "lines", name: "line rate", x: days, y: days.map((x) => rates.get(x)),
      line: {color: pick("--ink"), width: 1.2, dash: "longdash", shape: "hv"}, hoverinfo: "name+y", meta: "line rate",
    });
    return {shown, bounds};
  }

  // Text of others becomes no markup of a chart, which knows some tags of its own.
  function escape(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");
  }

  function wrapped(lines) {
    return lines.map((one) => escape(one).match(/.{1,70}(\s|$)|.{1,70}/g).join("<br>  ")).join("<br>");
  }

  function draw() {
    const size = document.getElementById("size").value;
    const {shown, bounds} = traces(size === "" ? "" : Number(size));
    const days = shown.flatMap((one) => one.x).sort();
    const inside = (x) => days.length && x >= days[0].slice(0, 10) && x <= days.at(-1);
    const marks = known.changes.filter((one) => inside(one.at.slice(0, 16)));
    const gone = known.withdrawn.filter((one) => inside(one.at.slice(0, 16)));
    const notes = [];
    if (marks.length) notes.push({
      type: "scatter", mode: "markers", name: "changed that night", x: marks.map((one) => one.at.slice(0, 16)), y: marks.map(() => 0.02), yaxis: "y2",
      customdata: marks.map((one) => one.page), marker: {symbol: "triangle-up", size: 10, color: pick("--note")},
      text: marks.map((one) => wrapped([...one.what, ...(one.more ? [`and ${one.more} more`] : [])])), hovertemplate: "%{x}<br>%{text}<extra></extra>",
    });
    if (gone.length) notes.push({
      type: "scatter", mode: "markers", name: "withdrawn", x: gone.map((one) => one.at.slice(0, 16)), y: gone.map(() => 0.06), yaxis: "y2",
      customdata: gone.map((one) => one.page), marker: {symbol: "x-thin", size: 9, line: {width: 2, color: pick("--soft")}},
      text: gone.map((one) => wrapped([one.why])), hovertemplate: "%{x}<br>%{text}<extra></extra>",
    });
    const zero = document.getElementById("scale").value === "zero", axis = {gridcolor: pick("--rule"), zerolinecolor: pick("--rule"), linecolor: pick("--rule")};
    const narrow = plot.clientWidth < 560;
    const layout = {
      height: narrow ? 340 : 440, margin: {l: 56, r: 12, t: 12, b: 48}, showlegend: false, hovermode: "closest",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {color: pick("--ink"), size: 12}, modebar: {bgcolor: "rgba(0,0,0,0)", color: pick("--soft"), activecolor: pick("--link")},
      xaxis: {...axis, type: "date", nticks: narrow ? 4 : 8}, yaxis: {...axis, title: {text: `${family.quantity}${family.unit ? ` [${family.unit}]` : ""}`}, rangemode: zero ? "tozero" : "normal"},
      yaxis2: {overlaying: "y", range: [0, 1], visible: false, fixedrange: true},
      shapes: family.events.map((one) => ({type: "line", x0: `${one.day}T00:00`, x1: `${one.day}T00:00`, yref: "paper", y0: 0, y1: 1,
        line: {color: pick(one.worse ? "--bad" : "--good"), width: 1.5, dash: "dashdot"}})),
    };
    const options = {responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover", toImageButtonOptions: {format: "svg"}};
    return Plotly.react(plot, [...bounds, ...shown, ...notes], layout, options).then(() => { names(shown); });
  }

  function names(shown) {
    const list = document.getElementById("legend");
    list.replaceChildren(...shown.map((one) => {
      const item = document.createElement("li"), button = document.createElement("button"), sign = document.createElement("span");
      sign.textContent = `${strokes[one.line.dash]}${signs[one.marker.symbol]} `; sign.style.color = one.line.color; sign.setAttribute("aria-hidden", "true");
      button.append(sign, one.name);
      button.type = "button"; button.setAttribute("aria-pressed", String(one.visible));
      button.addEventListener("click", () => { if (!hidden.delete(one.name)) hidden.add(one.name); draw(); });
      item.append(button);
      return item;
    }));
  }

  window.mpibenchDraw = () => {
    months.sort((one, other) => one.header.month < other.header.month ? -1 : 1);
    document.getElementById("curve").hidden = false;
    for (const id of ["size", "scale"]) document.getElementById(id).addEventListener("change", draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return draw().then(() => plot.on("plotly_click", (event) => {
      const page = event.points[0].customdata;
      if (page) location.href = night(page);
    }));
  };
})();
