"""One HTML file to explore results: `lrp.write_page`, and `explanations.page("page.html")`."""

from lrpnumpy.page.document import card, card_page, document, write_page
from lrpnumpy.page.payload import payload

__all__ = ["card", "card_page", "document", "payload", "write_page"]
