
"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(hover: none)");
const print = matchMedia("print");
const buttons = ["zoomIn2d", "zoomOut2d", "autoScale2d", "select2d", "lasso2d"];

const source = document.currentScript?.dataset.plotly;

async function unpack() {
  const packed = document.getElementById("plotly");
  if (source !== undefined) {  // of a server: the text of the page is painted first
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const script = Object.assign(document.createElement("script"), {src: source});
    await new Promise(done => {
      script.onload = script.onerror = done;
      document.head.append(script);
    });
  }
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
  return {data: {bar: [{error_x: {color: text}}]}, layout: {
    font: {color: text, family: "system-ui, sans-serif", size: innerWidth < 600 ? 11 : 13},
    paper_bgcolor: clear, plot_bgcolor: clear, legend: {bgcolor: clear},
    hoverlabel: {bgcolor: page, bordercolor: line, font: {color: text}},
    modebar: {bgcolor: clear, color: muted, activecolor: text},
    xaxis: axis, yaxis: axis,
  }};
}

function draw(places = document.querySelectorAll(".chart")) {
  const theme = template();
  for (const place of places) {
    const figure = JSON.parse(place.nextElementSibling.textContent);
    const layout = {...figure.layout, template: theme, dragmode: touch.matches ? false : "zoom"};
    if (!place.classList.contains("js-plotly-plot")) place.textContent = "";
    Plotly.react(place, figure.data, layout, {
      responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover", modeBarButtonsToRemove: buttons,
    });
  }
}

function cells(trace) {
  if (trace.type === "heatmap") return trace.y.flatMap((y, row) => trace.x.map((x, column) => [trace.name, x, y, trace.z[row][column]]));
  const ends = trace.error_y ?? trace.error_x;
  const across = trace.error_x !== undefined;
  return trace.x.map((x, at) => {
    const value = across ? x : trace.y[at];
    const interval = ends ? [value - ends.arrayminus[at], value + ends.array[at]] : trace.customdata?.[at] ?? [];
    return [trace.name, x, trace.y[at], trace.base?.[at], ...[0, 1].map(end => interval[end]), trace.text?.[at]];
  });
}

function table(figure) {
  const heat = figure.data[0]?.type === "heatmap";
  const head = heat ? ["series", "x", "y", "value"] : ["series", "x", "y", "base", "low", "high", "text"];
  const rows = figure.data.filter(trace => trace.hoverinfo !== "skip").flatMap(cells);
  const cell = value => typeof value === "number" ? `${value}` : `"${`${value ?? ""}`.replace(/^[=+\-@](?![\d.])/, "'$&").replaceAll('"', '""')}"`;
  return [head, ...rows].map(row => row.map(cell).join(",")).join("\n") + "\n";
}

function save(event) {
  const kind = event.target.dataset?.save;
  if (kind === undefined) return;
  const box = event.target.closest("figure");
  const name = box.getAttribute("aria-label").replace(/[^A-Za-z0-9]+/g, "_");
  if (kind === "png") {
    if ("Plotly" in window) Plotly.downloadImage(box.querySelector(".chart"), {format: "png", scale: 2, filename: name});
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([table(JSON.parse(box.querySelector("script").textContent))], {type: "text/csv"}));
  link.download = `${name}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener("click", save);
unpack().then(() => {
  if (!("Plotly" in window)) return;
  draw();
  dark.addEventListener("change", () => draw());
  print.addEventListener("change", () => draw());
});
