// Shared by all drawings: the colours of the page, light or dark. The tool bar saves one as SVG, which every ticket system shows.
const palette = {{ palette | tojson }}, darkQuery = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkQuery.matches && !printing;
const theme = () => isDark() ? { ink: "#e3e7eb", soft: "#9ba6b0", rule: "#2b3137", paper: "#22282d" } : { ink: "#1c2024", soft: "#57616b", rule: "#e4e8ec", paper: "#ffffff" };
const colour = (place) => palette[isDark() ? "dark" : "light"][place % palette.light.length];
const OPTIONS = { responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, toImageButtonOptions: { format: "svg" } };

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
