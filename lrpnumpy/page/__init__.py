"""One HTML file to explore results: `lrp.write_page`, and `explanations.page("page.html")`."""

from lrpnumpy.page.document import document, write_page
from lrpnumpy.page.payload import payload

__all__ = ["document", "payload", "write_page"]
