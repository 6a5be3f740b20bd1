"""Compiled kernels on disk: what another user may have written is never executed, whatever the umask."""

import os

import numpy as np
import pytest

from lrpnumpy.kernels import product
from lrpnumpy.kernels.arguments import R1, W1
from lrpnumpy.kernels.compile import Kernel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder for kernels, in a process that lets everybody write what it makes."""
    product.publish(np.dtype("float64"))  # what every kernel may call: from its usual place
    place = tmp_path / "above" / "cache"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))  # kernels are read from there, too
    before = os.umask(0)
    yield place
    os.umask(before)


def double(x: R1, out: W1) -> None:
    for k in range(x.shape[0]):
        out[k] = 2 * x[k]


def computed():
    """What a new kernel computes, which is read from the folder or compiled."""
    kernel, out = Kernel(double), np.empty(3)
    kernel.compile("float64")
    kernel(np.arange(3.0), out)
    return out.tolist()


def test_a_kernel_that_others_could_have_written_is_compiled_again(tmp_path, cache):
    first = computed()
    assert first == [0, 2, 4]
    made = [*cache.parent.rglob("*")]
    files = [path for path in made if path.is_file()]
    assert files and {path.suffix for path in files} == {".nbc"}
    assert all(path.stat().st_mode & 0o022 == 0 for path in [cache.parent, *made])

    mark = tmp_path / "executed"
    harmful = f"cos\nmkdir\n(V{mark}\ntR.".encode()  # a pickle that makes a folder when it is read
    for path in files:
        path.chmod(0o666)
        path.write_bytes(harmful)
    assert computed() == first
    assert not mark.exists()
    assert all(path.stat().st_mode & 0o022 == 0 and path.read_bytes() != harmful for path in files)
