// A series: a row for each feature, its values as a line on the colors of its relevance, with dates below.

const SERIES = { features: 24, columns: 400, cells: 4000, row: 34, gap: 6, faint: 0.01 };

// A series in a limited number of columns, as map_of in lrpnumpy/show/parts.py makes it: relevance of neighboring steps summed,
// values averaged; of many features those of most relevance.
function mapOf(input, relevance, variables, most) {
  const { T, values } = input, D = variables ? input.D : 1, all = variables ?? relevance;
  const sizes = new Float64Array(D);
  for (let n = 0; n < all.length; n++) if (Number.isFinite(all[n])) sizes[n % D] += Math.abs(all[n]);
  const some = [...sizes.keys()].sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, SERIES.features).sort((a, b) => a - b);
  const group = Math.ceil(T / Math.max(1, most)) || 1, K = Math.ceil(T / group);
  const own = values && input.D === D; // values are drawn on the colors only where each has its own relevance
  const rows = some.map((d) => {
    const sums = new Float64Array(K), means = own ? new Float64Array(K) : null;
    let total = 0;
    for (let t = 0; t < T; t++) {
      const k = Math.floor(t / group);
      sums[k] += all[t * D + d];
      total += all[t * D + d];
      if (means) means[k] += values[t * D + d] / Math.min(group, T - k * group);
    }
    return { feature: d, name: variables || (own && input.features) ? input.features[d] : TEXT.relevance, sums, means, total };
  });
  if (values && !own) { // one relevance for each step: signals are drawn below it, without colors
    for (let d = 0; d < Math.min(input.D, 8); d++) {
      const means = new Float64Array(K);
      for (let t = 0; t < T; t++) {
        const k = Math.floor(t / group);
        means[k] += values[t * input.D + d] / Math.min(group, T - k * group);
      }
      rows.push({ feature: d, name: input.features[d], sums: null, means, total: null });
    }
  }
  const limit = Color.limit(rows.flatMap((row) => (row.sums ? [...row.sums] : [])));
  return { rows, group, K, T, limit, left: D - some.length };
}

function mapOfView(view, i, most) {
  const { record, method, c } = view, input = record.inputs[i];
  const variables = record.part.feature_relevance(record.k, method, c, i);
  const room = most ?? Math.min(SERIES.columns, Math.max(20, Math.floor(SERIES.cells / (variables ? Math.min(input.D, SERIES.features) : 1))));
  return mapOf(input, record.part.relevance(record.k, method, c, i), variables, room);
}

// The lowest and highest value of a signal. A constant is drawn against 0: a 1 is at the top, a 0 at the bottom.
function rangeOf(values) {
  const low = Math.min(...values), high = Math.max(...values);
  return low < high ? [low, high] : [Math.min(0, low), Math.max(0, high)];
}

// Whether a signal is 0 or 1, which is drawn as steps.
function isBinary(values) {
  return values.every((v) => v === 0 || v === 1);
}

// The width of a text in pixels, in the font of pictures.
function textWidth(text) {
  textWidth.pen ??= document.createElement("canvas").getContext("2d");
  textWidth.pen.font = "12px system-ui, sans-serif";
  return textWidth.pen.measureText(text).width;
}

// A text cut so that it fits into this number of pixels.
function fitting(text, room) {
  let length = Math.min(text.length, 200);
  while (length > 4 && textWidth(Format.short(text, length)) > room) length -= 1;
  return Format.short(text, length);
}

