"""Explanations as LaTeX, for a paper: words in colored boxes, series as colored strips."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lrpnumpy.checks import readable
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import Explanation
from lrpnumpy.show.color import ink, rgb
from lrpnumpy.show.parts import condensed, evidence_line, map_of, shown, step_unit, title, word_shares

STRIP = 120  # columns of a series; more steps than that share them
PREAMBLE = r"\usepackage{xcolor}"
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}",
}  # fmt: skip


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(c, c) for c in readable(text))


def sentence(e: Explanation) -> str:
    """The words of an explanation of one class, each in a box of its color; needs the package xcolor."""
    e, words = condensed(e), []
    for t, share in enumerate(word_shares(e)):
        back = rgb(float(share))
        color, front = (",".join(map(str, c)) for c in (back, ink(back)))
        words.append(rf"\colorbox[RGB]{{{color}}}{{\textcolor[RGB]{{{front}}}{{\strut {escape(e.shown(t))}}}}}")
    return "{\\setlength{\\fboxsep}{1pt}%\n" + "%\n ".join(words) + "}"


def series(e: Explanation) -> str:
    """The main input as a tabular: a strip of colors for each feature, and the sum of its relevance."""
    part = shown(e, "series")[0]
    found = map_of(part, STRIP)
    lines = []
    for name, row, total in zip(found.features, found.shares.tolist(), found.total, strict=True):
        runs = [(color, len(list(some))) for color, some in groupby(map(rgb, row))]  # neighbors of one color
        strip = "".join(
            rf"\textcolor[RGB]{{{','.join(map(str, color))}}}{{\rule{{{2 * count}pt}}{{8pt}}}}" for color, count in runs
        )
        lines.append(rf"{escape(name)} & {strip} & ${total:+.4g}$ \\")
    says = "" if found.group == 1 else f" (each column is the sum of {found.group} {step_unit(part.labels)}s)"
    lines.append(rf" & {escape(e.step_names[0])} to {escape(e.step_names[-1])}{says} & \\")
    return "\\begin{tabular}{llr}\n" + "\n".join(lines) + "\n\\end{tabular}"


def inputs(e: Explanation) -> list[tuple[str, str]]:
    """Name and picture of every input of an explanation of one class; features of one step are boxes as words are."""
    every = [(name, e.of_input(name).by_feature()) for name in e.inputs]
    return [(name, sentence(one) if one.tokens else series(one)) for name, one in every]


def table(items: Comparison | Sequence[Explanation]) -> str:
    """Several explanations, `items`, under each other: a tabular with the method and every input."""
    rows = []
    for e in items:
        for k, (name, drawn) in enumerate(inputs(e)):
            rows.append(rf"{escape(name if k else e.method)} & {drawn} \\")
    return "\\begin{tabular}{ll}\n" + "\n".join(rows) + "\n\\end{tabular}"


def document(items: Explanation | Comparison | Sequence[Explanation]) -> str:
    """A whole document that compiles on its own, of one explanation or several, `items`."""
    if isinstance(items, Explanation):
        pictures = [drawn if not k else rf"{escape(name)}: {drawn}" for k, (name, drawn) in enumerate(inputs(items))]
        notes = [escape(line) for line in (evidence_line(one) for one in items.each_class) if line]
        body = rf"{escape(title(items))}\\[1ex]" + "\n" + "\\\\[1ex]\n".join([*pictures, *notes])
    else:
        body = table(items)
    head = ["\\documentclass{article}", "\\usepackage[T1]{fontenc}", "\\usepackage[utf8]{inputenc}", PREAMBLE]
    return "\n".join([*head, "\\begin{document}\\noindent", body, "\\end{document}", ""])
