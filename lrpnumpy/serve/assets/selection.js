// Selected words, or steps of a series: their score by contextual decomposition; words can be replaced and removed.

class Selection {
  // live: see live.js. start and stop are places among the tokens or steps of the input, stop excluded.
  constructor(live) {
    Object.assign(this, { live, start: 0, stop: 0, anchor: 0, dragging: false, scores: null });
    this.title = Dom.make("strong", {});
    this.score = Dom.make("span", { class: "score" });
    this.input = Dom.make("input", { type: "text", "aria-label": LIVE.replaceBy, placeholder: LIVE.anotherWord, maxlength: 200, autocomplete: "off", spellcheck: "false" });
    const words = live.words ? [
      Dom.make("form", { class: "replace", onsubmit: (event) => (event.preventDefault(), this.replace(this.input.value)) },
        this.input, Dom.make("button", { type: "submit" }, LIVE.replace)),
      Dom.make("button", { type: "button", class: "remove", onclick: () => this.replace("") }, LIVE.remove),
    ] : [];
    this.element = Dom.make("div", { class: "selection", role: "group", "aria-label": LIVE.selection, hidden: true },
      this.title, this.score, ...words,
      Dom.make("button", { type: "button", class: "quiet", "aria-label": LIVE.close, onclick: () => this.clear() }, "×"));
    document.addEventListener("pointerup", () => (this.dragging = false));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.any && this.clear());
  }

  get any() {
    return this.stop > this.start;
  }

  // From the anchor to a place, both included.
  to(place, anchor = this.anchor) {
    const [start, stop] = [Math.min(anchor, place), Math.max(anchor, place) + 1];
    if (this.start === start && this.stop === stop) return;
    Object.assign(this, { anchor, start, stop, scores: null });
    this.draw();
    this.live.changed({}, 0);
  }

  clear() {
    Object.assign(this, { start: 0, stop: 0, scores: null });
    this.draw();
  }

  // The words that are drawn listen: click, drag across several, or Enter, Shift and arrows, Delete.
  attach(word, position) {
    const place = this.live.answer.positions?.indexOf(position) ?? -1;
    if (place < 0) return;
    word.dataset.place = place;
    word.classList.add("editable");
    word.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault(); // the browser would select text
      word.focus();
      this.dragging = true;
      this.to(place, event.shiftKey ? this.anchor : place);
    });
    word.addEventListener("pointerenter", () => this.dragging && this.to(place));
    word.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") this.to(place, event.shiftKey && this.any ? this.anchor : place);
      else if (event.key === "Delete" || event.key === "Backspace") this.to(place, place), this.replace("");
      else if (step && event.shiftKey) this.to(Math.max(0, Math.min(this.live.answer.tokens.length - 1, place + step)), this.any ? this.anchor : place);
      else return;
      if (!step) event.preventDefault();
    });
  }

  replace(text) {
    if (!this.any) return;
    const { tokens } = this.live.answer, { start, stop } = this;
    const words = [...tokens.slice(0, start), ...text.split(/\s+/).filter(Boolean), ...tokens.slice(stop)];
    if (!words.length) return this.live.page.fail(LIVE.lastWord);
    this.input.value = "";
    this.clear();
    this.live.focus = Math.min(start, words.length - 1);
    this.live.changed({ text: words.join(" ") }, 0, true);
  }

  // Beside the words that are selected: below them, or above where the window ends.
  place() {
    const { element } = this, last = [...document.querySelectorAll("#record .word.selected")].at(-1);
    if (!last) return;
    Tooltip.hide(); // it would cover the buttons
    const around = element.offsetParent.getBoundingClientRect(), word = last.getBoundingClientRect();
    const left = Math.max(0, Math.min(word.left - around.left - 20, around.width - element.offsetWidth));
    const below = word.bottom + 8 + element.offsetHeight <= innerHeight;
    element.style.left = `${left}px`;
    element.style.top = `${below ? word.bottom - around.top + 8 : word.top - around.top - element.offsetHeight - 8}px`;
  }

  // Put what is selected where the page has just drawn the record.
  draw() {
    const { live } = this, { tokens, labels } = live.answer;
    for (const word of document.querySelectorAll("#record .word[data-place]")) {
      const inside = Number(word.dataset.place) >= this.start && Number(word.dataset.place) < this.stop;
      word.classList.toggle("selected", inside);
      word.toggleAttribute("aria-current", inside);
    }
    live.series?.drawSelection(this);
    this.element.hidden = !this.any;
    if (!this.any) return;
    this.place();
    const name = (t) => (labels ? labels[t] : TEXT.step(t));
    this.title.textContent = tokens ? Format.clean(Format.short(tokens.slice(this.start, this.stop).join(" "), 60))
      : Format.clean(this.stop - this.start > 1 ? `${name(this.start)} to ${name(this.stop - 1)}` : name(this.start));
    if (!this.scores) return (this.score.textContent = "…");
    const c = live.shownClass(), value = this.scores[this.scores.length > 1 ? c : 0];
    this.score.textContent = LIVE.phrase(value === null ? null : Format.signed(value), Format.general(live.scoreOf(c)), Format.clean(live.page.data.className(c)));
    this.place();
    live.page.say(`${this.title.textContent}: ${this.score.textContent}`);
  }
}
