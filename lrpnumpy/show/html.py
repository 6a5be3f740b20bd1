"""Explanations as HTML: escaped, readable in light and dark, the numbers on hover."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from lrpnumpy.ledgers import Ledger, ReferenceLedger
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import Explanation
from lrpnumpy.show import svg
from lrpnumpy.show.color import BLUE, RED, scaled
from lrpnumpy.show.parts import condensed, escape, evidence_line, with_value
from lrpnumpy.show.terminal import legend, title

# The color is an alpha over the page's own background, so that a page reads the same in light and in dark.
STYLE = """
.lrp { font: 1rem/1.9 system-ui, sans-serif; color-scheme: light dark; max-width: 60rem; margin: 1rem 0 }
.lrp .sentence { margin: .3rem 0 .6rem }
.lrp .sentence span { padding: .15em .25em; border-radius: .25em; cursor: default }
.lrp .head { font-weight: 600 }
.lrp .note, .lrp .method { font-size: .85rem; opacity: .75 }
.lrp table { border-collapse: collapse; font-size: .9rem; line-height: 1.5 }
.lrp td, .lrp th { padding: .1rem .7rem; text-align: right }
.lrp td:first-child, .lrp th:first-child { text-align: left }
.lrp .series { display: block; width: 100%; max-width: 54rem; margin: .3rem 0 .6rem }
.lrp .evidence { font-size: .9rem; margin: .3rem 0 }
.lrp .ledger { display: flex; height: 1.1rem; max-width: 30rem; border-radius: .25em; overflow: hidden }
.lrp .ledger .zero { flex: none; width: 2px; background: currentColor }
""".strip()


def _span(word: str, share: float, value: float) -> str:
    r, g, b = RED if share >= 0 else BLUE
    style = f"background:rgba({r},{g},{b},{0.85 * abs(share):.3f})" if share else ""
    style += ";color:#fff" if abs(share) > 0.6 else ""
    return f'<span style="{style}" title="{escape(word)}: {value:+.4g}">{escape(word)}</span>'


def sentence(e: Explanation) -> str:
    """The words of one explanation on their colors."""
    e = condensed(e)
    shares = scaled(e.relevance)
    words = [_span(e.shown(t), float(shares[t]), float(e.relevance[t])) for t in range(len(e))]
    return f'<div class="sentence" dir="auto">{" ".join(words)}</div>'


def _input(e: Explanation) -> str:
    """One input: words, or the features of one step, on their colors; a series as a map."""
    e = e.by_feature()
    if e.tokens and e.values is not None:  # features of one step
        named = zip(e.tokens, e.values[:, 0], strict=True)
        e = e.with_first(tokens=tuple(with_value(name, value) for name, value in named))
    return sentence(e) if e.tokens else svg.series(e)


SHADES = (1.0, 0.6, 0.35, 0.2, 0.8, 0.5)  # of the entries of a ledger, in their order


def ledger_bar(ledger: Ledger | ReferenceLedger) -> str:
    """The ledger as a bar: what is positive to the right of a line at 0, what is negative to its left."""
    entries = [(name, float(value)) for name, value in ledger.entries.items()]
    whole = sum(abs(value) for _, value in entries) or 1.0
    parts: list[str] = ['<div class="zero"></div>']
    legend = []
    for (name, value), shade in zip(entries, SHADES, strict=False):
        r, g, b = RED if value >= 0 else BLUE
        color, width = f"rgba({r},{g},{b},{shade})", 100 * abs(value) / whole
        part = f'<div style="width:{width:.2f}%;background:{color}" title="{name}: {value:+.4g}"></div>'
        parts.insert(len(parts) if value >= 0 else 0, part)
        legend.append(f'<span style="color:{color}">■</span> {name} {value:+.4g}')
    note = f"{', '.join(legend)} = {float(ledger.total):.4g}"
    return f'<div class="ledger">{"".join(parts)}</div><div class="note">{note}</div>'


def card(title: str, parts: Sequence[tuple[str, Explanation]], foot: str = "") -> str:
    """A title, pictures of inputs with a heading each, what marks mean, and a foot."""
    drawn = "".join((f'<div class="method">{escape(name)}</div>' if name else "") + _input(e) for name, e in parts)
    note = legend(*(e for _, e in parts))
    says = f'<div class="note">{escape(note)}</div>' if note else ""
    return f'<div class="head">{escape(title)}</div>{drawn}{says}{foot}'


def _of_class(e: Explanation) -> str:
    """The card of one class: every input, and the ledger."""
    first, *others = e.inputs
    parts = [("", e.of_input(first)), *((name, e.of_input(name)) for name in others)]
    foot = ledger_bar(e.ledger) if isinstance(e.ledger, (Ledger, ReferenceLedger)) else ""
    if line := evidence_line(e):
        foot += f'<div class="evidence">{escape(line)}</div>'
    return card(title(e), parts, foot)


def _with_evidence(e: Explanation) -> str:
    """The heading of one method of a comparison."""
    line = evidence_line(e)
    return f"{e.method}. {line}" if line else e.method


def fragment(item: Explanation | Comparison) -> str:
    """A piece of HTML for a page or a notebook, with its style, of an `item`: an explanation, or a comparison."""
    if isinstance(item, Explanation):
        body = "".join(map(_of_class, item.each_class))
    else:
        every = [e.for_class(e.predicted) if e.target == "all" else e for e in item]
        body = card(title(every[0]).split(": ", 1)[1], [(_with_evidence(e), e) for e in every])
    return f'<style>{STYLE}</style><div class="lrp">{body}</div>'


def picture(figure: Any, caption: str = "") -> str:
    """A figure of `lrp.plot` for a page; `caption` describes it if its axes have no titles."""
    data = base64.b64encode(figure._repr_png_()).decode()
    caption = caption or "; ".join(filter(None, (axes.get_title(loc="left") for axes in figure.axes)))
    return f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}" style="max-width:100%">'


def page(items: Any, heading: str = "Explanation") -> str:
    """A whole, self-contained HTML page.

    items: explanations, comparisons, figures of `lrp.plot` and pieces of HTML, one or several.
    heading: the title of the page.
    """
    every = [items] if isinstance(items, (str, Comparison)) or not isinstance(items, Sequence) else items
    body = ""
    for item in every:
        if isinstance(item, str):
            body += item
        else:
            body += fragment(item) if isinstance(item, (Explanation, Comparison)) else picture(item)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(heading)}</title>"
        "<style>:root { color-scheme: light dark } body { margin: 2rem }</style></head>\n"
        f"<body><h1 style='font:600 1.3rem system-ui'>{escape(heading)}</h1>{body}</body></html>\n"
    )
