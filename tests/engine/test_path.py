"""One call is computed by compiled kernels or by NumPy, not by both, and results record which."""

import json
import threading

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy import passes, schedule
from lrpnumpy.explain import COMPARED
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.rules import DEEPLIFT, GRADIENT, REFERENCE

# Of the largest relevance, for explanations that pass their evidence. Among 200 sentences one has 1.2e-5 by lrp-all:
# `python -m benchmarks.rounding`. Those below have less.
AGREE = 1e-5


@pytest.fixture
def model(rng):
    return lrp.Model([nets.lstm(rng, 5, 60), nets.dense(rng, 60, 3)]).astype("float32")


@pytest.fixture
def xs(rng):
    return [rng.normal(size=(T, 5)).astype("float32") for T in rng.integers(3, 20, size=300)]  # six chunks


@pytest.fixture
def uncompiled(monkeypatch):
    """No kernel is compiled, and none is to be. Returns a function after which all that were are ready again."""
    before = [(one, one.compiled) for one in kernels.KERNELS]
    monkeypatch.setattr(kernels, "mode", "never")
    for one, _ in before:
        monkeypatch.setattr(one, "compiled", {})

    def finish():
        kernels.mode = "wait"
        for one, compiled in before:
            one.compiled = compiled

    return finish


def by(path, *arguments, **options):
    with kernels.on(path):
        return lrp.explain_all(*arguments, **options)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "method",
    # A large gap: NumPy computes these nodes, too, and the default takes half a minute.
    ["lrp-all", "deeplift", pytest.param(lrp.IntegratedGradients(gap=0.1), id="integrated-gradients")],
)
def test_a_compiler_that_finishes_in_the_middle_of_a_call_changes_nothing(
    model, xs, method, threads, request, monkeypatch
):
    wanted = by("compiled", model, xs, method, 0).relevance
    plain = by("numpy", model, xs, method, 0).relevance
    assert not np.array_equal(wanted, plain)  # they round differently, so a mixture would show
    finish = request.getfixturevalue("uncompiled")
    chunks, lock, pack = [], threading.Lock(), schedule.packed

    def packed(*arguments):
        with lock:
            chunks.append(threading.get_ident())
            if len(chunks) == 3:
                finish()
        return pack(*arguments)

    monkeypatch.setattr(schedule, "packed", packed)
    found = lrp.explain_all(twin := model.twin(), xs, method, 0, threads=threads)
    assert len(chunks) >= 6
    np.testing.assert_array_equal(found.relevance, plain)
    assert {e.computed for e in found} == {"numpy"}
    again = lrp.explain_all(twin, xs, method, 0, threads=threads)  # the next call
    np.testing.assert_array_equal(again.relevance, wanted)
    assert {e.computed for e in again} == {"compiled"}


def test_calls_of_several_threads_have_a_path_each(model, xs):
    wanted = {path: by(path, model, xs, "lrp-all", 0, threads=1).relevance for path in ("compiled", "numpy")}
    together, wrong = threading.Barrier(4), []

    def call(path):
        together.wait()
        for _ in range(3):
            found = by(path, model, xs, "lrp-all", 0, threads=2)
            if found[0].computed != path or not np.array_equal(found.relevance, wanted[path]):
                wrong.append(path)

    threads = [threading.Thread(target=call, args=(path,)) for path in ("compiled", "numpy") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and kernels.current() is None


def test_the_path_ends_with_an_error():
    with pytest.raises(lrp.LrpError), kernels.on("numpy"):
        raise lrp.LrpError("stop")
    assert kernels.current() is None


def test_computed_is_stored(model, xs, tmp_path):
    for path in ("compiled", "numpy"):
        with kernels.on(path):
            e = lrp.explain(model, xs[0])
        assert e.computed == path and lrp.Explanation.from_json(e.to_json()).computed == path
    stored = lrp.explain_corpus(model, xs[:5], out=lrp.Output(tmp_path / "out"))
    assert [one.computed for one in stored] == ["compiled"] * 5
    old = e.to_dict()
    del old["computed"]
    assert lrp.Explanation.from_json(json.dumps(old)).computed is None  # a file of an earlier version


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
def test_what_is_recomputed_in_float64_is_recorded(rng):
    wild = lrp.Model([nets.lstm(rng, 3, 8), nets.dense(rng, 8, 2)]).astype("float32")
    xs = [rng.normal(size=(60, 3)).astype("float32") for _ in range(60)]
    found = by("compiled", wild, xs, "lrp-prop", eps=0.0)
    assert {e.computed for e in found} <= {"compiled", "compiled, float64"}
    assert "compiled, float64" in {e.computed for e in found}
    assert [e.computed for e in found[3:9]] == [e.computed for e in found][3:9]
    assert {e.computed for e in by("numpy", wild, xs, "lrp-prop", eps=0.0)} == {"numpy"}


@pytest.mark.parametrize("keeps", [(None,), ("states",), ("parts",), (GRADIENT,), (DEEPLIFT, REFERENCE)])
def test_every_kernel_of_a_call_is_known_at_its_start(model, keeps, uncompiled, rng):
    """A network of several kinds of layers: nothing but the listed kernels is compiled, or waited for."""
    mixed = lrp.Model(
        [lrp.layers.MaxPool1D(2), nets.lstm(rng, 5, 4), nets.gru(rng, 4, 3), nets.dense(rng, 3, 2)],
        inputs={"x": lrp.Input(5)},
    )
    listed = passes._kernels(mixed, keeps)
    names = {one.name.partition("-")[0].partition(".")[0] for one in listed}
    assert "lstm" in names and ("GRU" in names) == (keeps != ("parts",))
    assert passes.path_of(mixed, keeps, 10) == "numpy"  # nothing is compiled in this mode


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize("method", COMPARED)
def test_both_paths_agree_where_explanations_pass_their_evidence(method):
    model = lrp.load("sentiment")
    rng = np.random.default_rng(0)
    words = [[model.embedding.vocabulary[k] for k in rng.integers(1, 4000, size=T)] for T in range(5, 25)]
    compiled = by("compiled", model, words, method)
    plain = by("numpy", model, words, method, compiled.targets)
    for e, other, evidence in zip(compiled, plain, compiled.evidence(), strict=True):
        if evidence.passed:
            assert abs(e.relevance - other.relevance).max() <= AGREE * abs(e.relevance).max()
