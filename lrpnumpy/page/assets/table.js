// The table of records: only the rows in sight are elements, so thousands do not lag.

const ROW = 36; // pixels
const NARROW = matchMedia("(max-width: 40rem)"); // then some columns are left out

class Table {
  constructor(page) {
    this.page = page;
    this.places = [];
    this.formats = new WeakMap(); // how the numbers of a column are written
    this.body = Dom.make("div", { class: "rows", role: "rowgroup" });
    this.space = Dom.make("div", { class: "space", role: "presentation" }, this.body);
    this.scroller = Dom.make("div", { class: "scroller", role: "presentation", tabindex: "-1" }, this.space);
    this.head = Dom.make("div", { class: "head", role: "rowgroup" });
    this.element = Dom.make("div", {
      class: "table", role: "grid", tabindex: "0", "aria-label": TEXT.grid,
      onkeydown: (event) => this.key(event),
    }, this.head, this.scroller);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    addEventListener("scroll", () => NARROW.matches && this.draw(), { passive: true });
    NARROW.addEventListener("change", () => this.update(this.places));
  }

  // Columns that have something to say.
  get shown() {
    const { data } = this.page, regression = data.regression;
    const { columns } = TEXT, name = data.kind === "words" ? columns.text : columns.record;
    return [
      ["number", columns.number], ["text", name],
      data.hasTruth && ["true", columns.true], ["predicted", columns.predicted],
      !regression && ["score", columns.score], data.hasProbabilities && ["probability", columns.probability],
      data.hasLedger && ["ledger", columns.ledger], ["largest", columns.largest],
    ].filter(Boolean).filter(([key]) => !NARROW.matches || !["number", "probability", "ledger", "score"].includes(key));
  }

  width(key) {
    const words = this.page.data.kind === "words", name = this.page.data.regression ? (NARROW.matches ? "4.6rem" : "5.8rem") : "minmax(4.6rem, 5.6rem)";
    const widths = { number: "2.9rem", text: NARROW.matches ? "minmax(5rem, 1fr)" : "minmax(7rem, 1fr)", true: name, predicted: name, score: "4rem", probability: "4rem", ledger: "3.8rem" };
    return widths[key] ?? (words ? "minmax(4.4rem, 6.4rem)" : NARROW.matches ? "6.6rem" : "minmax(8rem, 15rem)");
  }

  header() {
    const { state } = this.page;
    const cells = this.shown.map(([key, text]) => {
      const sorted = state.sort === key, way = state.down ? "descending" : "ascending";
      const sort = () => state.set(sorted && state.down ? { sort: "", down: "" } : { sort: key, down: sorted ? "1" : "" });
      return Dom.make("div", { class: `cell ${key}`, role: "columnheader", "aria-sort": sorted ? way : "none" },
        Dom.make("button", { type: "button", title: TEXT.meanings[key] ?? null, onclick: sort }, text,
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

  // Which pixels of the list are in sight. In a narrow window the list scrolls with the page, not inside it.
  get sight() {
    if (!NARROW.matches) return { top: this.scroller.scrollTop, high: this.scroller.clientHeight };
    return { top: Math.max(0, -this.space.getBoundingClientRect().top), high: innerHeight };
  }

  // How the numbers of a column are written: all with the same decimals; whole ones, such as classes, without.
  digits(key) {
    const column = this.page.columns.column(key);
    if (!this.formats.has(column)) {
      const whole = column.every((x) => Number.isInteger(x) || Number.isNaN(x));
      this.formats.set(column, whole ? Format.general : Format.column(column));
    }
    return this.formats.get(column);
  }

  draw() {
    const { data, state } = this.page, { top, high } = this.sight;
    const first = Math.max(0, Math.floor(top / ROW) - 4);
    const last = Math.min(this.places.length, Math.ceil((top + high) / ROW) + 4);
    const rows = [];
    for (let i = first; i < last; i++) {
      const n = this.places[i], chosen = String(data.at[n].part.payload.numbers[data.at[n].k]) === state.record;
      const row = Dom.make("div", {
        class: "row", role: "row", id: `row-${n}`, "aria-rowindex": i + 2, "aria-selected": String(chosen),
        onclick: () => this.page.choose(n, false, true),
      }, this.shown.map(([key]) => this.cell(key, n)));
      row.style.top = `${i * ROW}px`;
      rows.push(row);
    }
    if (!this.places.length) rows.push(Dom.make("p", { class: "none" }, TEXT.noRecord));
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
        const { part, k } = data.at[n], method = this.page.state.method;
        Color.paint(mark, 0.55 * Color.share(found.relevance, Color.full([found.relevance], part.explained(k, method, columns.shown(part, k)))));
        cell.title = `${Format.clean(text)}: ${Format.signed(found.relevance)}`;
        cell.append(mark);
      }
    } else {
      const value = columns.column(key)[n];
      if (key === "number") put(String(value));
      else if (Number.isNaN(value)) put("–");
      else if (key === "probability") put(Format.percent(value));
      else if (key === "ledger") put(Format.percent(value, 0));
      else if (key === "score" || data.regression || data.classes.length === 1) put(this.digits(key)(value));
      else put(data.briefName(value), data.className(value));
      if (key === "predicted" && data.hasTruth && !data.regression) {
        const truth = columns.column("true")[n];
        if (!Number.isNaN(truth)) {
          cell.classList.add(truth === value ? "right" : "wrong");
          cell.append(Dom.make("span", { class: "unseen" }, TEXT.isRight(truth === value)));
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
    if (i < 0 || NARROW.matches) return;
    const top = i * ROW, { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.scroller.scrollTop = top + ROW - clientHeight;
    this.draw();
  }
}
