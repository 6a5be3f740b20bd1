// All records that pass the filters together.

class WholeView {
  constructor(page, element) {
    Object.assign(this, { page, element });
  }

  update() {
    this.element.replaceChildren();
  }
}
