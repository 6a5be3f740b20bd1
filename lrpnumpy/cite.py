"""BibTeX of the papers that methods come from, for what was used: `papers.bib` has them, each below its short name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, entries, shown
from lrpnumpy.meant import door
from lrpnumpy.methods import METHODS
from lrpnumpy.result import Explanation

SEVERAL = {"deeplift": "Lundberg & Lee 2017", "integrated-gradients": "Erion et al. 2021"}  # with several references


@door
def cite(*used: Any) -> None:
    """Print the BibTeX entries of the methods that were `used`: explanations, comparisons, lists of them, or names.

    Settings count: several references, a gamma and rules by layer add the papers that introduced them.
    """
    try:
        found = dict.fromkeys(_papers(used))
    except RecursionError:
        raise LrpError("cite: the list contains itself; pass explanations or names of methods.") from None
    papers = bibtex()
    print("\n\n".join(papers[name] for name in found))  # noqa: T201  # what it is for


@cache
def bibtex() -> dict[str, str]:
    """The BibTeX entry of each paper, by its short name such as "Arras et al. 2019"."""
    text = (files("lrpnumpy") / "papers.bib").read_text("utf-8")
    return dict(re.findall(r"^% ([^\n]+)\n(@.+?\n\})$", text, re.MULTILINE | re.DOTALL))


def _papers(used: Iterable[Any]) -> Iterable[str]:
    for one in used:
        if isinstance(one, str) and one in METHODS:
            yield METHODS[one].paper
        elif isinstance(one, Explanation):
            options = one.options or {}
            if one.method in METHODS:  # a custom rule has no known paper
                yield METHODS[one.method].paper
            elif "eps" in options:
                yield "Arras et al. 2019"
            if isinstance(options.get("reference"), list) and one.method in SEVERAL:
                yield SEVERAL[one.method]
            if options.get("gamma") or "sums" in options:
                yield "Montavon et al. 2019"
            if options.get("attention") == "attnlrp":
                yield "Achtibat et al. 2024"
        elif isinstance(one, Iterable) and not isinstance(one, (str, bytes, np.ndarray)):
            yield from _papers(entries(one, "cite: a list"))
        else:
            raise LrpError(f"cite: got {shown(one)}; pass explanations or names of methods.")
