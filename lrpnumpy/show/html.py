"""Pages of explanations, figures and pieces of HTML, readable in light and dark."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from lrpnumpy.protocol import Comparison
from lrpnumpy.show.parts import escape

# Of tables and sentences in pieces of HTML that are not the card of an explanation.
STYLE = """
.lrp { font: 1rem/1.7 system-ui, sans-serif; max-width: 60rem; margin: 1rem 0 }
.lrp .head { font-weight: 600 }
.lrp .sentence { margin: .3rem 0 .6rem }
.lrp .note { font-size: .85rem }
.lrp .wide { overflow-x: auto }
.lrp table { border-collapse: collapse; font-size: .9rem; line-height: 1.5 }
.lrp td, .lrp th { padding: .1rem .7rem; text-align: left; vertical-align: top }
""".strip()


def table(head: str, heads: Sequence[str], rows: Iterable[Sequence[str]], foot: str = "", above: str = "") -> str:
    """A piece of HTML: a line, a table and another line; `above` is HTML between the first line and the table."""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in heads)
    drawn = f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'
    if foot:
        drawn += f'<div class="note">{escape(foot)}</div>'
    return f'<style>{STYLE}</style><div class="lrp"><div class="head">{escape(head)}</div>{above}{drawn}</div>'


def picture(figure: Any, caption: str = "") -> str:
    """A figure of `lrp.plot` for a page; `caption` describes it if its axes have no titles."""
    data = base64.b64encode(figure._repr_png_()).decode()
    caption = caption or "; ".join(filter(None, (axes.get_title(loc="left") for axes in figure.axes)))
    return f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}" style="max-width:100%">'


def page(items: Any, heading: str = "Explanation") -> str:
    """A whole, self-contained HTML page.

    items: explanations, comparisons, rankings, figures of `lrp.plot` and pieces of HTML, one or several.
    heading: the title of the page.
    """
    if isinstance(items, (str, Comparison)) or not isinstance(items, Sequence):
        items = [items]
    body = ""
    for item in items:
        if isinstance(item, str):
            body += item
        elif hasattr(item, "savefig"):
            body += picture(item)
        else:
            body += item._repr_html_()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(heading)}</title>"
        "<style>:root { color-scheme: light dark } body { margin: 2rem }</style></head>\n"
        f"<body><h1 style='font:600 1.3rem system-ui'>{escape(heading)}</h1>{body}</body></html>\n"
    )
