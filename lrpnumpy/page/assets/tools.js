// The tools at the top: records or overview, method, comparison, class, light or dark.

class Tools {
  constructor(page, element) {
    Object.assign(this, { page, element });
    this.theme = document.documentElement.dataset.theme ?? "";
  }

  update() {
    const { data, state } = this.page, methods = data.methods.map((name) => [name, name]);
    const focused = this.element.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const keyed = (key, element) => (element ? Dom.fill(element, { "data-key": key }, []) : null);
    const classes = data.classes.map((name, c) => [String(c), Format.clean(Format.short(name, 40))]);
    const parts = [
      keyed("view", Dom.switcher("View", [["records", "Records"], ["whole", "Overview"]], state.view, (view) => state.set({ view }))),
      methods.length > 1 || data.count ? keyed("method", Dom.choice("Method", methods, state.method, (method) => state.set({ method }))) : null,
      methods.length > 1 ? keyed("with", Dom.choice("Compare with", [["", "nothing"], ...methods.filter(([name]) => name !== state.method)], state.with, (other) => state.set({ with: other }))) : null,
      classes.length > 1 && data.everyClass
        ? keyed("class", Dom.choice(data.regression ? "Output" : "Class", [["", data.regression ? "as explained" : "as predicted"], ...classes], state.class, (c) => state.set({ class: c })))
        : null,
      keyed("theme", Dom.make("button", { type: "button", class: "quiet", title: "Light or dark", "aria-label": "Switch between light and dark", onclick: () => this.turn() }, "◐")),
    ];
    this.element.replaceChildren(...parts.filter(Boolean));
    if (focused) this.element.querySelector(`[data-key="${focused}"]`)?.querySelector("select, button[aria-pressed=true], button")?.focus();
  }

  turn() {
    const dark = this.theme ? this.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = dark ? "light" : "dark";
    document.documentElement.dataset.theme = this.theme;
    this.page.say(`${this.theme} colors`);
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
    this.search = input("q", { type: "search", placeholder: words ? "Search the text" : "Search the names" });
    this.more = Dom.make("details", { class: "more" }, Dom.make("summary", {}, "Filters"),
      Dom.make("div", { class: "fields" },
        several ? labeled("Predicted", select("predicted", [["", "any"], ...classes])) : null,
        several && data.hasTruth ? labeled("True", select("true", [["", "any"], ...classes])) : null,
        !data.regression && data.hasTruth ? labeled("Prediction is", select("right", [["", "right or wrong"], ["yes", "right"], ["no", "wrong"]])) : null,
        labeled("Score from", input("min", { type: "number", step: "any" })),
        labeled("Score to", input("max", { type: "number", step: "any" })),
        words ? labeled("Has the word", input("word", { type: "text", spellcheck: "false", autocapitalize: "off" })) : null,
        Dom.make("button", { type: "button", class: "quiet", onclick: () => this.clear() }, "Clear")));
    this.element = Dom.make("div", { class: "filters", role: "search" },
      Dom.make("label", { class: "field search" }, Dom.make("span", { class: "unseen" }, "Search"), this.search), this.more);
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
    this.more.firstChild.textContent = used ? `Filters (${used})` : "Filters";
    if (used) this.more.open = true;
  }
}
