// The columns of the table, and which records pass the filters, in which order.

class Columns {
  constructor(data, state) {
    Object.assign(this, { data, state });
    this.reset();
  }

  // Forget what was computed: records have changed.
  reset() {
    this.texts = null;
    this.cache = new Map();
  }

  // The numbers of a column for every record; those that depend on method and class are kept for these.
  column(name) {
    const { method, class: c } = this.state;
    const key = ["score", "probability", "ledger", "largest", "shown", "predicted"].includes(name) ? `${name} ${method} ${c}` : name;
    if (!this.cache.has(key)) this.cache.set(key, this.data.at.map(({ part, k }) => this[name](part, k)));
    return this.cache.get(key);
  }

  shown(part, k) {
    return part.shown(k, this.state.method, this.state.asked);
  }

  // The class of a row: the one explained, or the selected one.
  classOf(part, k) {
    return this.shown(part, k) ?? this.state.asked ?? (this.data.classes.length > 1 ? part.predicted(k) : 0);
  }

  number(part, k) {
    return part.payload.numbers[k];
  }

  predicted(part, k) {
    return this.data.regression ? this.score(part, k) : part.predicted(k);
  }

  true(part, k) {
    return part.array(part.payload.truth)?.[k] ?? NaN;
  }

  score(part, k) {
    return part.array(part.payload.scores)[k * this.data.classes.length + this.classOf(part, k)];
  }

  probability(part, k) {
    return part.array(part.payload.probabilities)?.[k * this.data.classes.length + this.classOf(part, k)] ?? NaN;
  }

  ledger(part, k) {
    const c = this.shown(part, k);
    return c === null ? NaN : part.ledgerShare(k, this.state.method, c);
  }

  // The step of largest relevance, and that relevance.
  largest(part, k) {
    const c = this.shown(part, k);
    if (c === null) return null;
    const D = part.payload.inputs[0].features?.length ?? 0;
    const variables = part.payload.inputs[0].kind === "words" ? null : part.feature_relevance(k, this.state.method, c);
    const found = variables ?? part.relevance(k, this.state.method, c);
    let best = -1, size = -1;
    for (let t = 0; t < found.length; t++) if (Math.abs(found[t]) > size) size = Math.abs(found[(best = t)]);
    if (best < 0) return null;
    return { step: variables ? Math.floor(best / D) : best, feature: variables ? best % D : -1, relevance: found[best] };
  }

  // What a row is called: its words, its name, or its number.
  text(place) {
    this.texts ??= this.data.at.map(({ part, k }) => {
      const { payload } = part;
      const words = payload.inputs[0].kind === "words" && payload.inputs[0].steps ? part.text(k) : "";
      const name = payload.names ? payload.names[k] : "";
      return [name, words].filter(Boolean).join(": ") || `record ${payload.numbers[k]}`;
    });
    return this.texts[place];
  }

  lowered(place) {
    const texts = this.column("lower");
    return texts[place];
  }

  lower(part, k) {
    return this.text(this.data.places.get(String(part.payload.numbers[k]))).toLowerCase();
  }

  largestText(place) {
    const found = this.column("largest")[place];
    if (!found) return "";
    const { part, k } = this.data.at[place], one = part.payload.inputs[0];
    const steps = part.array(one.steps), at = part.array(one.first)[k] + found.step;
    const step = one.kind === "vector" ? "" : steps ? part.payload.dictionary[steps[at]] : `step ${found.step}`;
    return [step, found.feature >= 0 ? one.features[found.feature] : ""].filter(Boolean).join(" ");
  }

  // The places of the records that pass, sorted.
  passing() {
    const { state, data } = this;
    const query = state.q.trim().toLowerCase(), word = state.word.trim().toLowerCase();
    const low = state.min === "" ? -Infinity : Number(state.min), high = state.max === "" ? Infinity : Number(state.max);
    const predicted = this.column("predicted"), truth = this.column("true"), score = this.column("score");
    const holds = word ? this.holding(word) : null, places = [];
    for (let n = 0; n < data.count; n++) {
      if (state.predicted !== "" && predicted[n] !== Number(state.predicted)) continue;
      if (state.true !== "" && truth[n] !== Number(state.true)) continue;
      if (state.right !== "" && (Number.isNaN(truth[n]) || this.isRight(n) !== (state.right === "yes"))) continue;
      if (!(score[n] >= low && score[n] <= high) && (low > -Infinity || high < Infinity)) continue;
      if (holds && !holds[n]) continue;
      if (query && !this.lowered(n).includes(query)) continue;
      places.push(n);
    }
    return this.sorted(places);
  }

  isRight(n) {
    return this.column("predicted")[n] === this.column("true")[n];
  }

  // Which records have a word, whole, in any input.
  holding(word) {
    const found = new Uint8Array(this.data.count), rows = new Map();
    for (const part of this.data.parts) {
      const wanted = new Set();
      part.payload.dictionary.forEach((one, k) => one.toLowerCase() === word && wanted.add(k));
      rows.set(part, wanted);
    }
    this.data.at.forEach(({ part, k }, n) => {
      const wanted = rows.get(part);
      if (!wanted.size) return;
      for (const one of part.payload.inputs) {
        const steps = part.array(one.steps), starts = part.array(one.starts), first = part.array(one.first)[k];
        if (!steps || one.kind !== "words") continue;
        for (let t = first; t < first + starts[k + 1] - starts[k]; t++) if (wanted.has(steps[t])) found[n] = 1;
      }
    });
    return found;
  }

  sorted(places) {
    const { sort, down } = this.state;
    if (!sort) return places;
    const sign = down ? -1 : 1;
    if (sort === "text" || (sort === "largest" && this.data.kind === "words")) {
      const texts = places.map((n) => (sort === "text" ? this.lowered(n) : this.largestText(n).toLowerCase()));
      const order = places.map((_, i) => i).sort((a, b) => (texts[a] < texts[b] ? -sign : texts[a] > texts[b] ? sign : 0));
      return order.map((i) => places[i]);
    }
    if (!["number", "true", "predicted", "score", "probability", "ledger", "largest"].includes(sort)) return places;
    const column = this.column(sort);
    const key = (n) => (sort === "largest" ? column[n]?.relevance ?? NaN : column[n]);
    // Unknown values are last, in both directions.
    return places.sort((a, b) => {
      const x = key(a), y = key(b);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
      return x < y ? -sign : x > y ? sign : a - b;
    });
  }
}
