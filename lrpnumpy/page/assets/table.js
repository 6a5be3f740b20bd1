// The table of records: only the rows in sight are elements, so thousands do not lag.

const ROW = 36; // pixels
const NARROW = matchMedia("(max-width: 40rem)"); // then some columns are left out

class Table {
  constructor(page) {
    this.page = page;
    this.places = [];
    this.body = Dom.make("div", { class: "rows", role: "rowgroup" });
    this.space = Dom.make("div", { class: "space", role: "presentation" }, this.body);
    this.scroller = Dom.make("div", { class: "scroller", role: "presentation", tabindex: "-1" }, this.space);
    this.head = Dom.make("div", { class: "head", role: "rowgroup" });
    this.element = Dom.make("div", {
      class: "table", role: "grid", tabindex: "0", "aria-label": "Records; arrow keys choose one",
      onkeydown: (event) => this.key(event),
    }, this.head, this.scroller);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    NARROW.addEventListener("change", () => this.update(this.places));
  }

  // Columns that have something to say.
  get shown() {
    const { data } = this.page, regression = data.regression;
    const name = data.kind === "words" ? "text" : "record";
    return [
      ["number", "#"], ["text", name],
      data.hasTruth && ["true", "true"], ["predicted", "predicted"],
      !regression && ["score", "score"], data.hasProbabilities && ["probability", "prob."],
      data.hasLedger && ["ledger", "ledger"], ["largest", "largest"],
    ].filter(Boolean).filter(([key]) => !NARROW.matches || !["number", "probability", "ledger"].includes(key));
  }

  width(key) {
    const words = this.page.data.kind === "words", name = this.page.data.regression ? "5.8rem" : "minmax(3.4rem, 5.4rem)";
    const widths = { number: "2.9rem", text: "minmax(7rem, 1fr)", true: name, predicted: name, score: "4rem", probability: "4rem", ledger: "3.8rem" };
    return widths[key] ?? (words ? "minmax(4.4rem, 6.2rem)" : NARROW.matches ? "7rem" : "minmax(8rem, 15rem)");
  }

  header() {
    const { state } = this.page;
    const cells = this.shown.map(([key, text]) => {
      const sorted = state.sort === key, way = state.down ? "descending" : "ascending";
      const sort = () => state.set(sorted && state.down ? { sort: "", down: "" } : { sort: key, down: sorted ? "1" : "" });
      return Dom.make("div", { class: `cell ${key}`, role: "columnheader", "aria-sort": sorted ? way : "none" },
        Dom.make("button", { type: "button", title: Table.says[key] ?? null, onclick: sort }, text,
          Dom.make("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (state.down ? " ↓" : " ↑") : "")));
    });
    this.head.replaceChildren(Dom.make("div", { class: "row", role: "row", "aria-rowindex": "1" }, cells));
  }

  // Show these records, and the chosen one among them.
  update(places) {
    this.places = places;
    this.element.style.setProperty("--columns", this.shown.map(([key]) => this.width(key)).join(" "));
    this.header();
    this.element.setAttribute("aria-rowcount", String(places.length + 1));
    this.space.style.height = `${Math.max(1, places.length) * ROW}px`;
    this.draw();
  }

  draw() {
    const { data, state } = this.page, top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - 4);
    const last = Math.min(this.places.length, Math.ceil((top + this.scroller.clientHeight) / ROW) + 4);
    const rows = [];
    for (let i = first; i < last; i++) {
      const n = this.places[i], chosen = String(data.at[n].part.payload.numbers[data.at[n].k]) === state.record;
      const row = Dom.make("div", {
        class: "row", role: "row", id: `row-${n}`, "aria-rowindex": i + 2, "aria-selected": String(chosen),
        onclick: () => this.page.choose(n),
      }, this.shown.map(([key]) => this.cell(key, n)));
      row.style.top = `${i * ROW}px`;
      rows.push(row);
    }
    if (!this.places.length) rows.push(Dom.make("p", { class: "none" }, "No record passes these filters."));
    this.body.replaceChildren(...rows);
    const place = data.places.get(state.record);
    if (place === undefined) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", `row-${place}`);
  }

  cell(key, n) {
    const { columns, data } = this.page, cell = Dom.make("div", { class: `cell ${key}`, role: "gridcell" });
    const put = (text, title) => {
      cell.append(Format.clean(text));
      if (title) cell.title = Format.clean(title);
    };
    if (key === "text") put(columns.text(n).slice(0, 400), columns.text(n).slice(0, 400));
    else if (key === "largest") {
      const found = columns.column("largest")[n];
      if (found) {
        const text = columns.largestText(n);
        const mark = Dom.make("span", { class: "mark" }, Format.clean(Format.short(text, 40)));
        Color.paint(mark, 0.55 * Math.sign(found.relevance));
        cell.title = `${Format.clean(text)}: ${Format.signed(found.relevance)}`;
        cell.append(mark);
      }
    } else {
      const value = columns.column(key)[n];
      if (key === "number") put(String(value));
      else if (Number.isNaN(value)) put("–");
      else if (key === "probability") put(Format.percent(value));
      else if (key === "ledger") put(Format.percent(value, 0));
      else if (key === "score" || data.regression || data.classes.length === 1) put(Format.general(value));
      else put(data.className(value), data.className(value));
      if (key === "predicted" && data.hasTruth && !data.regression) {
        const truth = columns.column("true")[n];
        if (!Number.isNaN(truth)) {
          cell.classList.add(truth === value ? "right" : "wrong");
          cell.append(Dom.make("span", { class: "unseen" }, truth === value ? ", right" : ", wrong"));
        }
      }
    }
    return cell;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target.closest("button") || !(event.key in moves) || !this.places.length) return;
    event.preventDefault();
    const now = this.places.indexOf(this.page.data.places.get(this.page.state.record));
    const next = now < 0 ? 0 : Math.max(0, Math.min(this.places.length - 1, now + moves[event.key]));
    this.page.choose(this.places[next], true);
    this.reveal();
  }

  // Scroll to the chosen row where it is out of sight.
  reveal() {
    const i = this.places.indexOf(this.page.data.places.get(this.page.state.record));
    if (i < 0) return;
    const top = i * ROW, { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW - clientHeight;
    this.draw();
  }
}

Table.says = {
  ledger: "The inputs' share of the ledger: their absolute relevance divided by that of all entries",
  score: "Score of the selected class",
  probability: "Probability of the selected class",
  largest: "The most relevant word or step; red supports the class, blue contradicts it",
};
