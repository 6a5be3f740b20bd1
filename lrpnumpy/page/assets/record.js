// The chosen record: its classes, its inputs colored, its ledger; one method, or two side by side.

class RecordView {
  constructor(page, element) {
    Object.assign(this, { page, element });
  }

  update() {
    const { page, element } = this, { data, state } = page;
    const place = data.places.get(state.record);
    Tooltip.hide();
    if (place === undefined) {
      element.replaceChildren(Dom.make("p", { class: "none" }, data.count ? "Choose a record." : "No record yet."));
      return;
    }
    const record = data.record(place);
    const methods = [state.method, state.with].filter((name, n, all) => name && all.indexOf(name) === n);
    const columns = methods.map((method) => renderMethod(page, record, method, methods.length > 1));
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
    const name = record.name ? Format.clean(record.name) : `Record ${record.number}`;
    const said = [];
    const c = record.part.shown(record.k, this.page.state.method, this.page.state.asked) ?? 0;
    if (data.regression) said.push(`predicted ${data.withUnit(record.scores[c])}`);
    else if (data.classes.length > 1) said.push(`predicted ${data.className(record.predicted)}`);
    if (record.truth !== null) {
      const value = data.regression || data.classes.length === 1 ? data.withUnit(record.truth) : data.className(record.truth);
      said.push(`true ${value}`);
    }
    return Dom.make("div", { class: "recordhead" },
      Dom.make("h2", {}, Format.short(name, 80)),
      Dom.make("p", { class: "quiet" }, Format.clean(said.join(" · "))));
  }

  // Every class with its score and probability; a button where it can be shown.
  classes(record) {
    const { data, state } = this.page;
    if (data.classes.length < 2) return null;
    const chosen = record.part.shown(record.k, state.method, state.asked);
    const list = data.classes.map((name, c) => {
      const can = record.part.shown(record.k, state.method, c) !== null;
      const p = record.probabilities?.[c];
      const bar = Dom.make("span", { class: "bar", "aria-hidden": "true" });
      if (p !== undefined) bar.style.width = `${100 * p}%`;
      return Dom.make("button", {
        type: "button", class: "class", "aria-pressed": String(c === chosen), disabled: !can,
        title: can ? null : "This method has not explained this class", onclick: () => state.set({ class: c }),
      },
      bar, Dom.make("span", { class: "name" }, Format.clean(Format.short(name, 40))),
      Dom.make("span", { class: "numbers" }, Format.general(record.scores[c]), p === undefined ? "" : ` · ${Format.percent(p)}`));
    });
    return Dom.make("div", { class: "classes", role: "group", "aria-label": "Class that is explained" }, list);
  }
}

// One record by one method: heading, every input, ledger, buttons to copy it. Used for each side of a comparison.
function renderMethod(page, record, method, named) {
  const { state } = page, part = record.part, c = part.shown(record.k, method, state.asked);
  const element = Dom.make("article", { class: "method", "aria-label": `by ${method}` });
  if (named) element.append(Dom.make("h3", {}, method));
  if (c === null) {
    element.append(Dom.make("p", { class: "none" }, part.methodOf(method)
      ? `${method} has explained ${page.data.className(part.shown(record.k, method, null))} only.`
      : `${method} has not explained this record.`));
    return element;
  }
  const view = { record, method, c }, unknown = record.inputs.some((input) => input.marks?.includes(MARK.unknown));
  record.inputs.forEach((input, i) => {
    if (record.inputs.length > 1) element.append(Dom.make("h4", {}, Format.clean(input.name)));
    element.append(renderInput(page, view, i));
  });
  const what = page.data.regression ? ["raises the prediction", "lowers it"] : ["supports this class", "contradicts it"];
  element.append(Dom.make("p", { class: "legend" },
    Dom.make("span", { class: "for", "aria-hidden": "true" }), `red ${what[0]}, `, Dom.make("span", { class: "against", "aria-hidden": "true" }), `blue ${what[1]}`,
    unknown ? "; [?] is not in the vocabulary" : ""));
  element.append(Dom.make("p", { class: "evidence" }, Format.clean(part.evidence(record.k, method, c))));
  element.append(ledgerElement(page, view), copyElement(page, view));
  return element;
}

// One input of a view {record, method, c} as an element: words and features of one step, or a series.
function renderInput(page, view, i) {
  return view.record.inputs[i].kind === "series" ? seriesElement(page, view, i) : wordsElement(page, view, i);
}
