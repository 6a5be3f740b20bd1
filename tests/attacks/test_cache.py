"""Compiled kernels on disk: what another user may have written is never executed, whatever the umask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import os
os.umask(0)
import numpy as np
from lrpnumpy.kernels.compile import Kernel
from test_compile import double
kernel, out = Kernel(double), np.empty(3)
kernel.compile("float64")
kernel(np.arange(3.0), out)
print(out.tolist())
"""


def computed(cache):
    """What a new process computes whose kernels are in this folder, and which lets everybody write what it makes."""
    own = {
        "NUMBA_CACHE_DIR": str(cache),
        "LRPNUMPY_COMPILE": "wait",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "engine"), str(ROOT / "tests" / "support")]),
    }
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment | own, capture_output=True, text=True, check=True).stdout


def test_a_kernel_that_others_could_have_written_is_compiled_again(tmp_path):
    cache = tmp_path / "above" / "cache"
    first = computed(cache)
    made = [*(tmp_path / "above").rglob("*")]
    files = [path for path in made if path.is_file()]
    assert files and {path.suffix for path in files} == {".nbi", ".nbc"}
    assert all(path.stat().st_mode & 0o022 == 0 for path in [tmp_path / "above", *made])

    mark = tmp_path / "executed"
    harmful = f"cos\nmkdir\n(V{mark}\ntR.".encode()  # a pickle that makes a folder when it is read
    for path in files:
        path.chmod(0o666)
        path.write_bytes(harmful)
    assert computed(cache) == first
    assert not mark.exists()
    assert all(path.stat().st_mode & 0o022 == 0 and path.read_bytes() != harmful for path in files)

    compiled = [path for path in files if path.suffix == ".nbc"]  # with indices that can be trusted
    for data in compiled:
        data.chmod(0o622)
        data.write_bytes(harmful)
    assert computed(cache) == first and not mark.exists()
    assert all(data.read_bytes() != harmful for data in compiled)
