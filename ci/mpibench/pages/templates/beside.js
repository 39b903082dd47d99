// plotly.js from the file beside the page, fetched once the page itself is there; where there is none the page says so.
const { nonce, dataset: { plotly: source } } = document.currentScript;
const plotly = new Promise((there) => {
  const missing = () => { document.getElementById("no-plotly").hidden = false; document.documentElement.dataset.ready = "yes"; };
  const script = Object.assign(document.createElement("script"), { nonce, src: source, onload: () => (window.Plotly ? there(Plotly) : missing()), onerror: missing });
  document.head.append(script);
});
