// Elements made of data. Text only ever becomes text: nothing here parses HTML.

const Dom = {
  // make("button", {class: "quiet", "aria-label": "Copy", onclick: f}, "Copy", other): an element with its children.
  make(tag, attributes = {}, ...children) {
    return Dom.fill(document.createElement(tag), attributes, children);
  },

  svg(tag, attributes = {}, ...children) {
    return Dom.fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  },

  fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") Object.assign(element.style, value); // through the CSSOM, which the policy allows
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) element.append(child); // a string becomes a text node
    }
    return element;
  },

  // A <select> of [value, text, description, group] with its label; the last two may be left out.
  choice(label, rows, value, onchange) {
    const select = Dom.make("select", { "aria-label": label, onchange: () => onchange(select.value) }), groups = new Map();
    for (const [key, text, title, group] of rows) {
      if (group && !groups.has(group)) groups.set(group, select.appendChild(Dom.make("optgroup", { label: group })));
      (groups.get(group) ?? select).append(Dom.make("option", { value: key, title }, text));
      if (key === value && title) select.title = title;
    }
    select.value = value;
    return Dom.make("label", { class: "field" }, Dom.make("span", {}, label), select);
  },

  // An <input> with its label.
  field(label, attributes) {
    return Dom.make("label", { class: "field" }, Dom.make("span", {}, label), Dom.make("input", { "aria-label": label, ...attributes }));
  },

  // A row of buttons of which one is pressed.
  switcher(label, pairs, value, onchange) {
    const buttons = pairs.map(([key, text]) =>
      Dom.make("button", { type: "button", "aria-pressed": String(key === value), onclick: () => onchange(key) }, text));
    return Dom.make("div", { class: "switcher", role: "group", "aria-label": label }, buttons);
  },
};
