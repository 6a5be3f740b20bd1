// All records that match the filters together: confusion, memory, and what supports each class.

// The classes that the overview has a panel for, as lrpnumpy/targets.py: the one chosen, the positive one of two where
// every class is explained, else all.
function overviewClasses(page) {
  const { data, state } = page, C = data.classes.length;
  if (state.asked !== null) return [state.asked];
  if (C === 2 && !data.regression && data.everyClass) return [1];
  return data.classes.map((_, c) => c);
}

// " for the class good", or nothing where there is one output without a name.
function targetText(data, c) {
  const name = Format.clean(data.className(c));
  if (data.regression) return name === "score" ? "" : TEXT.forOutput(name);
  return data.classes.length > 1 ? TEXT.forClass(name) : "";
}

class WholeView {
  constructor(page, element) {
    Object.assign(this, { page, element });
  }

  update() {
    const { page, element } = this, { data, passing, state } = page;
    Tooltip.hide();
    const pressed = element.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    element.replaceChildren();
    if (!passing.length) {
      Dom.fill(element, {}, [Dom.make("p", { class: "none" }, TEXT.noRecord)]);
      return;
    }
    const all = passing.length === data.count;
    const clear = () => page.filters.clear();
    Dom.fill(element, {}, [
      Dom.make("p", { class: "which" }, all ? TEXT.all(data.count) : TEXT.filtered(passing.length),
        " ", Dom.make("a", { href: state.linkTo({ view: "records" }) }, TEXT.inTable),
        all ? null : Dom.make("button", { type: "button", onclick: clear }, TEXT.clearFilters)),
      Dom.make("div", { class: "figures" }, confusionElement(page), memoryElements(page)),
      speakersElement(page),
    ]);
    if (pressed) element.querySelector(`button[aria-label="${CSS.escape(pressed)}"]`)?.focus();
  }
}
