"""What every test shares: hypothesis without a clock, figures without a screen, a seeded generator, which cases run."""

import os
import zlib

import numpy as np
import pytest
from cases import EVERY_CASE
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("LRPNUMPY_TRACEBACK", "1")  # the command line hides no bug here
# The same kernels from the first call on, so that results have the same bits: those that `lrpnumpy compile` made.
os.environ.setdefault("LRPNUMPY_COMPILE", "kept")

# With the JIT off a kernel is a hundred times slower, and it is indices that are checked: fewer cases do.
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# No deadline, since a first call may compile. The same cases every time, so that a failure can be repeated; at night
# others each time, and 50 times as many (`make laws`, which prints its seed).
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("lrpnumpy", derandomize=True, max_examples=5 if PLAIN else 10, **COMMON)
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


def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, and cases of sampled ones, unless EVERY_CASE is set or a test was asked for by its name."""
    if EVERY_CASE or any("::" in one for one in config.args):
        return
    seen, left_out = set(), set()
    for item in sorted(items, key=_number):
        if item.get_closest_marker("slow"):
            left_out.add(item)
        elif item.get_closest_marker("sampled") or (PLAIN and hasattr(item, "callspec")):
            test = item.nodeid.partition("[")[0]
            values = {(test, name, repr(value)) for name, value in item.callspec.params.items()}
            if values <= seen and _number(item) % 4:
                left_out.add(item)
            seen |= values
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


def _number(item):
    """The same for a case each time, and without a pattern."""
    return zlib.crc32(item.nodeid.encode())


@pytest.fixture(scope="session")
def sentiment():
    """The bundled network of five classes."""
    import lrpnumpy as lrp  # after the settings above

    return lrp.load("sentiment")


@pytest.fixture(scope="session")
def river():
    """The bundled network of a river."""
    import lrpnumpy as lrp  # after the settings above

    return lrp.load("river")


@pytest.fixture
def rng():
    """A generator that gives every test the same numbers each time."""
    return np.random.default_rng(0)
