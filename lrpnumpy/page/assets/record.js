// The chosen record: its classes, its inputs colored, its ledger; one method, or two side by side.

const CLASSES = 12, LEADING = 5; // buttons in sight at the most; of more classes, those of highest score

class RecordView {
  constructor(page, element) {
    Object.assign(this, { page, element });
  }

  update() {
    const { page, element } = this, { data, state } = page;
    const place = data.places.get(state.record);
    Tooltip.hide();
    if (place === undefined) {
      element.replaceChildren(Dom.make("p", { class: "none" }, data.count ? TEXT.choose : TEXT.none));
      return;
    }
    const record = data.record(place);
    const methods = state.methods ?? [state.method, state.with].filter((name, n, all) => name && all.indexOf(name) === n);
    const columns = methods.map((method) => renderMethod(page, record, method, methods.length > 1 || Boolean(state.methods)));
    element.replaceChildren();
    Dom.fill(element, {}, [
      this.head(record), this.classes(record),
      Dom.make("div", { class: `sides${methods.length > 1 ? " two" : ""} ${data.kind}` }, columns)]);
    for (const hook of page.hooks.panels) {
      const extra = hook(page.view(record));
      if (extra) element.append(extra);
    }
  }

  head(record) {
    const { data } = this.page;
    const name = record.name ? Format.clean(record.name) : this.page.state.methods ? TEXT.alone(data) : TEXT.recordName(record.number);
    const said = [];
    const c = record.part.shown(record.k, this.page.state.method, this.page.state.asked) ?? 0;
    if (data.regression) said.push(TEXT.predicted(data.withUnit(record.scores[c])));
    else if (data.classes.length > 1) said.push(TEXT.predicted(data.className(record.predicted)));
    if (record.truth !== null) {
      const value = data.regression || data.classes.length === 1 ? data.withUnit(record.truth) : data.className(record.truth);
      said.push(TEXT.true(value));
    }
    return Dom.make("div", { class: "recordhead" }, this.steps(),
      Dom.make("h2", {}, Format.short(name, 80)),
      Dom.make("p", { class: "quiet" }, Format.clean(said.join(" · "))));
  }

  // Buttons to the records before and after, where the table is not beside this one.
  steps() {
    const { page } = this, { data, state } = page;
    if (!page.step || data.count < 2) return null;
    const button = (by, sign, text) => {
      const place = page.step(by);
      return Dom.make("button", { type: "button", "aria-label": text, disabled: place === undefined, onclick: () => page.choose(place) }, sign);
    };
    const now = page.passing.indexOf(data.places.get(state.record)) + 1;
    return Dom.make("div", { class: "steps" }, button(-1, "‹", TEXT.previous), now ? TEXT.place(now, page.passing.length) : "", button(1, "›", TEXT.next));
  }

  // Every class with its score and probability; a button where it can be shown.
  classes(record) {
    const { data, state } = this.page;
    if (data.classes.length < 2) return null;
    const chosen = record.part.shown(record.k, state.method, state.asked);
    const digits = Format.column(record.scores);
    const buttons = data.classes.map((name, c) => {
      const can = record.part.shown(record.k, state.method, c) !== null;
      const p = record.probabilities?.[c];
      const bar = Dom.make("span", { class: "bar", "aria-hidden": "true" });
      if (p !== undefined) bar.style.width = `${100 * p}%`;
      return Dom.make("button", {
        type: "button", class: "class", "aria-pressed": String(c === chosen), disabled: !can,
        title: can ? null : TEXT.notExplained, onclick: () => state.set({ class: c }),
      },
      bar, Dom.make("span", { class: "name" }, Format.clean(Format.short(name, 40))),
      Dom.make("span", { class: "numbers" }, digits(record.scores[c]), p === undefined ? "" : ` · ${Format.percent(p)}`));
    });
    const first = leadingClasses(record, chosen), rest = buttons.filter((_, c) => !first.has(c));
    const list = (some) => Dom.make("div", { class: "classes", role: "group", "aria-label": TEXT.explainedClass }, some);
    const shown = list(buttons.filter((_, c) => first.has(c)));
    return rest.length ? [shown, Dom.make("details", { class: "rest" }, Dom.make("summary", {}, TEXT.otherClasses(rest.length)), list(rest))] : shown;
  }
}

// The classes in sight: all, or of many the explained one, the predicted, the true, and those of highest score.
function leadingClasses(record, chosen) {
  const order = Array.from(record.scores.keys()).sort((a, b) => record.scores[b] - record.scores[a]);
  return new Set(order.length <= CLASSES ? order : [...order.slice(0, LEADING), chosen, record.predicted, record.truth]);
}

// One record by one method: heading, every input, ledger, buttons to copy it. Used for each side of a comparison.
function renderMethod(page, record, method, named) {
  const { state } = page, part = record.part, c = part.shown(record.k, method, state.asked);
  const element = Dom.make("article", { class: "method", "aria-label": TEXT.by(method) });
  const about = part.methodOf(method)?.description;
  if (named) element.append(Tooltip.on(Dom.make("h3", { tabindex: about ? "0" : null }, method), about ?? method));
  if (c === null) {
    element.append(Dom.make("p", { class: "none" }, part.methodOf(method)
      ? TEXT.onlyClass(method, page.data.className(part.shown(record.k, method, null)))
      : TEXT.notThisRecord(method)));
    return element;
  }
  const view = { record, method, c };
  record.inputs.forEach((input, i) => {
    if (record.inputs.length > 1) element.append(Dom.make("h4", {}, Format.clean(input.name)));
    element.append(renderInput(page, view, i));
  });
  element.append(legendElement(page, view));
  element.append(Dom.make("p", { class: "evidence" }, Format.clean(part.evidence(record.k, method, c))));
  element.append(ledgerElement(page, view), copyElement(page, view));
  return element;
}

// What the colors mean.
function legendElement(page, { record }) {
  const [red, blue] = TEXT.legend(page.data.regression), unknown = record.inputs.some((input) => input.marks?.includes(MARK.unknown));
  return Dom.make("p", { class: "legend" },
    Dom.make("span", { class: "for", "aria-hidden": "true" }), `${red}, `, Dom.make("span", { class: "against", "aria-hidden": "true" }), blue,
    unknown ? `; ${TEXT.unknown}` : "");
}

// One input of a view {record, method, c} as an element: words and features of one step, or a series.
function renderInput(page, view, i) {
  return view.record.inputs[i].kind === "series" ? seriesElement(page, view, i) : wordsElement(page, view, i);
}
