// Where the score went: one sentence, the ledger as a bar with its entries, and a waterfall of the parts that make it.

const WATERFALL = { most: 8, row: 24, name: 0.45, number: 66 }; // name: at most so much of the width
const NEUTRAL = ["var(--ledger1)", "var(--ledger2)", "var(--ledger3)", "var(--ledger4)", "var(--ledger5)", "var(--ledger6)"];

// Names of the words of an input; those that occur more than once with their place.
function itemNames(input, items) {
  const counts = new Map();
  for (const { text } of items) counts.set(text, (counts.get(text) ?? 0) + 1);
  return items.map(({ text, position }) => (input.kind === "words" && counts.get(text) > 1 ? TEXT.wordAt(text, position + 1) : text));
}

// The parts of an explanation, the largest first, and what did not reach the inputs: as lrpnumpy/show/waterfall.py.
function partsOf(page, view) {
  const { record, method, c } = view, { part, k } = record;
  const entries = part.ledger(k, method, c), score = part.score(k, method, c);
  const start = part.reference(k, method, c), hasReference = Boolean(entries?.some(([name]) => name === "reference"));
  const bars = [], several = record.inputs.length > 1;
  let what = TEXT.words;
  record.inputs.forEach((input, i) => {
    const relevance = part.relevance(k, method, c, i), variables = part.feature_relevance(k, method, c, i);
    const before = several ? `${input.name}: ` : "";
    if (input.kind === "series" && variables) {
      what = TEXT.features;
      const sums = new Float64Array(input.D), last = (input.T - 1) * input.D;
      for (let n = 0; n < variables.length; n++) sums[n % input.D] += variables[n];
      sums.forEach((sum, d) => {
        const plain = before + input.features[d];
        bars.push([input.values ? TEXT.lastValue(plain, Format.general(input.values[last + d])) : plain, sum, plain]);
      });
    } else if (input.kind === "series") {
      what = TEXT.steps;
      for (let t = 0; t < input.T; t++) bars.push([before + stepText(input, t), relevance[t]]);
    } else {
      const items = itemsOf(input, relevance, variables), names = itemNames(input, items);
      items.forEach((item, n) => bars.push([before + names[n], item.relevance]));
    }
  });
  const size = ([, value]) => (Number.isFinite(value) ? Math.abs(value) : 0);
  bars.sort((a, b) => size(b) - size(a));
  const shown = bars.length <= WATERFALL.most + 1 ? bars : [...bars.slice(0, WATERFALL.most),
    [TEXT.otherParts(bars.length - WATERFALL.most, what), bars.slice(WATERFALL.most).reduce((sum, [, value]) => sum + value, 0)]];
  const kept = (entries ?? []).filter(([name, value]) => !["inputs", "reference", "gap"].includes(name) && value !== 0);
  const left = score - start - [...shown, ...kept].reduce((sum, [, value]) => sum + value, 0);
  if (Math.abs(left) > 1e-3 * Math.max(Math.abs(score), Math.abs(score - left))) kept.push([TEXT.notAttributed, left]);
  return { start, score, hasReference, bars: [...shown, ...kept.map(([name, value]) => [name, value, name, true])] };
}

// The rows of a waterfall: {text, from, to, fill, says}.
function waterfallRows(page, view) {
  const { start, score, hasReference, bars } = partsOf(page, view), rows = [];
  const digits = Format.column([start, score, ...bars.map(([, value]) => value)], 4), signed = (x) => (x >= 0 ? "+" : "") + digits(x);
  if (hasReference) rows.push({ text: TEXT.reference, plain: TEXT.reference, from: 0, to: start, fill: "var(--ledger2)", says: digits(start) });
  let at = start;
  for (const [text, value, plain = text, neutral = false] of bars) {
    const fill = neutral ? "var(--ledger3)" : `rgba(${(value >= 0 ? Color.red : Color.blue).join(",")},.85)`;
    rows.push({ text, plain, from: at, to: (at += value), fill, says: signed(value), joins: true });
  }
  const unit = page.data.unit ? ` ${page.data.unit}` : "";
  rows.push({ text: TEXT.score, plain: TEXT.score, from: 0, to: score, fill: "var(--ledger1)", says: digits(score) + unit });
  const said = bars.map(([text, value]) => `${text} ${Format.signed(value)}`).join(", ");
  return { rows, start, says: TEXT.waterfallFrom(Format.general(start)) + said + TEXT.endsAt(Format.general(score)) };
}

