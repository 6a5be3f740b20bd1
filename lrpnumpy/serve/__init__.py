"""The page of a live model: `lrpnumpy serve`."""

from lrpnumpy.serve.door import Limits, is_local
from lrpnumpy.serve.server import Server
from lrpnumpy.serve.worker import Worker

__all__ = ["Limits", "Server", "Worker", "is_local"]
