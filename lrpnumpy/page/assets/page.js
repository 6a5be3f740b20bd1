// The page: puts the parts together, and is what a live page builds on.
//
// page.data, page.state     records (data.js) and what is chosen (state.js)
// page.put(payload, choose) add the records of a payload, or replace those of the same number, and draw again
// page.choose(place)        choose a record by its place in page.data
// page.view(record)         {record, method, c}: what is shown of it
// page.say(text)            a sentence for screen readers; page.fail(text) a banner, page.fail("") takes it away
// page.hooks.start          functions (page) called once when everything is there; page.places are its elements
// page.hooks.panels         functions (view) -> element or null, added below the chosen record each time it is drawn
// page.hooks.steps          functions (element, {view, input, position, item}) called for every word that is drawn, and
//                           (svg, {view, input, locate}) for every series: locate(event) gives the step and feature
// state.addEventListener("change", (event) => event.detail) has the keys of the state that changed

class Page {
  constructor() {
    this.hooks = { start: [], panels: [], steps: [] };
    this.places = {};
  }

  start() {
    for (const id of ["top", "about", "title", "tools", "problem", "live", "main", "records", "record", "whole", "said", "loading"]) {
      this.places[id] = document.getElementById(id);
    }
    const payload = JSON.parse(document.getElementById("payload").textContent);
    this.data = new Data(payload);
    this.state = new State();
    this.columns = new Columns(this.data, this.state);
    this.table = new Table(this);
    this.recordView = new RecordView(this, this.places.record);
    this.wholeView = new WholeView(this, this.places.whole);
    this.tools = new Tools(this, this.places.tools);
    this.filters = new Filters(this);
    this.places.records.append(this.filters.element, this.table.element);
    this.places.loading.remove();
    this.fallBack();
    this.update(null);
    this.table.reveal();
    this.state.addEventListener("change", (event) => this.update(event.detail));
    document.getElementById("skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.places.record.focus();
    });
    document.getElementById("skip").textContent = TEXT.skip;
    for (const [id, text] of [["records", TEXT.records], ["record", TEXT.chosen], ["whole", TEXT.overview]]) this.places[id].setAttribute("aria-label", text);
    for (const hook of this.hooks.start) hook(this);
    this.ready = performance.now(); // when the table was there
  }

  // Choices that mean nothing here, such as of an old address, become the first that does.
  fallBack() {
    const { data, state } = this, methods = data.methods;
    if (!methods.includes(state.method)) state.assign({ method: methods[0] ?? "" });
    if (!methods.includes(state.with) || state.with === state.method) state.assign({ with: "" });
    if (state.class !== "" && !(Number.isInteger(state.asked) && state.asked >= 0 && state.asked < data.classes.length)) state.assign({ class: "" });
    if (!data.places.has(state.record) && data.count) state.assign({ record: String(data.record(0).number) });
    DEFAULTS.method = methods[0] ?? "";
  }

  update(keys) {
    this.fallBack();
    const { state, places } = this, all = keys === null;
    const filtered = all || ["q", "word", "predicted", "true", "right", "min", "max", "sort", "down", "class", "method"].some((key) => keys.has(key));
    const whole = state.view === "whole";
    places.records.hidden = places.record.hidden = whole;
    places.whole.hidden = !whole;
    if (filtered) {
      this.passing = this.columns.passing();
      this.filters.update();
      this.about();
    }
    if (!whole) {
      if (filtered) this.table.update(this.passing);
      else this.table.draw();
      if (!all && keys.has("record")) this.table.reveal();
      if (all || ["record", "class", "method", "with", "view"].some((key) => keys.has(key))) this.recordView.update();
    } else this.wholeView.update();
    this.tools.update();
    if (!all && filtered) this.say(`${TEXT.record(this.passing.length)} of ${Format.count(this.data.count)}`);
  }

  about() {
    const { data, places } = this, methods = data.methods.length;
    const parts = [this.passing.length < data.count ? TEXT.some(this.passing.length, data.count) : TEXT.record(data.count)];
    if (methods) parts.push(TEXT.method(methods));
    if (!data.regression && data.classes.length > 1) parts.push(TEXT.class(data.classes.length));
    places.about.replaceChildren(parts.join(" · "), ...data.notes.map((note) => Dom.make("span", { class: "note" }, Format.clean(note))));
  }

  // quiet: without an entry in the history; show: scroll to it where it is above what is in sight.
  choose(place, quiet = false, show = false) {
    this.state.set({ record: this.data.record(place).number }, quiet);
    if (show && NARROW.matches) this.places.record.scrollIntoView();
  }

  // The record that is this number of rows below the selected one.
  step(by) {
    const now = this.passing.indexOf(this.data.places.get(this.state.record));
    return this.passing[now + by];
  }

  view(record) {
    const method = this.state.method;
    return { record, method, c: record.part.shown(record.k, method, this.state.asked) };
  }

  put(payload, choose = true) {
    const place = this.data.add(payload);
    this.columns.reset();
    if (choose && place >= 0) this.state.assign({ record: String(payload.numbers[0]) });
    history.replaceState(null, "", this.state.address);
    this.update(null);
    return place;
  }

  say(text) {
    this.places.said.textContent = text;
  }

  fail(text) {
    this.places.problem.textContent = text;
    this.places.problem.hidden = !text;
  }
}

const page = new Page();
document.addEventListener("DOMContentLoaded", () => page.start());
