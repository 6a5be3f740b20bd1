"""500 damaged files: a Model or a WeightFileError comes of each, never anything else."""

import pytest
from fuzz_files import ORDINARY, files, isolated, run

pytest.importorskip("resource")  # the limits of the process that opens them


def test_damaged_files():
    results = run(500)
    assert sorted(results) == list(range(500))
    for case, result in results.items():
        if result[0] == "crash":  # inside the HDF5 library: what isolate=True is for
            result = isolated(case)
            assert result[0] == "error", (case, result)
        assert result[0] in ORDINARY, (case, files()[case % len(files())], result)
    kinds = [kind for kind, _ in results.values()]
    assert (
        kinds.count("model") > 20 and kinds.count("error") > 200
    )  # both happen: the damage is neither nothing nor all
