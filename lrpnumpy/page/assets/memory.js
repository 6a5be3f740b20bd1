// The memory curve: mean |relevance| by lag, how many steps before the prediction, for one class at a time.

// Mean over records of |relevance| for class c at each lag, summed over features; a step that a record does not have
// counts as 0, as in lrpnumpy.summary.
function memoryOf(page, method, c = overviewClasses(page)[0]) {
  const { data, passing } = page, sums = [];
  let count = 0;
  for (const n of passing) {
    const { part, k } = data.at[n];
    if (part.shown(k, method, c) === null) continue;
    const relevance = part.relevance(k, method, c), variables = part.payload.inputs[0].kind === "words" ? null : part.feature_relevance(k, method, c);
    const D = variables ? part.payload.inputs[0].features.length : 1, all = variables ?? relevance;
    const end = part.array(part.methodOf(method).ends)[k];
    count += 1;
    for (let t = end; t >= 0; t--) {
      let size = 0;
      for (let d = 0; d < D; d++) size += Math.abs(all[t * D + d]);
      if (Number.isFinite(size)) sums[end - t] = (sums[end - t] ?? 0) + size;
    }
  }
  return { mean: Float64Array.from(sums, (sum) => (sum ?? 0) / count), count };
}

// One section for each class. A network that reads in both directions and then classifies has no such curve.
function memoryElements(page) {
  const { data } = page;
  if (data.kind === "vector" || !data.hasMemory) return [];
  return overviewClasses(page).map((c) => memoryElement(page, c)).filter(Boolean);
}

function memoryElement(page, c) {
  const { data, state } = page, methods = [state.method, state.with].filter(Boolean);
  const curves = methods.map((method) => ({ method, ...memoryOf(page, method, c) })).filter((one) => one.mean.length);
  if (!curves.length) return null;
  const width = 560, height = 240, left = 56, foot = 34, longest = Math.max(...curves.map((one) => one.mean.length));
  const most = Math.max(...curves.map((one) => Color.largest(one.mean))) || 1, target = targetText(data, c);
  const x = (lag) => width - 10 - ((width - left - 10) * lag) / Math.max(1, longest - 1), y = (v) => height - foot - ((height - foot - 12) * v) / most;
  const svg = Dom.svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, fill: "currentColor", "font-size": 11, role: "img", "aria-label": TEXT.memoryCurve(target) });
  const ticks = [0, most / 2, most], digits = Format.column(ticks, 3);
  for (const v of ticks) {
    svg.append(Dom.svg("line", { x1: left, x2: width - 10, y1: y(v), y2: y(v), stroke: "currentColor", "stroke-opacity": 0.12 }),
      Dom.svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, digits(v)));
  }
  const unit = data.parts[0].payload.inputs[0].unit ?? "step", what = data.kind === "words" ? TEXT.word : unit;
  const lines = [];
  curves.forEach(({ method, mean }, n) => {
    const color = ["var(--accent)", "var(--bad)"][n], total = mean.reduce((sum, v) => sum + v, 0);
    let half = 0;
    for (let reached = 0; half < mean.length && reached < total / 2; half++) reached += mean[half];
    svg.append(Dom.svg("polyline", { points: Array.from(mean, (v, lag) => `${x(lag).toFixed(1)},${y(v).toFixed(1)}`).join(" "), fill: "none", stroke: color, "stroke-width": 2 }),
      Dom.svg("line", { x1: x(half - 1), x2: x(half - 1), y1: 8, y2: height - foot, stroke: color, "stroke-dasharray": "4 3" }));
    const dot = Dom.make("span", { class: "dot", "aria-hidden": "true" });
    dot.style.backgroundColor = color;
    lines.push(Dom.make("li", {}, dot, TEXT.half(method, TEXT.count(half, what))));
  });
  const step = [1, 2, 5, 10, 20, 30, 50, 100, 200, 500].find((one) => longest / one <= 8) ?? Math.ceil(longest / 8);
  for (let lag = 0; lag < longest; lag += step) {
    svg.append(Dom.svg("text", { x: x(lag), y: height - foot + 15, "text-anchor": "middle" }, String(lag)));
  }
  svg.append(Dom.svg("text", { x: (width + left) / 2, y: height - 4, "text-anchor": "middle" }, TEXT.beforePrediction(what)));
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect(), place = ((event.clientX - box.left) / box.width) * width;
    const lag = Math.round(((width - 10 - place) / (width - left - 10)) * Math.max(1, longest - 1));
    if (lag < 0 || lag >= longest) return Tooltip.hide();
    const lines = curves.map(({ method, mean }) => `${method} ${Format.general(mean[lag] ?? 0)}`);
    Tooltip.show([TEXT.before(TEXT.count(lag, what)), ...lines].join("\n"), { left: event.clientX, width: 0, top: box.top, bottom: box.top });
  });
  svg.addEventListener("mouseleave", Tooltip.hide);
  return Dom.make("section", { class: "memory" }, Dom.make("h2", {}, TEXT.memory),
    Dom.make("p", { class: "quiet" }, TEXT.memoryAbout(curves[0].count, target)), Dom.make("div", { class: "wide" }, svg), Dom.make("ul", { class: "entries" }, lines));
}
