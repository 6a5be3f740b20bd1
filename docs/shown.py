"""No page shows an explanation that fails its evidence without the evidence line, a NaN, or a NumPy warning.

`watch` wraps what shows an explanation: print, the HTML of a notebook and pictures. Each then raises an error if its
explanation fails and the line is missing. Tests watch the code of pages, and `notebook_startup.py` watches notebooks.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import lrpnumpy as lrp

FAILS = "Evidence: fails"
NAN = re.compile(r"(?<![\w.])[-+]?nan(?![\w])")


class Silent(AssertionError):
    """A failing explanation was shown without its evidence."""


def check(e: Any, text: str) -> None:
    """Raise if `e` is an explanation that fails its evidence, and the `text` shown does not contain the line."""
    if not isinstance(e, lrp.Explanation) or FAILS in " ".join(text.split()):
        return
    try:
        evidence = e.evidence()
    except lrp.LrpError:  # of all classes, a mean of several, or read from a file without its network
        return
    if evidence.verdict == "fails":
        raise Silent(f"{e.method} is shown without its evidence: {evidence}")


def _watched(function: Callable[..., Any], text_of: Callable[[Any], str]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        if args:
            check(args[0], text_of(result))
        return result

    return wrapper


def figure_text(figure: Any) -> str:
    """All text of a picture."""
    from matplotlib.text import Text

    return " ".join(one.get_text() for one in figure.findobj(Text))


def watch(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Wrap everything that shows an explanation; `put` sets an attribute. A NumPy warning becomes an error."""
    warnings.filterwarnings("error", category=RuntimeWarning)
    for name in ("__str__", "_repr_html_"):
        put(lrp.Explanation, name, _watched(getattr(lrp.Explanation, name), str))
    for name in lrp.plot.__all__:
        if name not in ("right_to_left", "gates"):
            put(lrp.plot, name, _watched(getattr(lrp.plot, name), figure_text))
