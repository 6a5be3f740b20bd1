// What is chosen, kept in the address: #record=17&class=2. The back button goes to the record before.

const DEFAULTS = {
  view: "records", record: "", class: "", method: "", with: "", q: "", word: "", predicted: "", true: "", right: "",
  min: "", max: "", sort: "", down: "",
};
const QUIET = new Set(["q", "word", "min", "max", "sort", "down"]); // these make no entry in the history

class State extends EventTarget {
  constructor() {
    super();
    Object.assign(this, DEFAULTS, State.parsed(location.hash));
    window.addEventListener("hashchange", () => this.take(State.parsed(location.hash)));
  }

  static parsed(hash) {
    const found = { ...DEFAULTS };
    for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) if (key in found) found[key] = value;
    return found;
  }

  get address() {
    const said = Object.keys(DEFAULTS).filter((key) => this[key] !== DEFAULTS[key]).map((key) => [key, this[key]]);
    return `#${new URLSearchParams(said)}`;
  }

  // The address of the same page with something else chosen: for links.
  linkTo(changes) {
    const said = { ...Object.fromEntries(Object.keys(DEFAULTS).map((key) => [key, this[key]])), ...changes };
    return `#${new URLSearchParams(Object.entries(said).filter(([key, value]) => value !== DEFAULTS[key]))}`;
  }

  // Choose: state.set({record: "17"}). The address follows, and listeners of "change" hear which keys changed.
  set(changes, quiet = false) {
    const keys = this.assign(changes);
    if (!keys.length) return;
    const replace = quiet || keys.every((key) => QUIET.has(key));
    history[replace ? "replaceState" : "pushState"](null, "", this.address);
    this.tell(keys);
  }

  take(found) {
    const keys = this.assign(found);
    if (keys.length) this.tell(keys);
  }

  assign(changes) {
    const keys = Object.keys(changes).filter((key) => key in DEFAULTS && String(changes[key]) !== this[key]);
    for (const key of keys) this[key] = String(changes[key]);
    return keys;
  }

  tell(keys) {
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(keys) }));
  }

  // The class asked for as a number, or null: that which each record was explained for.
  get asked() {
    return this.class === "" ? null : Number(this.class);
  }
}
