// All records that pass the filters together: confusion, memory, and what supports each class.

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
      Dom.fill(element, {}, [Dom.make("p", { class: "none" }, "No record passes the filters.")]);
      return;
    }
    const all = passing.length === data.count;
    const clear = () => page.filters.clear();
    Dom.fill(element, {}, [
      Dom.make("p", { class: "which" }, all ? `All ${Format.count(data.count)} records` : `${Format.plural(passing.length, "record")} that pass the filters`,
        " ", Dom.make("a", { href: state.linkTo({ view: "records" }) }, "in the table"),
        all ? null : Dom.make("button", { type: "button", onclick: clear }, "Clear filters")),
      Dom.make("div", { class: "figures" }, confusionElement(page), memoryElement(page)),
      speakersElement(page),
    ]);
    if (pressed) element.querySelector(`button[aria-label="${CSS.escape(pressed)}"]`)?.focus();
  }
}
