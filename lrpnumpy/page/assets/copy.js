// An explanation as text, SVG or LaTeX, for the clipboard.

const SPECIAL = {
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_",
  "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}",
  "|": "\\textbar{}", '"': "\\textquotedbl{}", "`": "\\textasciigrave{}",
};

const Copies = {
  // What is explained: method, class, score.
  title(page, { record, method, c }) {
    const { data } = page, p = record.probabilities?.[c];
    const what = data.regression ? `${data.className(c)} ${data.withUnit(record.scores[c])}` : TEXT.title(data.className(c), Format.general(record.scores[c]));
    return Format.clean(`${method}: ${what}${p === undefined ? "" : TEXT.probability((100 * p).toFixed(1))}`);
  },

  items({ record, method, c }, i) {
    const { part, k } = record;
    return itemsOf(record.inputs[i], part.relevance(k, method, c, i), part.feature_relevance(k, method, c, i));
  },

  // One line per word, or per step, with a tab before each number, for a spreadsheet.
  text(page, view) {
    const { record, method, c } = view, lines = [Copies.title(page, view)];
    record.inputs.forEach((input, i) => {
      if (record.inputs.length > 1) lines.push("", Format.clean(input.name));
      if (input.kind !== "series") {
        for (const item of Copies.items(view, i)) lines.push(`${Format.clean(item.text)}\t${Format.signed(item.relevance)}`);
        return;
      }
      const variables = record.part.feature_relevance(record.k, method, c, i), D = variables ? input.D : 1;
      const all = variables ?? record.part.relevance(record.k, method, c, i);
      lines.push([TEXT.stepHead, ...(variables ? input.features : [TEXT.relevance])].map(Format.clean).join("\t"));
      for (let t = 0; t < input.T; t++) lines.push([Format.clean(stepText(input, t)), ...Array.from(all.subarray(t * D, (t + 1) * D), (x) => Format.signed(x))].join("\t"));
    });
    return lines.join("\n");
  },

  escaped(text) {
    return [...Format.clean(text)].map((c) => SPECIAL[c] ?? c).join("");
  },

  // Words in boxes of their colors, series as strips: the same as lrpnumpy.show.latex.
  latex(page, view) {
    const pictures = view.record.inputs.map((input, i) => (input.kind === "series" ? Copies.latexSeries(view, i) : Copies.latexWords(view, i)));
    return pictures.map((drawn, i) => (i ? `${Copies.escaped(view.record.inputs[i].name)}: ${drawn}` : drawn)).join("\\\\[1ex]\n");
  },

  latexWords(view, i) {
    const items = Copies.items(view, i), full = fullColor(view, items);
    const boxes = items.map((item) => {
      const back = Color.rgb(Color.share(item.relevance, full));
      return `\\colorbox[RGB]{${back}}{\\textcolor[RGB]{${Color.ink(back)}}{\\strut ${Copies.escaped(item.text)}}}`;
    });
    return `{\\setlength{\\fboxsep}{1pt}%\n${boxes.join("%\n ")}}`;
  },

  latexSeries(view, i) {
    const input = view.record.inputs[i], map = mapOfView(view, i, 120), lines = [];
    for (const row of map.rows.filter((one) => one.sums)) {
      const runs = [];
      for (const sum of row.sums) {
        const color = Color.rgb(Color.share(sum, map.limit)).join(",");
        if (runs.at(-1)?.color === color) runs.at(-1).count += 1;
        else runs.push({ color, count: 1 });
      }
      const strip = runs.map(({ color, count }) => `\\textcolor[RGB]{${color}}{\\rule{${2 * count}pt}{8pt}}`).join("");
      lines.push(`${Copies.escaped(row.name)} & ${strip} & $${Format.signed(row.total)}$ \\\\`);
    }
    const says = map.group === 1 ? "" : TEXT.columnsSummed(map.group, input.unit);
    lines.push(` & ${Copies.escaped(stepText(input, 0))} to ${Copies.escaped(stepText(input, input.T - 1))}${says} & \\\\`);
    return `\\begin{tabular}{llr}\n${lines.join("\n")}\n\\end{tabular}`;
  },

  // One picture: the title, and every input below it.
  svg(page, view) {
    const width = 760, whole = Dom.svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, color: "#1d2126", fill: "currentColor", "font-family": "system-ui, sans-serif", "font-size": 15 });
    let top = 20;
    whole.append(Dom.svg("text", { x: 4, y: 14, "font-size": 12, opacity: 0.75 }, Copies.title(page, view)));
    view.record.inputs.forEach((input, i) => {
      if (view.record.inputs.length > 1) whole.append(Dom.svg("text", { x: 4, y: (top += 18) - 4, "font-size": 12, opacity: 0.75 }, Format.clean(input.name)));
      let piece, height;
      if (input.kind === "series") {
        piece = drawSeries(input, mapOfView(view, i), width).svg;
        height = Number(piece.getAttribute("height"));
        piece.setAttribute("y", top);
      } else [piece, height] = Copies.svgWords(view, Copies.items(view, i), width, top);
      whole.append(piece);
      top += height + 8;
    });
    Dom.fill(whole, { height: top, viewBox: `0 0 ${width} ${top}` }, []);
    return new XMLSerializer().serializeToString(whole);
  },

  svgWords(view, items, width, top) {
    const pen = document.createElement("canvas").getContext("2d"), group = Dom.svg("g", {});
    pen.font = "15px system-ui, sans-serif";
    const full = fullColor(view, items);
    let x = 4, y = top;
    for (const item of items) {
      const text = Format.clean(item.text), wide = pen.measureText(text).width + 8, share = Color.share(item.relevance, full);
      if (x > 4 && x + wide > width - 4) [x, y] = [4, y + 28];
      const back = Color.rgb(share);
      group.append(
        Dom.svg("rect", { x: x.toFixed(1), y, width: wide.toFixed(1), height: 24, rx: 4, fill: `rgb(${back})` }),
        Dom.svg("text", { x: (x + wide / 2).toFixed(1), y: y + 17, "text-anchor": "middle", fill: `rgb(${Color.ink(back)})` }, text));
      x += wide + 3;
    }
    return [group, y - top + 26];
  },

  async copy(page, kind, text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, or a browser without it: the older way
      const area = Dom.make("textarea", { class: "unseen", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    page.say(TEXT.copied(kind));
  },
};

function copyElement(page, view) {
  const button = (kind, make) => {
    const element = Dom.make("button", { type: "button", "aria-label": TEXT.copyKind(kind), onclick: async () => {
      await Copies.copy(page, kind, make(page, view));
      element.textContent = TEXT.done;
      setTimeout(() => (element.textContent = kind), 1200);
    } }, kind);
    return element;
  };
  return Dom.make("div", { class: "copies" }, TEXT.copyAs, button("text", Copies.text), button("SVG", Copies.svg), button("LaTeX", Copies.latex));
}
