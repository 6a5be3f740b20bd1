// The payload, read: arrays when they are first needed, records as small objects. See lrpnumpy/page/payload.py.

const ARRAYS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let k = 0; k < binary.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}

// One payload: the results of N records by the same methods.
class Part {
  constructor(payload) {
    this.payload = payload;
    this.count = payload.numbers.length;
    this.methods = payload.methods.map((one) => one.name);
    this.read = new Map(); // arrays that have been decoded, by their descriptor
  }

  // A typed array from its descriptor; a list is taken as it is.
  array(one) {
    if (one === null || one === undefined || Array.isArray(one)) return one ?? null;
    if (!this.read.has(one)) {
      const text = one.base64 ?? document.getElementById(`block-${one.block}`).textContent;
      this.read.set(one, new ARRAYS[one.dtype](decoded(text).buffer));
    }
    return this.read.get(one);
  }

  // The record k: everything about it that does not depend on the method.
  record(k) {
    const { payload } = this, C = payload.classes.length;
    const scores = this.array(payload.scores).slice(k * C, (k + 1) * C);
    const probabilities = this.array(payload.probabilities)?.slice(k * C, (k + 1) * C) ?? null;
    const truth = this.array(payload.truth)?.[k] ?? NaN;
    return {
      part: this, k, number: payload.numbers[k], name: payload.names ? payload.names[k] : null,
      scores, probabilities, truth: Number.isNaN(truth) ? null : truth,
      predicted: this.predicted(k), inputs: payload.inputs.map((_, i) => this.input(k, i)),
    };
  }

  // The class of highest score; of one score with a probability, whether that is over a half.
  predicted(k) {
    const { payload } = this, C = payload.classes.length, scores = this.array(payload.scores);
    if (C === 1 && payload.probabilities) return Number(this.array(payload.probabilities)[k] > 0.5);
    let best = 0;
    for (let c = 1; c < C; c++) if (scores[k * C + c] > scores[k * C + best]) best = c;
    return best;
  }

  // One input of a record: its steps, marks and values.
  input(k, i) {
    const one = this.payload.inputs[i], starts = this.array(one.starts), first = this.array(one.first)[k];
    const T = starts[k + 1] - starts[k], D = one.features ? one.features.length : 0;
    const marks = this.array(one.marks)?.subarray(first, first + T) ?? null;
    const values = this.array(one.values)?.subarray(first * D, (first + T) * D) ?? null;
    const steps = this.array(one.steps), words = this.payload.dictionary;
    const names = Array.from({ length: T }, (_, t) => (steps ? words[steps[first + t]] : String(t)));
    return { name: one.name, kind: one.kind, unit: one.unit ?? "step", features: one.features, T, D, marks, values, names, named: Boolean(steps) };
  }

  text(k) {
    const one = this.payload.inputs[0], starts = this.array(one.starts), first = this.array(one.first)[k];
    const steps = this.array(one.steps), marks = this.array(one.marks), found = [];
    for (let t = 0; t < starts[k + 1] - starts[k]; t++) {
      if (!marks || marks[first + t] !== 2) found.push(this.payload.dictionary[steps[first + t]]);
    }
    return found.join(" ");
  }

  // The class whose explanation is shown of record k: the one asked for, else that explained or predicted. Null where
  // the method has not explained it.
  shown(k, name, asked) {
    const one = this.methodOf(name);
    if (!one) return null;
    if (!one.targets) return asked ?? (this.payload.classes.length > 1 ? this.predicted(k) : 0);
    const target = this.array(one.targets)[k];
    return asked === null || asked === target ? target : null;
  }

  methodOf(name) {
    return this.payload.methods[this.methods.indexOf(name)] ?? null;
  }

  // Relevance (T,) of one input of record k for class c.
  relevance(k, name, c, i = 0) {
    const one = this.methodOf(name), starts = this.array(this.payload.inputs[i].starts);
    const R = starts[this.count], lead = one.targets ? 0 : c * R;
    return this.array(one.inputs[i].relevance).subarray(lead + starts[k], lead + starts[k + 1]);
  }

  // Relevance (T * D,) of its variables, or null.
  feature_relevance(k, name, c, i = 0) {
    const one = this.methodOf(name), own = this.payload.inputs[i], starts = this.array(own.starts);
    const all = this.array(one.inputs[i].feature_relevance);
    if (!all) return null;
    const R = starts[this.count], D = own.features.length, lead = one.targets ? 0 : c * R;
    return all.subarray((lead + starts[k]) * D, (lead + starts[k + 1]) * D);
  }

