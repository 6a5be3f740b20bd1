// What is above everything: records or the overview, method, comparison, class, light or dark.

class Tools {
  constructor(page, element) {
    Object.assign(this, { page, element });
    this.theme = document.documentElement.dataset.theme ?? "";
  }

  update() {
    const { data, state } = this.page, methods = data.methodRows;
    const focused = this.element.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const keyed = (key, element) => (element ? Dom.fill(element, { "data-key": key }, []) : null);
    const classes = data.classes.map((name, c) => [String(c), Format.clean(Format.short(name, 40))]);
    const parts = [
      keyed("view", Dom.switcher(TEXT.view, [["records", TEXT.records], ["whole", TEXT.overview]], state.view, (view) => state.set({ view }))),
      methods.length > 1 || data.count ? keyed("method", Dom.choice(TEXT.methodLabel, methods, state.method, (method) => state.set({ method }))) : null,
      methods.length > 1 ? keyed("with", Dom.choice(TEXT.compareWith, [["", TEXT.nothing], ...methods.filter(([name]) => name !== state.method)], state.with, (other) => state.set({ with: other }))) : null,
      classes.length > 1 && data.everyClass
        ? keyed("class", Dom.choice(data.regression ? TEXT.output : TEXT.classLabel, [["", data.regression ? TEXT.asExplained : TEXT.asPredicted], ...classes], state.class, (c) => state.set({ class: c })))
        : null,
      keyed("theme", Dom.make("button", { type: "button", class: "quiet", title: TEXT.theme, "aria-label": TEXT.switchTheme, onclick: () => this.turn() }, "◐")),
    ];
    this.element.replaceChildren(...parts.filter(Boolean));
    if (focused) this.element.querySelector(`[data-key="${focused}"]`)?.querySelector("select, button[aria-pressed=true], button")?.focus();
  }

  turn() {
    const dark = this.theme ? this.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = dark ? "light" : "dark";
    document.documentElement.dataset.theme = this.theme;
    this.page.say(TEXT.themed(this.theme));
  }
}

// Search and filters above the table. Fields stay the same elements, so that typing is never interrupted.
class Filters {
  constructor(page) {
    this.page = page;
    const { data, state } = page, set = (key) => (event) => state.set({ [key]: event.target.value });
    const input = (key, attributes) => Dom.make("input", { "data-key": key, oninput: set(key), ...attributes });
    const labeled = (text, element) => Dom.make("label", { class: "field" }, Dom.make("span", {}, text), Dom.fill(element, { "aria-label": text }, []));
    const select = (key, pairs) => Dom.make("select", { "data-key": key, onchange: set(key) },
      pairs.map(([value, text]) => Dom.make("option", { value }, Format.clean(text))));
    const classes = data.classes.map((name, c) => [String(c), Format.short(name, 40)]);
    const several = !data.regression && data.classes.length > 1, words = data.kind === "words";
    this.search = input("q", { type: "search", placeholder: words ? TEXT.searchText : TEXT.searchNames });
    this.more = Dom.make("details", { class: "more" }, Dom.make("summary", {}, TEXT.filters(0)),
      Dom.make("div", { class: "fields" },
        several ? labeled(TEXT.predictedLabel, select("predicted", [["", TEXT.any], ...classes])) : null,
        several && data.hasTruth ? labeled(TEXT.trueLabel, select("true", [["", TEXT.any], ...classes])) : null,
        !data.regression && data.hasTruth ? labeled(TEXT.predictionIs, select("right", [["", TEXT.rightOrWrong], ["yes", TEXT.right], ["no", TEXT.wrong]])) : null,
        labeled(TEXT.scoreFrom, input("min", { type: "number", step: "any" })),
        labeled(TEXT.scoreTo, input("max", { type: "number", step: "any" })),
        words ? labeled(TEXT.hasWord, input("word", { type: "text", spellcheck: "false", autocapitalize: "off" })) : null,
        Dom.make("button", { type: "button", class: "quiet", onclick: () => this.clear() }, TEXT.clear)));
    this.element = Dom.make("div", { class: "filters", role: "search" },
      Dom.make("label", { class: "field search" }, Dom.make("span", { class: "unseen" }, TEXT.search), this.search), this.more);
  }

  clear() {
    this.page.state.set({ q: "", word: "", predicted: "", true: "", right: "", min: "", max: "" });
  }

  update() {
    const { state } = this.page;
    let used = 0;
    for (const field of this.element.querySelectorAll("[data-key]")) {
      const value = state[field.dataset.key];
      if (field.value !== value) field.value = value;
      if (value && field !== this.search) used += 1;
    }
    this.more.firstChild.textContent = TEXT.filters(used);
    if (used) this.more.open = true;
  }
}
