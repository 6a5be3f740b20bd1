// Where the score went: the ledger as a bar with its entries, and a waterfall of the parts that make it.

const WATERFALL = { most: 8, row: 24, name: 160, number: 66 };

// The parts of an explanation, the largest first, and what did not reach the inputs: as lrpnumpy/show/waterfall.py.
function partsOf(page, view) {
  const { record, method, c } = view, { part, k } = record, one = part.methodOf(method);
  const entries = part.ledger(k, method, c), versus = one.versus ?? null;
  const score = record.scores[c] - (versus === null ? 0 : record.scores[versus]);
  const start = entries?.find(([name]) => name === "reference")?.[1] ?? 0;
  const bars = [], several = record.inputs.length > 1;
  let what = "words";
  record.inputs.forEach((input, i) => {
    const relevance = part.relevance(k, method, c, i), variables = part.feature_relevance(k, method, c, i);
    const before = several ? `${input.name}: ` : "";
    if (input.kind === "series" && variables) {
      what = "features";
      const sums = new Float64Array(input.D);
      for (let n = 0; n < variables.length; n++) sums[n % input.D] += variables[n];
      sums.forEach((sum, d) => bars.push([before + input.features[d], sum]));
    } else if (input.kind === "series") {
      what = "steps";
      for (let t = 0; t < input.T; t++) bars.push([before + stepText(input, t), relevance[t]]);
    } else for (const item of itemsOf(input, relevance, variables)) bars.push([before + item.text, item.relevance]);
  });
  const size = ([, value]) => (Number.isFinite(value) ? Math.abs(value) : 0);
  bars.sort((a, b) => size(b) - size(a));
  const shown = bars.length <= WATERFALL.most + 1 ? bars : [...bars.slice(0, WATERFALL.most),
    [`${bars.length - WATERFALL.most} other ${what}`, bars.slice(WATERFALL.most).reduce((sum, [, value]) => sum + value, 0)]];
  const kept = (entries ?? []).filter(([name, value]) => !["inputs", "reference", "gap"].includes(name) && value !== 0);
  const left = score - start - [...shown, ...kept].reduce((sum, [, value]) => sum + value, 0);
  if (Math.abs(left) > 1e-3 * Math.max(Math.abs(score), Math.abs(score - left))) kept.push(["not attributed", left]);
  return { start, score, bars: [...shown, ...kept] };
}

function drawWaterfall(page, view, width) {
  const { start, score, bars } = partsOf(page, view), { row, number } = WATERFALL;
  const name = Math.min(WATERFALL.name, Math.round(width * 0.34));
  const ends = [];
  bars.reduce((at, [, value]) => (ends.push(at + value), at + value), start);
  const finite = [0, start, score, ...ends].filter(Number.isFinite);
  const low = Math.min(...finite), high = Math.max(...finite), span = high - low || 1;
  const x = (v) => name + ((width - name - number) * (v - low)) / span, height = (bars.length + 1) * row + 4;
  const svg = Dom.svg("svg", {
    xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, fill: "currentColor",
    "font-size": 12, "font-family": "system-ui, sans-serif", role: "img",
    "aria-label": Format.clean(`Waterfall from ${Format.general(start)}: ${bars.map(([text, value]) => `${text} ${Format.signed(value)}`).join(", ")}; score ${Format.general(score)}`),
  });
  svg.append(Dom.svg("line", { x1: x(start), x2: x(start), y1: 0, y2: height, stroke: "currentColor", "stroke-opacity": 0.35 }));
  const bar = (r, text, from, to, fill, says) => {
    const y = r * row + 3, left = Math.min(x(from), x(to)), wide = Math.abs(x(to) - x(from));
    svg.append(Dom.svg("text", { x: name - 8, y: y + 13, "text-anchor": "end" }, Format.clean(Format.short(text, Math.floor(name / 8)))));
    if (!Number.isFinite(left) || !Number.isFinite(wide)) return;
    svg.append(
      Dom.svg("rect", { x: left.toFixed(1), y, width: Math.max(1, wide).toFixed(1), height: row - 7, rx: 2, fill }),
      Dom.svg("text", { x: (left + wide + 5).toFixed(1), y: y + 13, "font-size": 11 }, says));
  };
  bars.forEach(([text, value], r) => {
    const color = value >= 0 ? Color.red : Color.blue;
    bar(r, text, ends[r] - value, ends[r], `rgba(${color.join(",")},.85)`, Format.signed(value, 3));
    if (Number.isFinite(ends[r])) svg.append(Dom.svg("line", { x1: x(ends[r]), x2: x(ends[r]), y1: r * row + 3, y2: (r + 2) * row - 4, stroke: "currentColor", "stroke-opacity": 0.3 }));
  });
  bar(bars.length, "score", 0, score, "#8d99ae", page.data.withUnit(score));
  return svg;
}

function ledgerElement(page, view) {
  const { record, method, c } = view, entries = record.part.ledger(record.k, method, c);
  const element = Dom.make("section", { class: "ledgerbox", "aria-label": "Where the score went" });
  if (entries) {
    const whole = entries.reduce((sum, [, value]) => sum + Math.abs(value), 0) || 1;
    const bar = Dom.make("div", { class: "ledgerbar", "aria-hidden": "true" }), list = Dom.make("ul", { class: "entries" });
    bar.append(Dom.make("div", { class: "zero" }));
    entries.forEach(([name, value], e) => {
      const color = `rgba(${(value >= 0 ? Color.red : Color.blue).join(",")},${Color.shades[e]})`;
      const piece = Dom.make("div", { title: `${name}: ${Format.signed(value)}` });
      piece.style.width = `${(100 * Math.abs(value)) / whole}%`;
      piece.style.backgroundColor = color;
      if (value >= 0) bar.append(piece); // to the right of the line at 0
      else bar.prepend(piece);
      const dot = Dom.make("span", { class: "dot", "aria-hidden": "true" });
      dot.style.backgroundColor = color;
      list.append(Dom.make("li", {}, dot, `${name} ${Format.signed(value)}`));
    });
    const total = entries.reduce((sum, [, value]) => sum + value, 0);
    list.append(Dom.make("li", {}, `= ${page.data.withUnit(total)}`));
    element.append(Dom.make("h4", {}, "Ledger"), bar, list);
  }
  const frame = Dom.make("div", { class: "frame" });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.max(260, Math.floor(frame.clientWidth));
    if (now !== width) frame.replaceChildren(drawWaterfall(page, view, (width = now)));
  }).observe(frame);
  element.append(Dom.make("details", { open: true }, Dom.make("summary", {}, "Waterfall"), frame));
  return element;
}
