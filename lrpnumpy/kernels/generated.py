"""The names that the text of a generated kernel may use. Numba imports this module when it reads a kernel from disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrpnumpy.kernels import arguments, elementary, inputs, product, steps

NAMES: dict[str, Any] = {"__name__": __name__, "np": np, **arguments.TUPLES}
for _module in (arguments, elementary, inputs, product, steps):
    NAMES |= {name: value for name, value in vars(_module).items() if not name.startswith("_")}