function drawWaterfall(page, view, width) {
  const { rows, start, says } = waterfallRows(page, view), { row } = WATERFALL, number = WATERFALL.number + 6 * (page.data.unit?.length ?? 0);
  const room = Math.round(width * WATERFALL.name), names = rows.map(({ text, plain }) => Format.clean(textWidth(text) > room ? fitting(plain, room) : text));
  const name = Math.ceil(Math.max(...names.map(textWidth))) + 12;
  const finite = [0, start, ...rows.flatMap(({ from, to }) => [from, to])].filter(Number.isFinite);
  const low = Math.min(...finite), high = Math.max(...finite), span = high - low || 1, height = rows.length * row + 4;
  const x = (v) => name + 6 + ((width - name - number - 6) * (v - low)) / span;
  const svg = Dom.svg("svg", {
    xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, fill: "currentColor",
    "font-size": 12, "font-family": "system-ui, sans-serif", role: "img", "aria-label": Format.clean(says),
  });
  svg.append(Dom.svg("line", { x1: x(start), x2: x(start), y1: 0, y2: height, stroke: "currentColor", "stroke-opacity": 0.35 }));
  rows.forEach(({ to, joins }, r) => {
    if (joins && Number.isFinite(to)) svg.append(Dom.svg("line", { x1: x(to), x2: x(to), y1: r * row + 3, y2: (r + 2) * row - 4, stroke: "currentColor", "stroke-opacity": 0.3 }));
  });
  rows.forEach(({ text, from, to, fill, says: label }, r) => {
    const y = r * row + 3, left = Math.min(x(from), x(to)), wide = Math.abs(x(to) - x(from));
    const down = to < from && left - textWidth(label) - 8 > name; // a number is at the end of its bar, where there is room
    const title = Dom.svg("text", { x: name - 8, y: y + 13, "text-anchor": "end" }, names[r]);
    if (names[r] !== Format.clean(text)) title.append(Dom.svg("title", {}, Format.clean(text)));
    svg.append(title);
    if (!Number.isFinite(left) || !Number.isFinite(wide)) return;
    svg.append(
      Dom.svg("rect", { x: left.toFixed(1), y, width: Math.max(1, wide).toFixed(1), height: row - 7, rx: 2, fill }),
      Dom.svg("text", { class: "halo", x: (down ? left - 5 : left + wide + 5).toFixed(1), y: y + 13, "font-size": 11, "text-anchor": down ? "end" : "start" }, label));
  });
  return svg;
}

// Where the score came from, in one sentence.
function ledgerSentence(page, view, entries) {
  const { record, method, c } = view, inputs = entries[0][1], score = record.part.score(record.k, method, c);
  const what = record.inputs.every((input) => input.kind === "words") ? TEXT.words : TEXT.inputs, says = (v) => page.data.withUnit(v, 3);
  const part = (inputs >= 0 ? "+" : "") + says(inputs);
  if (entries.some(([name]) => name === "reference")) return TEXT.fromReference(what, part, says(record.part.reference(record.k, method, c)), says(score));
  const share = inputs / score, size = record.part.ledgerShare(record.k, method, c);
  if (share > 0 && share <= 1) return TEXT.cameFrom(Format.percent(share, 0), what);
  return (size < 0.1 ? TEXT.explains : TEXT.contributes)(Format.percent(size, 0), what, part, says(score));
}

function ledgerElement(page, view) {
  const { record, method, c } = view, entries = record.part.ledger(record.k, method, c);
  const element = Dom.make("section", { class: "ledgerbox", "aria-label": TEXT.where });
  if (entries) {
    const whole = entries.reduce((sum, [, value]) => sum + Math.abs(value), 0) || 1;
    const digits = Format.signedColumn(entries.map(([, value]) => value), 4);
    const shown = entries.filter(([, value], e) => Number(digits(value)) !== 0 || e === 0); // no "initial state +0"
    const bar = Dom.make("div", { class: "ledgerbar", "aria-hidden": "true" }), list = Dom.make("ul", { class: "entries" });
    bar.append(Dom.make("div", { class: "zero" }));
    shown.forEach(([name, value], e) => {
      const piece = Dom.make("div", { title: `${name}: ${Format.signed(value)}` });
      piece.style.width = `${(100 * Math.abs(value)) / whole}%`;
      piece.style.backgroundColor = NEUTRAL[e];
      if (value >= 0) bar.append(piece); // to the right of the line at 0
      else bar.prepend(piece);
      const dot = Dom.make("span", { class: "dot", "aria-hidden": "true" });
      dot.style.backgroundColor = NEUTRAL[e];
      list.append(Dom.make("li", {}, dot, `${name} ${digits(value)}`));
    });
    const total = entries.reduce((sum, [, value]) => sum + value, 0);
    list.append(Dom.make("li", {}, `= ${page.data.withUnit(total)}`));
    element.append(Dom.make("h4", {}, TEXT.ledger), Dom.make("p", { class: "came" }, Format.clean(ledgerSentence(page, view, entries))), bar, list);
  }
  const frame = Dom.make("div", { class: "frame" });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.max(260, Math.floor(frame.clientWidth));
    if (now !== width) frame.replaceChildren(drawWaterfall(page, view, (width = now)));
  }).observe(frame);
  element.append(Dom.make("details", { open: true }, Dom.make("summary", {}, TEXT.waterfall), frame));
  return element;
}
