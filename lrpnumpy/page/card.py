"""The card of one explanation or comparison: what a notebook shows, and a separate file."""

from __future__ import annotations

from html import escape
from typing import Any

from lrpnumpy.page.document import card_document
from lrpnumpy.page.payload import payload, results_of


def card_page(item: Any, heading: str = "Explanation") -> str:
    """One self-contained HTML file with the card of an `item`, which is an explanation or a comparison."""
    return card_document(payload(results_of(item), title=heading))


def card(item: Any) -> str:
    """A piece of HTML for a notebook: the card in a frame, which fits its height to what it shows.

    Where frames are not shown, such as in a notebook that is not trusted, there is its text instead.
    """
    frame = escape(card_page(item))
    return (
        f'<div><pre>{escape(str(item))}</pre><iframe title="Explanation" srcdoc="{frame}" '
        'style="width:100%;height:2px;border:0"></iframe></div>'
    )
