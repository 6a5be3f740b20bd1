"""How much is tried: `make test` runs part of the cases, `make laws` sets EVERY_CASE and runs all."""

import os

EVERY_CASE = bool(os.environ.get("EVERY_CASE"))
