// The live page: the same page with the model behind it. What is typed, dropped or dragged becomes a question.
// live.question  the current question: {text} or {values, labels, features}; live.answer  the last answer
// live.changed   ask about a changed input; live.remember  keep the input as it is for Undo

const FACTS = JSON.parse(document.getElementById("payload").textContent).live;
FACTS.methods.sort((a, b) => (b.name === FACTS.method) - (a.name === FACTS.method));

// Every method can be chosen, whether or not it has been asked for.
Object.defineProperty(Data.prototype, "methods", { get: () => FACTS.methods.map((one) => one.name) });
Object.defineProperty(Data.prototype, "methodRows", {
  get: () => ["recommended", "others", "unstable"].flatMap((group) => FACTS.methods.filter((one) => one.group === group).map((one) => [one.name, one.name, one.description, TEXT[group]])),
});

// Whether two sentences share at least half of their words, in the same order.
function isEdit(one, other) {
  let row = new Uint16Array(other.length + 1); // of the longest common subsequence
  for (const word of one) {
    const next = new Uint16Array(other.length + 1);
    other.forEach((its, k) => (next[k + 1] = word === its ? row[k] + 1 : Math.max(row[k + 1], next[k])));
    row = next;
  }
  return 2 * row.at(-1) >= Math.max(one.length, other.length);
}

class Live {
  constructor(page) {
    Object.assign(this, { page, answer: FACTS.first, number: 1, past: [], kept: new Map(), options: {}, before: null, focus: null });
    this.words = FACTS.kind === "words";
    this.question = this.words ? { ...FACTS.start } : this.asked(FACTS.first);
    this.asker = new Asker(new URLSearchParams(location.search).get("token"), {
      answered: (question, answer) => this.take(question, answer),
      failed: (text) => this.fail(text),
      busy: (is) => document.body.classList.toggle("busy", is),
    });
    this.selection = new Selection(this);
    this.series = this.words ? null : new Editor(this);
    this.build();
    document.body.classList.add("live");
    page.hooks.steps.push((element, more) => {
      if (more.input) return;
      if (this.words) this.selection.attach(element, more.position);
      else if (more.locate) this.series.attach(element, more.locate);
    });
    page.hooks.panels.push(() => this.drawn());
    page.state.addEventListener("change", ({ detail }) => this.chosen(detail));
    this.put(FACTS.first);
    this.series?.take();
    this.fields();
    this.warn(FACTS.warnings.concat(FACTS.first.warnings));
    this.watch();
    if (page.state.method !== FACTS.method || page.state.with) this.changed({}, 0);
  }

  // -- what is above the record

