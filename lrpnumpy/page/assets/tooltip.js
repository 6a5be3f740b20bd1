// One small box of text beside what the mouse or the keyboard is on.

const Tooltip = {
  element: null,

  show(text, box) {
    if (!Tooltip.element) {
      Tooltip.element = Dom.make("div", { class: "tooltip", role: "tooltip", id: "tooltip" });
      document.body.append(Tooltip.element);
    }
    const { element } = Tooltip;
    element.textContent = text;
    element.hidden = false;
    const { width, height } = element.getBoundingClientRect();
    const left = Math.max(6, Math.min(innerWidth - width - 6, box.left + box.width / 2 - width / 2));
    const top = box.top - height - 6 < 4 ? box.bottom + 6 : box.top - height - 6;
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  },

  hide() {
    if (Tooltip.element) Tooltip.element.hidden = true;
  },

  // The box has this text while the mouse or the focus is on the element.
  on(element, text) {
    const show = () => Tooltip.show(typeof text === "function" ? text() : text, element.getBoundingClientRect());
    for (const kind of ["mouseenter", "focus"]) element.addEventListener(kind, show);
    for (const kind of ["mouseleave", "blur"]) element.addEventListener(kind, Tooltip.hide);
    return element;
  },
};
