"""Work that is killed at any point, or runs out of disk, ends as if nothing had happened: `tests.faults`, shortly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")
if not hasattr(os, "fork"):
    pytest.skip("needs fork", allow_module_level=True)

KILLS = 6  # of each of five kinds of work


@pytest.mark.slow
def test_kills_and_a_full_disk():
    command = [sys.executable, "-m", "tests.faults", "--kills", str(KILLS), "--seed", "7", "--only", "kills,disk"]
    environment = {**os.environ, "LRPNUMPY_COMPILE": "never"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"'kills': {KILLS}") == 5 and done.stdout.count("'files of 100 bytes': 'error'") == 5
    assert done.stdout.endswith("nothing lost, nothing wrong\n")
