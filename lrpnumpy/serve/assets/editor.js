// A series to change: the line of one feature, of which a point is dragged, or moved by the arrow keys.

const EDITOR = { height: 150, edge: 12, fine: 0.01, coarse: 0.1 }; // fine and coarse: of the range, for a press of a key

class Editor {
  constructor(live) {
    Object.assign(this, { live, feature: 0, step: 0, held: false, range: [0, 1] });
    this.choice = Dom.make("select", { "aria-label": LIVE.feature, onchange: () => this.choose(Number(this.choice.value), this.step) });
    this.band = Dom.svg("rect", { class: "band", y: 0, height: EDITOR.height });
    this.line = Dom.svg("polyline", { class: "line" });
    this.point = Dom.svg("circle", { class: "point", r: 7, tabindex: "0", role: "slider", onkeydown: (event) => this.key(event) });
    this.svg = Dom.svg("svg", { class: "editor", height: EDITOR.height, preserveAspectRatio: "none" }, this.band, this.line, this.point);
    this.value = Dom.make("output", { class: "value" });
    this.mode = Dom.make("button", { type: "button", title: LIVE.selectHint, "aria-pressed": "false", onclick: () => this.mode.setAttribute("aria-pressed", String(!this.selects)) }, LIVE.selectSteps);
    this.element = Dom.make("div", { class: "editbox" },
      Dom.make("div", { class: "row" }, Dom.make("label", { class: "field" }, Dom.make("span", {}, LIVE.dragPoint), this.choice), this.mode, this.value), this.svg, live.selection.element);
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => this.held && this.pull(event));
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, () => this.release());
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // Whether dragging selects steps also without Shift, which a phone does not have.
  get selects() {
    return this.mode.getAttribute("aria-pressed") === "true";
  }

  get values() {
    return this.live.question.values;
  }

  // The input is another one: names and range anew.
  take() {
    const names = this.live.answer.features;
    this.choice.replaceChildren(...names.map((name, d) => Dom.make("option", { value: d }, Format.clean(Format.short(name, 60)))));
    this.choose(Math.min(this.feature, names.length - 1), this.values.length - 1);
  }

  choose(feature, step) {
    Object.assign(this, { feature, step: Math.max(0, Math.min(this.values.length - 1, step)) });
    this.choice.value = feature;
    if (!this.held) this.fit();
    this.draw();
  }

  // The range of the picture: that of the values and a tenth more.
  fit() {
    const column = this.values.map((row) => row[this.feature]);
    const low = Math.min(...column), high = Math.max(...column), more = (high - low || Math.abs(high) || 1) / 10;
    this.range = [low - more, high + more];
  }

  x(t) {
    const wide = (this.width ?? 600) - 2 * EDITOR.edge;
    return EDITOR.edge + (this.values.length > 1 ? (wide * t) / (this.values.length - 1) : wide / 2);
  }

  y(value) {
    const [low, high] = this.range;
    return EDITOR.edge + ((EDITOR.height - 2 * EDITOR.edge) * (high - value)) / (high - low);
  }

  draw() {
    if (!this.values) return;
    const { feature, step } = this, value = this.values[step][feature], name = this.live.answer.features[feature];
    this.width = Math.max(200, this.svg.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${EDITOR.height}`);
    this.line.setAttribute("points", this.values.map((row, t) => `${this.x(t).toFixed(1)},${this.y(row[feature]).toFixed(1)}`).join(" "));
    const when = this.live.answer.labels?.[step] ?? TEXT.step(step);
    const text = Format.clean(`${when}, ${name} ${Format.general(value)}`);
    Dom.fill(this.point, {
      cx: this.x(step), cy: this.y(value), "aria-valuenow": value, "aria-valuetext": text, "aria-label": Format.clean(LIVE.point(name)),
      "aria-valuemin": Math.min(value, this.range[0]), "aria-valuemax": Math.max(value, this.range[1]),
    }, []);
    this.value.textContent = text;
    this.drawSelection(this.live.selection);
  }

  drawSelection({ any, start, stop }) {
    this.band.setAttribute("visibility", any ? "visible" : "hidden");
    if (!any || !this.values) return;
    const half = (this.x(1) - this.x(0)) / 2;
    Dom.fill(this.band, { x: this.x(start) - half, width: Math.max(2, this.x(stop - 1) - this.x(start) + 2 * half) }, []);
  }

  stepAt(event) {
    const box = this.svg.getBoundingClientRect(), share = (event.clientX - box.left - EDITOR.edge) / (box.width - 2 * EDITOR.edge);
    return Math.max(0, Math.min(this.values.length - 1, Math.round(share * (this.values.length - 1))));
  }

  press(event) {
    if (event.button) return;
    event.preventDefault();
    this.svg.setPointerCapture(event.pointerId);
    const step = this.stepAt(event);
    this.selecting = event.shiftKey || this.selects;
    this.held = true;
    this.choose(this.feature, step);
    this.point.focus();
    if (this.selecting) this.live.selection.to(step, step);
    else this.live.remember();
  }

  pull(event) {
    if (this.selecting) return this.live.selection.to(this.stepAt(event));
    const box = this.svg.getBoundingClientRect(), [low, high] = this.range;
    this.set(high - ((event.clientY - box.top - EDITOR.edge) / (EDITOR.height - 2 * EDITOR.edge)) * (high - low));
  }

  release() {
    if (!this.held) return;
    this.held = false;
    this.fit();
    this.draw();
  }

  key(event) {
    const [low, high] = this.range, size = high - low;
    const side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const change = { ArrowUp: EDITOR.fine, ArrowDown: -EDITOR.fine, PageUp: EDITOR.coarse, PageDown: -EDITOR.coarse }[event.key];
    const end = { Home: 0, End: this.values.length - 1 }[event.key];
    if (side === undefined && change === undefined && end === undefined) return;
    event.preventDefault();
    if (change) {
      this.live.remember();
      this.set(this.values[this.step][this.feature] + change * size);
    } else {
      const before = this.step;
      this.choose(this.feature, end ?? this.step + side);
      if (event.shiftKey) this.live.selection.to(this.step, this.live.selection.any ? undefined : before);
    }
    this.live.page.say(this.value.textContent);
  }

  // Give the point another value, and ask what follows.
  set(value) {
    const values = this.values.map((row, t) => (t === this.step ? row.map((old, d) => (d === this.feature ? value : old)) : row));
    this.live.changed({ values }, 0);
    this.draw();
  }

  // On the picture of relevance, too, a point can be dragged. It is drawn anew meanwhile, so the document listens.
  attach(svg, locate) {
    svg.addEventListener("pointerdown", (event) => {
      const found = locate(event);
      if (!found || event.button) return;
      this.choose(found.feature, found.step);
      const { ends } = found.scale.row;
      if (found.group > 1 || !ends) return; // a cell of several steps is not a point
      event.preventDefault();
      this.live.remember();
      this.held = true;
      const from = this.values[this.step][this.feature], each = (ends[1] - ends[0] || 1) / found.scale.high;
      const pull = (moved) => this.set(from + (event.clientY - moved.clientY) * each);
      const done = () => {
        document.removeEventListener("pointermove", pull);
        this.release();
      };
      document.addEventListener("pointermove", pull);
      document.addEventListener("pointerup", done, { once: true });
    });
  }
}
