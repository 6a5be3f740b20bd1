// A series: a row for each feature, its values as a line on the colours of its relevance, with dates below.

function seriesElement(page, view, i) {
  return Dom.make("p", { class: "quiet" }, "series");
}
