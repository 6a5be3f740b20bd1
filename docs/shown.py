"""No page or example shows an explanation that fails its evidence without saying so, a NaN, or a NumPy warning.

`watch` wraps what shows an explanation: print, the HTML of a notebook and pictures. Each then raises an error if its
explanation fails and the line is missing. A picture that a page draws by hand must name the verdict of every failing
explanation whose relevance the page read for it. Tests watch the code of pages and examples, and `notebook_startup.py`
watches notebooks.
"""

from __future__ import annotations

import re
import sys
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


def _by_hand(function: Callable[..., Any], read: list[lrp.Explanation]) -> Callable[..., Any]:
    """A getter of an explanation's numbers that notes the explanation where the caller is not this package."""

    @wraps(function)
    def wrapper(e: lrp.Explanation, *args: Any, **options: Any) -> Any:
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("lrpnumpy"):
            read.append(e)
        return function(e, *args, **options)

    return wrapper


def _drawn(function: Callable[..., Any], read: list[lrp.Explanation]) -> Callable[..., Any]:
    """The function that writes a figure: those that were read since the last one are its subject."""

    @wraps(function)
    def wrapper(canvas: Any, *args: Any, **options: Any) -> Any:
        text = figure_text(canvas.figure)
        subjects = list({id(e): e for e in read}.values())
        read.clear()
        for e in subjects:
            if not re.search(r"\bfails\b", text):
                check(e, text)
        return function(canvas, *args, **options)

    return wrapper


def watch(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Wrap everything that shows an explanation; `put` sets an attribute. A NumPy warning becomes an error."""
    from matplotlib.backend_bases import FigureCanvasBase

    warnings.filterwarnings("error", category=RuntimeWarning)
    for name in ("__str__", "_repr_html_"):
        put(lrp.Explanation, name, _watched(getattr(lrp.Explanation, name), str))
    for name in lrp.plot.__all__:
        if name != "gates":
            put(lrp.plot, name, _watched(getattr(lrp.plot, name), figure_text))
    read: list[lrp.Explanation] = []
    for name in ("relevance", "feature_relevance"):
        put(lrp.Explanation, name, property(_by_hand(vars(lrp.Explanation)[name].fget, read)))
    put(lrp.Explanation, "__array__", _by_hand(lrp.Explanation.__array__, read))
    put(FigureCanvasBase, "print_figure", _drawn(FigureCanvasBase.print_figure, read))
