"use strict";
// the form of a page asks for the answer as it changes; charts are drawn when they come into view
const seen = new IntersectionObserver(entries => {
  const places = entries.filter(entry => entry.isIntersecting).map(entry => entry.target);
  for (const place of places) seen.unobserve(place);
  if ("Plotly" in window) draw(places);
}, {rootMargin: "200px"});

function link(place) {
  const links = place.layout?.meta?.links;
  if (links === undefined || place.dataset.linked) return;
  place.dataset.linked = "yes";
  place.on("plotly_click", ({points: [point]}) => {
    const address = links[point.curveNumber]?.[point.pointNumber];
    if (address) location.href = address;
  });
}

document.addEventListener("htmx:beforeSwap", event => {
  for (const place of event.target.querySelectorAll(".js-plotly-plot")) Plotly.purge(place);
});
document.addEventListener("htmx:afterSwap", event => {
  for (const place of event.target.querySelectorAll(".chart")) seen.observe(place);
});
document.addEventListener("pointerover", event => {
  const place = event.target.closest?.(".js-plotly-plot");
  if (place) link(place);
});

// a chosen file goes to the server, and its reference into the field or the address that it is for
document.addEventListener("change", async ({target: input}) => {
  if (input.type !== "file") return;
  const status = input.nextElementSibling, found = [];
  for (const file of input.files) {
    status.textContent = `sending ${file.name}…`;
    const name = file.name.slice(-80).replace(/[^\w.+-]/g, "_").replace(/^[^A-Za-z0-9]+/, "") || "file";
    try {
      const reply = await fetch(`/uploads/${name}`, {method: "POST", body: file});
      const answer = await reply.json();
      if (!reply.ok) throw new Error(answer.error);
      found.push(answer.file);
    } catch (problem) {
      status.textContent = `${file.name}: ${problem.message}`;
      return;
    }
  }
  status.textContent = "";
  const {address, field} = input.dataset;
  if (address) { location.href = address + encodeURIComponent(found.join(" ")); return; }
  const target = document.getElementById(field);
  target.value = found.join(" ");
  target.dispatchEvent(new Event("input", {bubbles: true}));
});
