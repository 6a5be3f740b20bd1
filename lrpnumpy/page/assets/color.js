// Relevance to color: red supports the target, blue contradicts it; the same numbers as in lrpnumpy/show/color.py.

const Color = {
  red: [214, 40, 40],
  blue: [38, 84, 206],
  shades: [1, 0.6, 0.35, 0.2, 0.8, 0.5], // of the entries of a ledger, as in lrpnumpy/show/html.py

  largest(values) {
    let most = 0;
    for (const x of values) {
      const size = Math.abs(x);
      if (size > most && size < Infinity) most = size;
    }
    return most;
  },

  // A relevance from -1 to 1; infinite counts as full, NaN as nothing.
  share(x, largest) {
    if (Number.isNaN(x)) return 0;
    if (!Number.isFinite(x)) return Math.sign(x);
    return largest ? Math.max(-1, Math.min(1, x / largest)) : 0;
  },

  // Over the background of the page, light or dark.
  tint(share) {
    const [r, g, b] = share >= 0 ? Color.red : Color.blue;
    return `rgba(${r}, ${g}, ${b}, ${(0.85 * Math.abs(share)).toFixed(3)})`;
  },

  paint(element, share) {
    element.style.backgroundColor = Color.tint(share);
    element.style.color = Math.abs(share) > 0.6 ? "#fff" : "";
  },

  // Over white, for a paper: white at 0, full red at 1, full blue at -1.
  rgb(share) {
    const strength = Math.min(1, Math.abs(share));
    return (share >= 0 ? Color.red : Color.blue).map((end) => Color.even(255 + (end - 255) * strength));
  },

  // Rounds a half to the even number, as Python does.
  even(x) {
    const low = Math.floor(x);
    if (x - low !== 0.5) return Math.round(x);
    return low % 2 === 0 ? low : low + 1;
  },

  // Black or white, whichever is easier to read on it (relative luminance, WCAG 2).
  ink(rgb) {
    const [r, g, b] = rgb.map((v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? [0, 0, 0] : [255, 255, 255];
  },

  // The magnitude that has full color in a map: a few large cells must not hide the rest (see `limit` in color.py).
  limit(values) {
    const sizes = Float64Array.from(values, Math.abs).filter(Number.isFinite).sort();
    if (!sizes.length) return 1;
    const most = sizes[sizes.length - 1], place = 0.99 * sizes.length; // numpy counts a 0 more
    const low = Math.floor(place), at = (k) => (k === 0 ? 0 : sizes[k - 1]);
    const quantile = at(low) + (place - low) * (at(Math.min(low + 1, sizes.length)) - at(low));
    const usual = Math.max(quantile, most / 10);
    return (most > 1.5 * usual ? usual : most) || 1;
  },
};