  // The entries of the ledger as [name, value] pairs, or null.
  ledger(k, name, c) {
    const one = this.methodOf(name), rows = one && this.array(one.ledger);
    if (!rows) return null;
    const E = one.entries.length, start = ((one.targets ? 0 : c) * this.count + k) * E;
    return one.entries.map((entry, e) => [entry, rows[start + e]]);
  }

  // The score of the reference, or 0.
  reference(k, name, c) {
    return this.ledger(k, name, c)?.find(([entry]) => entry === "reference")?.[1] ?? 0;
  }

  // The score of class c, or its difference to that of another class.
  score(k, name, c) {
    const { versus } = this.methodOf(name), C = this.payload.classes.length, scores = this.array(this.payload.scores);
    return scores[k * C + c] - ((versus ?? null) === null ? 0 : scores[k * C + versus]);
  }

  // What relevance is a part of, the score less that of the reference; null of a method whose relevance is not.
  explained(k, name, c) {
    return this.methodOf(name).shares === false ? null : this.score(k, name, c) - this.reference(k, name, c);
  }

  // The verdict of experiments in a line.
  evidence(k, name, c) {
    const one = this.methodOf(name);
    return one?.evidence?.[k]?.[one.targets ? 0 : c] ?? TEXT.untested;
  }

  // How much of the ledger the inputs have: |inputs| over the sum of the magnitudes of all entries.
  ledgerShare(k, name, c) {
    const entries = this.ledger(k, name, c);
    if (!entries) return NaN;
    let all = 0;
    for (const [, value] of entries) all += Math.abs(value);
    return all ? Math.abs(entries[0][1]) / all : NaN;
  }
}

// All records of a page: those of its file, and those that a live page puts beside them.
class Data {
  constructor(payload) {
    this.parts = [];
    this.at = []; // of each record its part and its place there
    this.places = new Map(); // number as text -> place
    this.classes = payload.classes;
    this.regression = payload.regression;
    this.unit = payload.unit;
    this.notes = payload.notes;
    this.add(payload);
  }

  get count() {
    return this.at.length;
  }

  // Add the records of a payload; one with a number that is there takes its place. Returns the place of the first.
  add(payload) {
    const part = new Part(payload);
    this.parts.push(part);
    payload.numbers.forEach((number, k) => {
      const key = String(number), place = this.places.get(key) ?? this.at.length;
      this.at[place] = { part, k };
      this.places.set(key, place);
    });
    this.parts = this.parts.filter((one) => one === part || !one.count || this.at.some((row) => row.part === one));
    return payload.numbers.length ? this.places.get(String(payload.numbers[0])) : -1;
  }

  get methods() {
    return [...new Set(this.parts.flatMap((part) => part.methods))];
  }

  // What a menu of methods shows: [name, name, description, group].
  get methodRows() {
    const every = new Map(this.parts.flatMap((part) => part.payload.methods.map((one) => [one.name, one])));
    return this.methods.map((name) => [name, name, every.get(name)?.description ?? null, null]);
  }

  get kind() {
    return this.parts[0].payload.inputs[0]?.kind ?? this.parts.at(-1).payload.inputs[0]?.kind ?? "words";
  }

  // Whether lags mean something: not of a classifier that reads its input in both directions.
  get hasMemory() {
    return this.parts.every((part) => part.payload.memory !== false);
  }

  get hasTruth() {
    return this.parts.some((part) => part.payload.truth);
  }

  get hasProbabilities() {
    return this.parts.some((part) => part.payload.probabilities);
  }

  get hasLedger() {
    return this.parts.some((part) => part.payload.methods.some((one) => one.ledger));
  }

  // Whether some method has explained every class, so that one may be chosen.
  get everyClass() {
    return this.parts.some((part) => part.payload.methods.some((one) => !one.targets));
  }

  record(place) {
    const { part, k } = this.at[place];
    return Object.assign(part.record(k), { place });
  }

  className(c) {
    return this.classes[c] ?? String(c);
  }

  // The name of a class for a narrow column: without the words that all names begin with.
  briefName(c) {
    this.prefix ??= sharedWords(this.classes);
    return this.className(c).slice(this.prefix.length);
  }

  withUnit(x, digits = 4) {
    return Format.general(x, digits) + (this.unit ? ` ${this.unit}` : "");
  }
}

// The words that all of several names begin with: of ["site a 1", "site a 2"] "site a ".
function sharedWords(names) {
  const [first] = names, ends = names.length > 1 ? [...first.matchAll(/ +/g)].map((space) => first.slice(0, space.index + space[0].length)) : [];
  return ends.filter((start) => names.every((name) => name.startsWith(start) && name.length > start.length)).at(-1) ?? "";
}
