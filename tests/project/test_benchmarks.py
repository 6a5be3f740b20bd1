"""The speed benchmarks: jobs compute what the public functions compute, and commits are compared honestly."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import lrpnumpy as lrp
from benchmarks.speed import against, ours, profile, workloads
from lrpnumpy.kernels.compile import Kernel

ROOT = Path(__file__).parents[2]


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)


needs_git = pytest.mark.skipif(
    shutil.which("git") is None or git("rev-parse", "HEAD").returncode != 0, reason="not a checkout of a repository"
)


@needs_git
def test_a_commit_against_itself(tmp_path, monkeypatch, capsys):
    """Five sequences of one unit, kernels as plain Python: nothing has to be compiled."""
    monkeypatch.setenv("LRPNUMPY_COMPILE", "never")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(against, "ROOT", tmp_path / "new")
    options = ["--workloads", "W5", "--scale", "0.002", "--pairs", "2", "--json", str(tmp_path / "pairs.json")]
    with against.checked_out("HEAD", tmp_path / "new"):
        code = against.main(["HEAD", *options, "--methods", "forward", "occlusion-p", "lrp-all", "cd"])
    printed = capsys.readouterr().out.splitlines()
    found = json.loads((tmp_path / "pairs.json").read_text())
    rows = found["rows"]
    assert [row["method"] for row in rows] == ["forward", "occlusion-p", "lrp-all", "cd"]
    assert "probabilities" in rows.pop(1)["skipped"]
    for row in rows:
        assert (row["workload"], row["dtype"], row["sequences"], len(row["pairs"]) % 2) == ("W5", "float32", 5, 0)
        assert row["difference"] <= 1e-5
        assert row["old"] > 0
        line = next(line for line in printed if line.startswith(f"W5       {row['method']}"))
        assert "float32" in line
        assert f"{row['ratio']:.3f}x" in line
    assert "numba" in found["machine"]
    marked = any(against.is_slower(row["workload"], row) for row in rows)
    assert code == marked  # so little work that either side may be the slower one
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.json"]
    assert str(tmp_path) not in git("worktree", "list").stdout


@needs_git
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-commit"], "COMMIT must be a commit, branch or tag of this repository, got 'no-such-commit'"),
        (["HEAD", "--methods", "guess"], "--methods must be some that both sides have (forward, "),
    ],
)
def test_what_cannot_be_compared_is_said(arguments, said, capsys):
    assert against.main(arguments) == 2
    assert said in capsys.readouterr().err


def row(times, difference=0.0, dtype="float32"):
    return against.summary(times) | {"workload": "W1", "method": "cd", "dtype": dtype, "difference": difference}


def test_ratios_are_those_of_pairs_and_small_ones_are_marked():
    same = row([(0.1, 0.1), (0.2, 0.2), (0.3, 0.3)])
    assert (same["old"], same["new"], same["ratio"], same["interval"]) == (0.2, 0.2, 1, [1, 1])
    assert against.remark(same) == ""
    slow = row([(0.9, 1.0), (1.0, 1.0), *[(0.9, 1.0)] * 9])
    assert slow["ratio"] == pytest.approx(0.9)
    assert slow["interval"] == pytest.approx([0.9, 0.9])
    assert against.show(slow).endswith("below 0.95") and against.remark(slow | {"workload": "W5"}) == ""
    noisy = row([(0.9, 1.0), (1.0, 1.0)] * 2)  # its median may be 1
    assert noisy["interval"] == pytest.approx([0.9, 1.0]) and against.remark(noisy) == ""


def test_results_that_differ_are_marked():
    assert against.remark(row([(1.0, 1.0)], difference=2e-5)) == "results differ by 2e-05 of the largest value"
    assert against.remark(row([(1.0, 1.0)], difference=5e-6)) == ""
    assert "differ" in against.remark(row([(1.0, 1.0)], difference=5e-6, dtype="float64"))


@pytest.mark.parametrize(
    ("new", "expected"), [([1, -4], 0), ([1, -3], 0.25), ([1, np.nan], np.inf), ([1, np.inf], np.inf), ([1], np.inf)]
)
def test_differences_are_relative_to_the_largest_value(new, expected, tmp_path):
    np.save(tmp_path / "old.npy", np.array([1.0, -4.0]))
    np.save(tmp_path / "new.npy", np.array(new, float))
    assert against.difference([tmp_path / "old.npy", tmp_path / "new.npy"]) == expected


@pytest.mark.parametrize("job", ours.JOBS)
def test_jobs_compute_what_users_get(job):
    """Otherwise a benchmark times something else, or keeps what the kernels do not take."""
    work = workloads.workload("W5", "float64", scale=0.002)
    found = ours.results(job, work)
    if job == "forward":
        expected = [*lrp.predict_all(work.model, work.sequences)]
    else:
        expected = []
        for e in lrp.explain_all(work.model, work.sequences, job, target=ours.TARGET):
            expected.append(e.relevance if e.feature_relevance is None or found[0].ndim == 1 else e.feature_relevance)
    assert len(found) == len(expected) == len(work.sequences)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_profile_measures_kernels_inside_a_call(rng):
    model = workloads.network(rng, 2, 1, 1, False)
    x, plain = rng.normal(size=(3, 2)), Kernel.__call__
    ((total, inside),) = profile.shortest({"predict": lambda: lrp.predict(model, x)}, 0.01).values()
    assert 0 <= inside < total < float("inf")
    assert Kernel.__call__ is plain