  build() {
    const { live } = this.page.places;
    this.text = Dom.make("textarea", {
      id: "text", rows: this.words ? 2 : 4, maxlength: this.words ? FACTS.limits.characters : 1_000_000, spellcheck: "false", oninput: () => this.typed(),
      placeholder: this.words ? LIVE.typeSentence : LIVE.tableHint,
    });
    if (this.words) this.text.value = FACTS.start.text;
    this.moved = Dom.make("p", { class: "moved", "aria-live": "polite" });
    this.status = Dom.make("p", { class: "status quiet", role: "status" });
    this.other = Dom.make("div", { class: "counterfactual", role: "group", "aria-label": LIVE.changes, hidden: true });
    this.own = Dom.make("div", { class: "options" });
    const button = (text, does, title) => Dom.make("button", { type: "button", title, onclick: does }, text);
    this.undoing = button(LIVE.undo, () => this.undo(), LIVE.undoHint);
    const file = Dom.make("input", { type: "file", class: "unseen", id: "file", accept: this.words ? ".txt,text/*" : ".csv,.tsv,.txt,text/*", onchange: () => this.dropped(file.files[0], file) });
    const buttons = Dom.make("div", { class: "row" }, this.undoing,
      button(LIVE.counterfactual, () => this.send(0, { counterfactual: true }), LIVE.counterfactualHint),
      button(LIVE.keep, () => this.keep(), LIVE.keepHint),
      Dom.make("label", { class: "file", for: "file" }, LIVE.openFile), file,
      Dom.make("span", { class: "quiet" }, this.words ? (NARROW.matches ? LIVE.wordsTouchHint : LIVE.wordsHint)
        : NARROW.matches ? LIVE.seriesTouchHint : LIVE.seriesHint));
    const label = Dom.make("label", { class: "field", for: "text" }, Dom.make("span", {}, this.words ? LIVE.sentence : LIVE.pasteCsv));
    const paste = Dom.make("div", { class: "typing" }, label, this.text);
    live.append(Dom.make("section", { class: "livebox", "aria-label": LIVE.input },
      this.words ? paste : this.series.element, this.words ? null : Dom.make("details", {}, Dom.make("summary", {}, LIVE.pasteTable), paste),
      Dom.make("div", { class: "row" }, buttons, this.own), this.other, this.moved, this.status));
    this.undoing.disabled = true;
    const stop = (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault();
    document.addEventListener("dragover", stop);
    document.addEventListener("drop", (event) => {
      stop(event);
      if (event.dataTransfer?.files.length) this.dropped(event.dataTransfer.files[0]);
    });
  }

  // A field for each option of the methods that are shown.
  fields() {
    const { state } = this.page, shown = FACTS.methods.filter((one) => one.name === state.method || one.name === state.with);
    const options = new Map(shown.flatMap((one) => one.options.map((option) => [option.name, option])));
    const target = FACTS.every_class ? [] : [Dom.choice(TEXT.classLabel, [["", TEXT.asPredicted], ...FACTS.classes?.map((name, c) => [String(c), Format.short(name, 40)]) ?? []], state.class, (c) => state.set({ class: c }))];
    const step = FACTS.every ? [Dom.field(LIVE.stepField, { type: "number", value: this.step ?? "", onchange: (event) => ((this.step = event.target.value), this.changed({}, 0)) })] : [];
    this.own.replaceChildren(...target, ...step, ...[...options.values()].map((option) => this.field(option)));
  }

  field({ name, kind, choices, default: standard, text }) {
    const value = this.options[name] ?? standard;
    const set = (given) => {
      const is = kind === "number" ? Number(given) : kind !== "choice" && /^\d+$/.test(given) ? Number(given) : given;
      if (given === "" || is === standard) delete this.options[name];
      else this.options[name] = is;
      this.changed({}, ASK.typing);
    };
    if (kind === "choice") return Dom.choice(name, choices.map((one) => [one, one]), value, set);
    const element = Dom.field(name, { type: kind === "text" ? "text" : "number", step: kind === "whole" ? 1 : "any", min: kind === "whole" ? 1 : 0, value, title: text, "data-option": name });
    element.querySelector("input").addEventListener("input", (event) => set(event.target.value));
    return element;
  }

  // -- questions

  typed() {
    const text = this.text.value;
    if (!text.trim()) return;
    if (this.words) {
      this.selection.clear();
      const pause = performance.now() - (this.lastTyped ?? -Infinity); // a burst of typing is one change
      this.lastTyped = performance.now();
      this.changed({ text }, ASK.typing, pause > ASK.pause);
      this.typing = true;
    } else this.replaced({ csv: text });
  }

  // Another series altogether: the server reads it, and the answer has its numbers.
  replaced(question) {
    this.selection.clear();
    this.remember();
    this.question = question;
    this.send(ASK.typing);
  }

  // The input with something changed; with `remember`, what it was can be had again.
  changed(more, wait, remember = false) {
    if ("text" in more || "values" in more) this.typing = false;
    if (remember) this.remember();
    Object.assign(this.question, more);
    if (this.words && "text" in more && this.text.value !== more.text) this.text.value = more.text;
    this.send(wait);
  }

  send(wait, more = {}) {
    const { state } = this.page, { selection } = this;
    const question = { ...this.question, methods: [state.method, state.with].filter(Boolean), options: { ...this.options }, ...more };
    if (!FACTS.every_class && state.asked !== null) question.target = state.asked;
    if (this.step) question.step = Number(this.step);
    if (selection.any) {
      question.phrase = [selection.start, selection.stop];
      if (this.words) question.text = this.answer.tokens.join(" ");
    }
    this.asker.ask(question, wait);
  }

  asked({ values, labels, features }) {
    return { values, labels, features };
  }

  // Keep the input for Undo, and its scores to compare with.
  remember() {
    this.before = this.answer;
    const text = JSON.stringify(this.question);
    if (this.past.at(-1) !== text) this.past.push(text);
    if (this.past.length > 50) this.past.shift();
    this.undoing.disabled = false;
  }

  undo() {
    const now = JSON.stringify(this.question);
    this.before = this.answer;
    let text = this.past.pop();
    if (text === now) text = this.past.pop();
    this.undoing.disabled = !this.past.length;
    if (text) this.restore(JSON.parse(text));
  }

  restore(question) {
    this.typing = false;
    this.selection.clear();
    this.question = question;
    if (this.words) this.text.value = question.text;
    this.send(0);
  }

  async dropped(file, field) {
    if (!file) return;
    if (file.size > 1_000_000) return this.fail(LIVE.tooLarge(Format.count(file.size)));
    const text = await file.text();
    if (field) field.value = "";
    if (!this.words) return this.replaced({ csv: text });
    this.selection.clear();
    this.changed({ text: text.trim().slice(0, FACTS.limits.characters) }, 0, true);
  }

  // The current record stays in the list, and the next answer is a new record.
  keep() {
    this.kept.set(this.number, JSON.stringify(this.question));
    this.number = Math.max(this.number, ...this.kept.keys()) + 1;
    this.put(this.answer);
    this.page.say(LIVE.kept);
  }

  // Another record of the list, method or class.
  chosen(keys) {
    const number = Number(this.page.state.record);
    if (keys.has("record") && number !== this.number && this.kept.has(number)) {
      this.kept.set(this.number, JSON.stringify(this.question));
      this.number = number;
      this.restore(JSON.parse(this.kept.get(number)));
    }
    if (keys.has("method") || keys.has("with")) {
      this.fields();
      this.send(0);
    } else if (keys.has("class")) {
      if (!FACTS.every_class) this.send(0);
      this.selection.draw();
    }
  }

  // -- answers

  take(question, answer) {
    const { selection } = this;
    this.page.fail("");
    this.last = this.answer;
    this.answer = answer;
    if ("csv" in question) {
      this.question = this.asked(answer);
      this.series.take();
    } else if (this.series && !this.series.held) this.series.choose(this.series.feature, this.series.step);
    if (answer.phrase && selection.any) selection.scores = answer.phrase.scores;
    this.put(answer);
    this.say(answer);
    this.turn(answer.counterfactual);
    this.warn(answer.warnings);
  }

  // The changes that would turn the decision: each in a line, and a button that makes them.
  turn(found) {
    this.other.hidden = !found;
    if (!found) return;
    const line = ({ kind, name, before, after }) => Dom.make("li", {}, kind === "word" ? null : Format.clean(`${name}: `),
      Dom.make("del", {}, Format.clean(before)), " → ", after ? Dom.make("ins", {}, Format.clean(after)) : LIVE.removed);
    this.other.replaceChildren(Dom.make("strong", {}, Format.clean(found.headline)), Dom.make("ul", {}, ...found.changes.map(line)),
      Dom.make("button", { type: "button", onclick: () => this.changed(found.input, 0, true) }, LIVE.makeChanges));
    this.page.say(Format.clean(found.headline));
  }

  put(answer) {
    const active = document.activeElement?.closest("#record [data-place]")?.dataset.place;
    const typing = this.selection.element.contains(document.activeElement) ? document.activeElement : null;
    document.body.classList.toggle("one", this.number === 1 && !this.kept.size);
    this.page.put({ ...answer.page, numbers: [this.number] });
    const place = this.focus ?? active;
    this.focus = null;
    if (typing) typing.focus();
    else if (place !== undefined) document.querySelector(`#record [data-place="${place}"]`)?.focus();
  }

  // After the page has drawn the record: the selection belongs beside its words.
  drawn() {
    if (this.words) document.querySelector("#record .method")?.append(this.selection.element);
    this.selection.draw();
    return null;
  }

  shownClass() {
    const { data, state } = this.page, place = data.places.get(String(this.number));
    return state.asked ?? data.record(place).predicted;
  }

  scoreOf(c) {
    const { data } = this.page;
    return data.record(data.places.get(String(this.number))).scores[c];
  }

  // The answer that this one is a change of; null where another sentence was typed. While one types at the end of a
  // sentence, every letter is such a change of the one before, which has no meaning.
  comparable(answer) {
    const { before, last, typing } = this;
    if (!before || !typing) return before;
    if (isEdit(before.tokens, answer.tokens)) return before;
    return last && last.tokens.at(-1) === answer.tokens.at(-1) && isEdit(last.tokens, answer.tokens) ? last : null;
  }

  // How the score moved, and how long it took.
  say(answer) {
    this.status.textContent = LIVE.took(Math.round(performance.now() - this.asker.since));
    const from = this.comparable(answer);
    if (!from) return (this.moved.textContent = "");
    const { data } = this.page, c = this.shownClass(), before = new Part(from.page).record(0), now = this.scoreOf(c), was = before.scores[c];
    const digits = Format.column([was, now]), says = (x) => digits(x) + (data.unit ? ` ${data.unit}` : "");
    const change = LIVE.moved(data.className(c), says(was), says(now), (now >= was ? "+" : "") + digits(now - was));
    const turned = data.classes.length > 1 && !data.regression && before.predicted !== answer.predicted
      ? LIVE.turned(data.className(before.predicted), data.className(answer.predicted)) : "";
    this.moved.textContent = Format.clean(change + turned);
  }

  warn(warnings) {
    this.warned ??= this.page.places.live.firstChild.appendChild(Dom.make("p", { class: "warning" }));
    this.warned.textContent = Format.clean(warnings.join(" "));
  }

  fail(text) {
    this.page.fail(Format.clean(text));
  }

  // Until every kernel is compiled the page shows the progress.
  async watch() {
    for (;;) {
      try {
        const { status, body } = await this.asker.fetch("state");
        if (status === 200) {
          const { done, of, name } = body.progress;
          if (done >= of) return (this.status.textContent ||= LIVE.ready);
          this.status.textContent = LIVE.compiling(name, done + 1, of);
        }
      } catch {
        return; // the next question reports it
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

page.hooks.start.push((started) => (window.live = new Live(started)));
