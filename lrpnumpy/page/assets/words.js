// The words of a record on the colors of their relevance; features of one step likewise.

const MARK = { unknown: 1, padding: 2 };

// The items of an input: of words each word, with runs of padding as one; of one step each feature.
function itemsOf(input, relevance, variables) {
  if (input.kind === "vector") {
    return input.features.map((name, d) => {
      const value = input.values?.[d];
      const text = Number.isFinite(value) ? `${name} = ${Format.general(value)}` : name;
      return { text, relevance: variables ? variables[d] : relevance[0], position: d };
    });
  }
  const items = [];
  for (let t = 0; t < input.T; t++) {
    const padding = input.marks?.[t] === MARK.padding, before = items.at(-1);
    if (padding && before?.padding) {
      before.count += 1;
      before.relevance += relevance[t];
      before.text = `${PAD}×${before.count}`;
      continue;
    }
    const text = padding && !input.named ? PAD : input.names[t];
    items.push({ text, relevance: relevance[t], position: t, padding, count: 1, unknown: input.marks?.[t] === MARK.unknown });
  }
  for (const item of items) if (item.unknown) item.text += "[?]";
  return items;
}
const PAD = "<pad>";

// The text of an item: its number, and its size relative to the others.
function itemSays(item, largest) {
  const size = largest ? TEXT.share(Math.round(100 * Math.abs(item.relevance) / largest)) : "";
  return `${Format.clean(item.text)}: ${Format.signed(item.relevance)}${size}`;
}

// The relevance of full color among the items of an input: the largest, and not less than a part of the score.
function fullColor({ record, method, c }, items) {
  return Color.full(items.map((item) => item.relevance), record.part.explained(record.k, method, c));
}

// view: {record, method, c} and input i of its record. The arrow keys go from word to word.
function wordsElement(page, view, i) {
  const { record, method, c } = view, input = record.inputs[i];
  const items = itemsOf(input, record.part.relevance(record.k, method, c, i), record.part.feature_relevance(record.k, method, c, i));
  const largest = Color.largest(items.map((item) => item.relevance)), full = fullColor(view, items);
  const element = Dom.make("div", { class: `words ${input.kind}`, role: "list", dir: "auto", "aria-label": TEXT.inputBy(input.name, method) });
  items.forEach((item, n) => {
    const says = itemSays(item, largest);
    const word = Dom.make("span", { class: "word", role: "listitem", tabindex: n ? "-1" : "0", "aria-label": says }, Format.clean(item.text));
    if (item.padding) word.classList.add("padding");
    if (item.unknown) word.classList.add("unknown");
    Color.paint(word, Color.share(item.relevance, full));
    Tooltip.on(word, says);
    for (const hook of page.hooks.steps) hook(word, { view, input: i, position: item.position, item });
    element.append(word, " ");
  });
  element.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], word = event.target.closest(".word");
    if (!step || !word || event.target !== word) return;
    event.preventDefault();
    const words = [...element.querySelectorAll(".word")], next = words[words.indexOf(word) + step];
    if (!next) return;
    word.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return element;
}
