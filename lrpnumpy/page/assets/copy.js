// Copy an explanation as text, SVG or LaTeX.

function copyElement(page, view) {
  return Dom.make("div", { class: "copies" });
}
