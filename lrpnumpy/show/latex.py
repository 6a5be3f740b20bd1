"""Explanations as LaTeX: words in coloured boxes, for a paper."""

from __future__ import annotations

from collections.abc import Sequence

from lrpnumpy.result import Comparison, Explanation
from lrpnumpy.show.color import ink, rgb, scaled
from lrpnumpy.show.parts import condensed
from lrpnumpy.show.terminal import title

PREAMBLE = r"\usepackage{xcolor}"
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}",
}  # fmt: skip


def escape(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(c, c) for c in text)


def sentence(e: Explanation) -> str:
    """The words of an explanation of one class, each in a box of its colour; needs the package xcolor."""
    e, words = condensed(e), []
    for t, share in enumerate(scaled(e.relevance)):
        back = rgb(float(share))
        color, front = (",".join(map(str, c)) for c in (back, ink(back)))
        words.append(rf"\colorbox[RGB]{{{color}}}{{\textcolor[RGB]{{{front}}}{{\strut {escape(e.shown(t))}}}}}")
    return "{\\setlength{\\fboxsep}{1pt}%\n" + "%\n ".join(words) + "}"


def table(items: Comparison | Sequence[Explanation]) -> str:
    """Several explanations of one input under each other: a tabular with the method and its sentence."""
    rows = [rf"{escape(e.method)} & {sentence(e)} \\" for e in items]
    return "\\begin{tabular}{ll}\n" + "\n".join(rows) + "\n\\end{tabular}"


def document(items: Explanation | Comparison | Sequence[Explanation]) -> str:
    """A whole document that compiles on its own."""
    if isinstance(items, Explanation):
        body = rf"{escape(title(items))}\\[1ex]" + "\n" + sentence(items)
    else:
        body = table(items)
    head = ["\\documentclass{article}", "\\usepackage[T1]{fontenc}", "\\usepackage[utf8]{inputenc}", PREAMBLE]
    return "\n".join([*head, "\\begin{document}\\noindent", body, "\\end{document}", ""])
