"""What every test shares: hypothesis without a clock, figures without a screen, a seeded generator."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("LRPNUMPY_TRACEBACK", "1")  # the command line hides no bug here
# The same kernels from the first call on, so that results have the same bits: those that `lrpnumpy compile` made.
os.environ.setdefault("LRPNUMPY_COMPILE", "kept")

# With the JIT off a kernel is a hundred times slower, and it is indices that are checked: fewer cases do.
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# No deadline, since a first call may compile. The same cases every time, so that a failure can be repeated; at night
# others each time, and more of them (`make laws`, which prints its seed).
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("lrpnumpy", derandomize=True, max_examples=15 if PLAIN else 50, **COMMON)
settings.register_profile("nightly", derandomize=False, max_examples=500, print_blob=True, database=None, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "lrpnumpy"))

if not PLAIN:
    import kernel_types

    kernel_types.install()


def pytest_configure():
    """A file is refused for what it is, not for the time in which a slow machine finds that out.

    `attacks/measure.py` opens files with the limit that users have.
    """
    from lrpnumpy.files import budget

    budget.SECONDS *= 10


@pytest.fixture
def rng():
    """A generator that gives every test the same numbers each time."""
    return np.random.default_rng(0)
