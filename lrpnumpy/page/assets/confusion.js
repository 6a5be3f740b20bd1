// True against predicted: a matrix whose cells filter, or a cloud of dots where values are predicted.

function confusionElement(page) {
  const { data } = page;
  if (data.regression) return data.hasTruth ? scatterElement(page) : null;
  if (data.classes.length < 2) return null;
  return matrixElement(page);
}

function matrixElement(page) {
  const { data, state, columns } = page, C = data.classes.length, truth = columns.column("true"), predicted = columns.column("predicted");
  const rows = data.hasTruth ? C : 1, counts = Array.from({ length: rows }, () => new Uint32Array(C));
  for (let n = 0; n < data.count; n++) {
    if (!data.hasTruth) counts[0][predicted[n]] += 1;
    else if (!Number.isNaN(truth[n])) counts[truth[n]][predicted[n]] += 1;
  }
  const name = (c) => Format.clean(Format.short(data.className(c), 24));
  const cell = (r, c) => {
    const chosen = state.predicted === String(c) && (!data.hasTruth || state.true === String(r));
    const set = chosen ? { predicted: "", true: "" } : { predicted: c, true: data.hasTruth ? r : "" };
    const all = counts[r].reduce((sum, count) => sum + count, 0), share = all ? counts[r][c] / all : 0;
    const says = TEXT.confused(data.hasTruth ? name(r) : null, name(c), counts[r][c]);
    const button = Dom.make("button", { type: "button", "aria-label": says, "aria-pressed": String(chosen), onclick: () => state.set(set) }, Format.count(counts[r][c]));
    button.style.backgroundColor = `color-mix(in srgb, var(${!data.hasTruth || r === c ? "--good" : "--bad"}) ${Math.round(30 * share)}%, var(--card))`;
    return Dom.make("td", {}, button);
  };
  const right = data.hasTruth ? counts.reduce((sum, row, r) => sum + row[r], 0) : 0;
  const known = counts.reduce((sum, row) => sum + row.reduce((a, b) => a + b, 0), 0);
  const says = data.hasTruth ? TEXT.accuracy(Format.count(right), Format.count(known), Format.percent(known ? right / known : NaN)) : TEXT.perClass;
  return Dom.make("section", { class: "confusion" }, Dom.make("h2", {}, data.hasTruth ? TEXT.confusion : TEXT.predictedOnly), Dom.make("p", { class: "quiet" }, says),
    Dom.make("div", { class: "wide" }, Dom.make("table", {},
      Dom.make("thead", {}, Dom.make("tr", {}, data.hasTruth ? Dom.make("td", {}, TEXT.corner) : null, data.classes.map((_, c) => Dom.make("th", { scope: "col" }, name(c))))),
      Dom.make("tbody", {}, counts.map((_, r) => Dom.make("tr", {}, data.hasTruth ? Dom.make("th", { scope: "row" }, name(r)) : null, data.classes.map((__, c) => cell(r, c))))))));
}

function scatterElement(page) {
  const { data, columns, passing } = page, truth = columns.column("true"), predicted = columns.column("predicted");
  const size = 340, pad = 44, known = passing.filter((n) => Number.isFinite(truth[n]) && Number.isFinite(predicted[n]));
  const every = Math.max(1, Math.ceil(known.length / 3000)), drawn = known.filter((_, i) => i % every === 0);
  let low = Infinity, high = -Infinity;
  for (const n of drawn) {
    low = Math.min(low, truth[n], predicted[n]);
    high = Math.max(high, truth[n], predicted[n]);
  }
  const at = (v) => ((v - low) / (high - low || 1)) * (size - pad - 10), x = (v) => pad + at(v), y = (v) => size - pad - at(v);
  const svg = Dom.svg("svg", { viewBox: `0 0 ${size} ${size}`, width: size, height: size, fill: "currentColor", "font-size": 11, role: "img", "aria-label": TEXT.dots(drawn.length) },
    Dom.svg("line", { x1: x(low), y1: y(low), x2: x(high), y2: y(high), stroke: "currentColor", "stroke-opacity": 0.3 }));
  for (const n of drawn) {
    const dot = Dom.svg("circle", { cx: x(truth[n]).toFixed(1), cy: y(predicted[n]).toFixed(1), r: 3, fill: "var(--accent)", "fill-opacity": 0.55, class: "dotlink", onclick: () => page.state.set({ record: data.record(n).number, view: "records" }) });
    svg.append(Tooltip.on(dot, () => `${Format.clean(columns.text(n).slice(0, 80))}\n${TEXT.true(data.withUnit(truth[n]))}\n${TEXT.predicted(data.withUnit(predicted[n]))}`));
  }
  for (const v of [low, (low + high) / 2, high]) {
    if (Number.isFinite(v)) svg.append(Dom.svg("text", { x: x(v), y: size - pad + 16, "text-anchor": "middle" }, Format.general(v, 3)), Dom.svg("text", { x: pad - 6, y: y(v) + 4, "text-anchor": "end" }, Format.general(v, 3)));
  }
  svg.append(Dom.svg("text", { x: size / 2, y: size - 8, "text-anchor": "middle" }, TEXT.true(data.unit ? `(${Format.clean(data.unit)})` : "")),
    Dom.svg("text", { x: -size / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle" }, TEXT.predicted("")));
  return Dom.make("section", { class: "confusion" }, Dom.make("h2", {}, TEXT.confusion),
    Dom.make("p", { class: "quiet" }, every > 1 ? TEXT.everyDot(every, Format.count(known.length)) : TEXT.dot), svg);
}
