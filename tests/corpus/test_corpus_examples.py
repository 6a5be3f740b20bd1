"""The two examples of corpora run as a person would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import EVERY_CASE

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "says"), [("corpus_run", "960 of 962 explained, 2 rejected"), ("dask_run", "600 explanations in")]
)
def test_example(name, says, tmp_path):
    if name == "dask_run":
        pytest.importorskip("distributed")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if name == "dask_run" and not EVERY_CASE:
        environment["LRPNUMPY_COMPILE"] = "never"  # three processes that load Numba take longer than all the rest
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), str(tmp_path)]
    again = EVERY_CASE or name != "dask_run"  # into the same folder: a run that is finished is found as it is
    for _ in range(1 + again):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert says in done.stdout and (tmp_path / "reviews").exists()