// The picture at a width in pixels: the svg, and which step and feature is where.
function drawSeries(input, map, width) {
  const names = Math.min(150, Math.round(width * 0.3)), sums = 62, wide = Math.max(60, width - names - sums);
  const { row: high, gap } = SERIES, top = (r) => r * (high + gap), { T, K, group } = map;
  const x = (t) => names + (wide * t) / T, height = top(map.rows.length) + 24;
  const svg = Dom.svg("svg", {
    xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, fill: "currentColor",
    "font-size": 12, "font-family": "system-ui, sans-serif",
  });
  const digits = Format.signedColumn(map.rows.filter((row) => row.sums).map((row) => row.total));
  map.rows.forEach((row, r) => {
    const middle = top(r) + high / 2 + 4, ends = row.means ? rangeOf(row.means) : null;
    row.ends = ends;
    svg.append(
      Dom.svg("text", { x: names - 8, y: middle, "text-anchor": "end" }, Format.clean(fitting(row.name, names - 10))),
      Dom.svg("rect", { x: names, y: top(r), width: wide, height: high, "fill-opacity": 0.05 }));
    for (let k = 0; row.sums && k < K; k++) {
      const share = Color.share(row.sums[k], map.limit);
      if (Math.abs(share) < SERIES.faint) continue;
      const left = x(k * group), right = x(Math.min((k + 1) * group, T));
      svg.append(Dom.svg("rect", {
        x: left.toFixed(1), y: top(r), width: (right - left).toFixed(1), height: high,
        fill: `rgb(${(share > 0 ? Color.red : Color.blue).join(",")})`, "fill-opacity": (0.85 * Math.abs(share)).toFixed(2),
      }));
    }
    if (ends) {
      const span = ends[1] - ends[0] || 1;
      const steps = isBinary(row.means), points = Array.from(row.means, (v, k) => {
        const from = x(k * group), to = x(Math.min((k + 1) * group, T)), y = (top(r) + high - 3 - ((high - 6) * (v - ends[0])) / span).toFixed(1);
        return steps ? `${from.toFixed(1)},${y} ${to.toFixed(1)},${y}` : `${((from + to) / 2).toFixed(1)},${y}`;
      });
      svg.append(Dom.svg("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 1.2, "pointer-events": "none" }));
    }
    if (row.total !== null) svg.append(Dom.svg("text", { x: names + wide + 6, y: middle }, digits(row.total)));
  });
  const ticks = wide < 150 ? 1 : Math.max(2, Math.min(6, Math.floor(wide / 110))), foot = top(map.rows.length) + 12;
  for (let n = 0; n < ticks; n++) {
    const t = Math.round(ticks === 1 ? T - 1 : (n * (T - 1)) / (ticks - 1)), anchor = n === ticks - 1 ? "end" : n === 0 ? "start" : "middle";
    svg.append(Dom.svg("text", { x: x(n === ticks - 1 ? T : t + (n ? 0.5 : 0)).toFixed(1), y: foot, "text-anchor": anchor, "font-size": 11 },
      Format.clean(Format.short(stepText(input, t), 16))));
  }
  return { svg, names, wide, top, high };
}

function stepText(input, t) {
  return input.marks?.[t] === MARK.padding && !input.named ? PAD : input.named ? input.names[t] : String(t);
}

// The text of a cell: when, what, its value and its relevance.
function cellSays(input, map, r, k, unit) {
  const row = map.rows[r], first = k * map.group, last = Math.min((k + 1) * map.group, map.T) - 1;
  const when = (last > first ? TEXT.to(stepText(input, first), stepText(input, last)) : stepText(input, first));
  const value = row.means ? `\n${row.name} ${Format.general(row.means[k])}${last > first ? TEXT.onAverage : ""}` : `\n${row.name}`;
  return Format.clean(when) + "\n" + Format.clean(value.trim()) + (row.sums ? `\n${TEXT.relevance} ${Format.signed(row.sums[k])}${unit ? ` ${unit}` : ""}` : "");
}

function seriesElement(page, view, i) {
  const input = view.record.inputs[i], map = mapOfView(view, i), { unit } = page.data;
  const frame = Dom.make("div", { class: "frame" });
  const notes = [];
  if (map.group > 1) notes.push(TEXT.cells(map.group, input.unit));
  if (map.left) notes.push(TEXT.leftOut(map.left));
  if (!input.values) notes.push(TEXT.noValues);
  const says = TEXT.series(map.T, view.method) +
    map.rows.filter((row) => row.sums).map((row) => `${row.name} ${Format.signed(row.total)}`).join(", ");
  let width = 0, drawn = null, at = { r: 0, k: map.K - 1 };

  const box = () => {
    const whole = drawn.svg.getBoundingClientRect(), scale = whole.width / width;
    const left = whole.left + scale * (drawn.names + (drawn.wide * at.k * map.group) / map.T);
    const top = whole.top + scale * drawn.top(at.r);
    return { left, top, width: (scale * drawn.wide * map.group) / map.T, bottom: top + scale * drawn.high };
  };
  const show = () => {
    Tooltip.show(cellSays(input, map, at.r, at.k, unit), box());
    const place = { x: drawn.names + (drawn.wide * at.k * map.group) / map.T, y: drawn.top(at.r), width: Math.max(2, (drawn.wide * map.group) / map.T), height: drawn.high };
    for (const [name, value] of Object.entries(place)) drawn.cursor.setAttribute(name, value);
    drawn.cursor.setAttribute("visibility", "visible");
  };
  // Where a mouse is: row, column, step, feature, and the value at this height.
  const locate = (event) => {
    const whole = drawn.svg.getBoundingClientRect(), scale = whole.width / width;
    const x = (event.clientX - whole.left) / scale, y = (event.clientY - whole.top) / scale;
    const r = Math.floor(y / (drawn.high + SERIES.gap)), t = Math.floor(((x - drawn.names) / drawn.wide) * map.T);
    if (r < 0 || r >= map.rows.length || t < 0 || t >= map.T) return null;
    const row = map.rows[r], ends = row.ends, low = drawn.top(r) + drawn.high - 3;
    const value = ends ? ends[0] + ((low - y) / (drawn.high - 6)) * (ends[1] - ends[0] || 1) : null;
    return { r, k: Math.floor(t / map.group), step: t, group: map.group, feature: row.feature, value, scale: { row, low, high: drawn.high - 6 } };
  };
  const hide = () => {
    Tooltip.hide();
    drawn?.cursor.setAttribute("visibility", "hidden");
  };
  const move = (event) => {
    const found = locate(event);
    if (!found) return hide();
    at = { r: found.r, k: found.k };
    show();
  };
  const key = (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -Infinity], End: [0, Infinity] }[event.key];
    if (!step) return;
    event.preventDefault();
    const within = (v, n) => Math.max(0, Math.min(n - 1, v));
    at = { r: within(at.r + step[0], map.rows.length), k: within(at.k + step[1], map.K) };
    show();
    page.say(cellSays(input, map, at.r, at.k, unit).replaceAll("\n", ", "));
  };
  const draw = () => {
    const now = Math.max(260, Math.floor(frame.clientWidth));
    if (now === width) return;
    width = now;
    drawn = drawSeries(input, map, width);
    drawn.cursor = Dom.svg("rect", { fill: "none", stroke: "currentColor", "stroke-width": 1.5, visibility: "hidden", "pointer-events": "none" });
    drawn.svg.append(drawn.cursor);
    Dom.fill(drawn.svg, { class: "series", role: "img", tabindex: "0", "aria-label": Format.clean(says), onmousemove: move, onmouseleave: hide, onblur: hide, onfocus: show, onkeydown: key }, []);
    for (const hook of page.hooks.steps) hook(drawn.svg, { view, input: i, locate, map });
    frame.replaceChildren(drawn.svg);
  };
  new ResizeObserver(draw).observe(frame);
  return Dom.make("div", { class: "seriesbox" }, frame, notes.length ? Dom.make("p", { class: "quiet" }, notes.join(" ")) : null);
}
