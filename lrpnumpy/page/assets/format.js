// Numbers and words as text: numbers as Python's %.4g writes them, words without what would disturb their neighbors.

const Format = {
  // Format.general(-0.0123456) is "-0.01235"; a sign before positive numbers too with Format.signed.
  general(x, digits = 4) {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
    if (x === 0) return "0";
    const exponent = Number(x.toExponential(digits - 1).split("e")[1]);
    if (exponent >= -4 && exponent < digits) {
      const text = x.toFixed(Math.max(0, digits - 1 - exponent));
      return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
    }
    const [head, tail] = x.toExponential(digits - 1).split("e");
    const power = Number(tail);
    const short = head.includes(".") ? head.replace(/\.?0+$/, "") : head;
    return `${short}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  },

  signed(x, digits = 4) {
    return (x >= 0 ? "+" : "") + Format.general(x, digits);
  },

  // Numbers of one column with as many decimals: of [0.9513, 1.01, 2.252] "0.951", "1.010" and "2.252".
  column(values, digits = 4) {
    const most = Color.largest(values), exponent = most ? Math.floor(Math.log10(most)) : 0;
    if (exponent >= digits + 2 || exponent < -4) return (x) => Format.general(x, digits);
    const places = Math.max(0, digits - 1 - exponent);
    return (x) => (Number.isFinite(x) ? x.toFixed(places) : Format.general(x));
  },

  signedColumn(values, digits = 3) {
    const text = Format.column(values, digits);
    return (x) => (x >= 0 ? "+" : "") + text(x);
  },

  percent(x, places = 1) {
    return Number.isFinite(x) ? `${(100 * x).toFixed(places)} %` : "–";
  },

  count(n) {
    return n.toLocaleString("en-US");
  },

  // Control characters and those that turn the direction of a text around become a visible sign, as do half pairs.
  clean(text) {
    const whole = text.toWellFormed ? text.toWellFormed() : text;
    return whole.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]/g, "\ufffd");
  },

  short(text, most = 28) {
    const one = text.split(/\s+/).filter(Boolean).join(" ") || text;
    return one.length <= most ? one : `${one.slice(0, most - 1)}…`;
  },
};
