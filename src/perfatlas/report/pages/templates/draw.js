
"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(hover: none)");
const buttons = ["zoomIn2d", "zoomOut2d", "autoScale2d", "select2d", "lasso2d"];

async function unpack() {
  const packed = document.getElementById("plotly");
  if (packed === null) return;
  const bytes = Uint8Array.from(atob(packed.textContent), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

function template() {
  const style = getComputedStyle(document.documentElement);
  const [text, muted, line, page] = ["--text", "--muted", "--line", "--page"].map(name => style.getPropertyValue(name).trim());
  const axis = {gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, title: {font: {color: muted}, standoff: 8}, minor: {gridcolor: line, gridwidth: .4}};
  const clear = "rgba(0,0,0,0)";
  return {layout: {
    font: {color: text, family: "system-ui, sans-serif", size: innerWidth < 600 ? 11 : 13},
    paper_bgcolor: clear, plot_bgcolor: clear, legend: {bgcolor: clear},
    hoverlabel: {bgcolor: page, bordercolor: line, font: {color: text}},
    modebar: {bgcolor: clear, color: muted, activecolor: text},
    xaxis: axis, yaxis: axis,
  }};
}

function draw() {
  const theme = template();
  for (const place of document.querySelectorAll(".chart")) {
    const figure = JSON.parse(place.nextElementSibling.textContent);
    const layout = {...figure.layout, template: theme, dragmode: touch.matches ? false : "zoom"};
    if (!place.classList.contains("js-plotly-plot")) place.textContent = "";
    Plotly.react(place, figure.data, layout, {
      responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover", modeBarButtonsToRemove: buttons,
    });
  }
}

unpack().then(() => {
  if (!("Plotly" in window)) return;
  draw();
  dark.addEventListener("change", draw);
});
