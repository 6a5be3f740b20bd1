// The words, or the features, that most support and contradict each class, each with a few records where they do.

const SPEAKERS = { words: 8, contexts: 3, around: 4 };

// How often a word must occur before its mean is meaningful.
function leastCount(records) {
  return records < 50 ? 1 : records < 500 ? 2 : records < 5000 ? 5 : 10;
}

// Calls visit(id, relevance, place, t) for every word, or every feature of a record, of the class c; returns the names.
function eachSpeaker(page, c, visit) {
  const { data, state, passing } = page, ids = new Map(), names = [], known = new Map();
  const idOf = (name) => ids.get(name) ?? (ids.set(name, names.length), names.push(name) - 1);
  for (const n of passing) {
    const { part, k } = data.at[n];
    if (part.shown(k, state.method, c) === null) continue;
    part.payload.inputs.forEach((one, i) => {
      const relevance = part.relevance(k, state.method, c, i);
      if (one.kind === "words" && one.steps) {
        if (!known.has(part)) known.set(part, part.payload.dictionary.map(() => -1));
        const steps = part.array(one.steps), marks = part.array(one.marks), first = part.array(one.first)[k], own = known.get(part);
        for (let t = 0; t < relevance.length; t++) {
          const word = steps[first + t];
          if (marks && marks[first + t] === MARK.padding) continue;
          if (own[word] < 0) own[word] = idOf(part.payload.dictionary[word]);
          visit(own[word], relevance[t], n, t, i);
        }
        return;
      }
      const variables = part.feature_relevance(k, state.method, c, i), before = part.payload.inputs.length > 1 ? `${one.name}: ` : "";
      if (!variables) return;
      const D = one.features.length, sums = new Float64Array(D);
      for (let m = 0; m < variables.length; m++) sums[m % D] += variables[m];
      for (let d = 0; d < D; d++) visit(idOf(before + one.features[d]), sums[d], n, d, i);
    });
  }
  return names;
}

// For each class {pro, con}: the speakers [{name, mean, count, contexts}] of highest and of lowest mean relevance.
function speakersOf(page, c, least) {
  const sums = [], counts = [];
  const names = eachSpeaker(page, c, (id, x) => {
    if (!Number.isFinite(x)) return;
    sums[id] = (sums[id] ?? 0) + x;
    counts[id] = (counts[id] ?? 0) + 1;
  });
  const all = names.map((name, id) => ({ name, id, mean: sums[id] / counts[id], count: counts[id] ?? 0, contexts: [] }))
    .filter((one) => one.count >= least);
  all.sort((a, b) => b.mean - a.mean || a.id - b.id);
  const pro = all.filter((one) => one.mean > 0).slice(0, SPEAKERS.words);
  const con = all.filter((one) => one.mean < 0).slice(-SPEAKERS.words).reverse();
  const wanted = new Map([...pro, ...con].map((one) => [one.id, one]));
  eachSpeaker(page, c, (id, x, place, t, input) => {
    const one = wanted.get(id);
    if (!one || !Number.isFinite(x)) return;
    const size = one.mean > 0 ? x : -x, { contexts } = one;
    if (contexts.length === SPEAKERS.contexts && size <= contexts.at(-1).size) return;
    if (contexts.some((other) => other.place === place)) return;
    contexts.push({ size, place, t, input, relevance: x });
    contexts.sort((a, b) => b.size - a.size);
    contexts.length = Math.min(contexts.length, SPEAKERS.contexts);
  });
  return { pro, con };
}

// A few words around one, as a link to its record.
function contextElement(page, c, { place, t, input, relevance }) {
  const { data, state } = page, record = data.record(place), one = record.inputs[input];
  const link = Dom.make("a", { href: state.linkTo({ record: record.number, class: data.everyClass ? c : state.class, view: "records" }) });
  if (one.kind === "words") {
    const from = Math.max(0, t - SPEAKERS.around), to = Math.min(one.T, t + SPEAKERS.around + 1);
    const mark = Dom.make("mark", {}, Format.clean(one.names[t]));
    Color.paint(mark, 0.7 * Math.sign(relevance));
    link.append(from ? "… " : "", Format.clean(one.names.slice(from, t).join(" ")), " ", mark, " ", Format.clean(one.names.slice(t + 1, to).join(" ")), to < one.T ? " …" : "");
  } else link.append(Format.clean(record.name ?? TEXT.unnamed(record.number)));
  return Dom.make("li", { dir: "auto" }, link, Dom.make("span", { class: "quiet" }, ` ${Format.signed(relevance, 3)}`));
}

function speakersElement(page) {
  const { data, state, passing } = page, words = data.kind === "words";
  const least = words ? leastCount(passing.length) : 1;
  const cards = overviewClasses(page).map((c) => {
    const { pro, con } = speakersOf(page, c, least);
    if (!pro.length && !con.length) return null;
    const means = [...pro, ...con].map((one) => one.mean), largest = Color.largest(means), digits = Format.signedColumn(means);
    const list = (some) => some.map((one) => {
      const bar = Dom.make("span", { class: "meanbar", "aria-hidden": "true" });
      bar.style.width = `${(100 * Math.abs(one.mean)) / (largest || 1)}%`;
      bar.style.backgroundColor = `rgb(${one.mean > 0 ? Color.red : Color.blue})`;
      return Dom.make("details", { class: "speaker" },
        Dom.make("summary", {}, Dom.make("bdi", { class: "speakername", title: Format.clean(one.name) }, Format.clean(Format.short(one.name, 40))), Dom.make("span", { class: "meanroom" }, bar),
          Dom.make("span", { class: "quiet" }, `${digits(one.mean)} · ${Format.count(one.count)}×`)),
        Dom.make("ul", { class: "contexts" }, one.contexts.map((context) => contextElement(page, c, context))));
    });
    const side = (title, some) => (some.length ? Dom.make("div", {}, Dom.make("h4", {}, title), list(some)) : null);
    const name = data.classes.length > 1 ? Format.clean(data.className(c)) : TEXT.theScore;
    const records = passing.filter((n) => data.at[n].part.shown(data.at[n].k, state.method, c) !== null).length;
    return Dom.make("article", { class: "card", "aria-label": TEXT.influences(name) },
      Dom.make("h3", {}, name, Dom.make("span", { class: "quiet" }, ` ${TEXT.forRecords(records)}`)),
      Dom.make("div", { class: "pros" }, side(TEXT.pro(data.regression), pro), side(TEXT.con(data.regression), con)));
  }).filter(Boolean);
  const classes = overviewClasses(page), target = classes.length === 1 ? targetText(data, classes[0]) : "";
  const what = words ? TEXT.aboutWords(state.method, least) : TEXT.aboutFeatures(state.method);
  const list = Dom.make("div", { class: "cards" }, cards);
  list.style.setProperty("--across", String(across(cards.length)));
  return Dom.make("section", { class: "speakers" }, Dom.make("h2", {}, (words ? TEXT.mostWords : TEXT.mostFeatures) + target),
    Dom.make("p", { class: "quiet" }, cards.length ? what : TEXT.noInfluence),
    list);
}

// How many cards are in a row, so that the last row is not left with one.
function across(count) {
  if (count === 1) return 1;
  return [4, 3, 5, 2].find((one) => count % one === 0 || count % one > one / 2) ?? 3;
}
