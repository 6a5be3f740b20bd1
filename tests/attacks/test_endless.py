"""Inputs without an end, or so large that nobody can hold them, and tensors that are not arrays: an LrpError."""

import contextlib
import itertools

import numpy as np
import pytest

import lrpnumpy as lrp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))
CELL, HEAD = lrp.RNN(RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))), lrp.Dense(RNG.normal(size=(2, 2)))
NUMBERS = lrp.Model([CELL, HEAD])
WORDS = lrp.Model([CELL, HEAD], embedding=lrp.Embedding(RNG.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>"))


@pytest.fixture(scope="module")
def state_dict(tmp_path_factory):
    """A file that takes `layers=`."""
    path = tmp_path_factory.mktemp("endless") / "model.npz"
    np.savez(path, weight_ih_l0=np.ones((8, 3), "f4"), weight_hh_l0=np.ones((8, 2), "f4"))
    return path


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    """A file that takes `vocabulary=`."""
    path = tmp_path_factory.mktemp("endless") / "model.h5"
    lrp.save(lrp.Model([CELL, HEAD], embedding=lrp.Embedding(np.ones((4, 3)))), path)
    return path


@pytest.fixture(autouse=True)
def little_memory():
    """An address space in which an endless list ends soon, in a MemoryError."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as about:
        used = int(about.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def words():
    return (str(k) for k in itertools.count())


def ranked(data=(X, X), methods=("gradient",), measures=("evidence",)):
    return lrp.rank_methods(NUMBERS, data, methods, measures=measures)


def arrays():
    return (np.ones((5, 3)) for _ in itertools.count())


def explained():
    return lrp.explain(NUMBERS, X, "deeplift", unit="feature")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ranked(itertools.repeat(X)), "data must be a list of sequences, got repeat"),
        (lambda: ranked(arrays()), "data must be a list of sequences, got generator"),
        (lambda: ranked({"x": itertools.repeat(X)}), "must have a list or array with one entry per record, got repeat"),
        (lambda: ranked(methods=itertools.repeat("gradient")), "methods must have at most 1,000 entries"),
        (lambda: ranked(measures=itertools.repeat("evidence")), "measures must have at most 100 entries"),
        (lambda: lrp.compare(NUMBERS, X, itertools.repeat("gradient")), "methods must have at most 1,000 entries"),
        (lambda: lrp.Embedding(np.ones((3, 2)), words()), "vocabulary must be a list of 3 strings, got generator"),
        (lambda: lrp.explain_all(NUMBERS, arrays(), fill="forward"), "must be a list of sequences, got generator"),
        (lambda: lrp.Shapley(players=((0, 1) for _ in itertools.count())), "players must have at most 1,000,000"),
        (lambda: lrp.decompose(explained(), periods=itertools.count(2)), "periods must have at most 1,000 entries"),
        (lambda: lrp.decompose(explained(), periods=range(2, 10**15)), "periods must have at most 1,000 entries"),
        (lambda: lrp.explain(NUMBERS, X, "cd", spans=range(10**15)), "spans must be a list of pairs .*, got range"),
        (lambda: lrp.explain(NUMBERS, X, "cd", spans=[range(10**15)]), "spans must be a list of pairs"),
        (lambda: lrp.explain(NUMBERS, X, through={"0": range(10**15)}), "must have at most 2 entries"),
        (lambda: lrp.cite(itertools.repeat("gradient")), "a list must have at most 1,000,000 entries"),
    ],
)
def test_an_iterator_that_never_ends(call, says):
    with pytest.raises(lrp.LrpError, match=says) as error:
        call()
    assert error.value.__cause__ is None


def test_the_ranking_of_these_calls():
    assert ranked(methods=("gradient", "gradient-x-input")).methods  # without endless arguments it is right


@pytest.mark.parametrize("name", ["bars", "beeswarm", "heatmap", "horizons", "memory", "sentence"])
def test_pictures_of_explanations_that_never_end(name):
    picture = getattr(pytest.importorskip("lrpnumpy.show.plot"), name)
    with pytest.raises(lrp.LrpError, match=f"{name}: an iterator of explanations must have at most 10,000") as error:
        picture(itertools.repeat(explained()))
    assert error.value.__cause__ is None


@pytest.mark.parametrize("hint", ["layers", "activations"])
def test_names_of_layers_that_never_end(hint, state_dict):
    with pytest.raises(lrp.LrpError, match="at most"):
        lrp.load(state_dict, readout="last", **{hint: words()})


def test_a_vocabulary_that_never_ends(embedding):
    with pytest.raises(lrp.LrpError, match="must be a list of 4 strings"):
        lrp.load(embedding, vocabulary=words())
    with pytest.raises(lrp.LrpError, match="must be a list of 4 strings"):
        lrp.load(embedding, vocabulary=range(10**15))


@pytest.mark.parametrize("count", [10**15, 10**25])
@pytest.mark.parametrize("model", [NUMBERS, WORDS])
def test_a_range_that_nobody_can_hold(model, count):
    large = range(count)
    for call in (
        lambda: lrp.explain(model, large, "gradient"),
        lambda: lrp.predict(model, large),
        lambda: lrp.explain_all(model, large, "gradient"),
        lambda: lrp.explain_all(model, [large], "gradient"),
        lambda: lrp.explain_all(model, {"x": large}, "gradient"),
        lambda: lrp.rank_methods(model, large),
        lambda: lrp.Dense(large),
    ):
        with pytest.raises(lrp.LrpError):
            call()


def test_a_short_range_is_token_ids():
    assert lrp.predict(WORDS, range(3)).tolist() == lrp.predict(WORDS, [0, 1, 2]).tolist()


def test_memoryviews():
    expected = lrp.predict(NUMBERS, X).tolist()
    assert lrp.predict(NUMBERS, memoryview(X)).tolist() == expected
    assert lrp.predict(NUMBERS, memoryview(np.asfortranarray(X))).tolist() == expected
    released = memoryview(bytearray(24))
    released.release()
    for view in (memoryview(X.T), memoryview(np.ones((2, 5, 3, 1))), memoryview(b"abc"), released):
        for call in (
            lambda view=view: lrp.predict(NUMBERS, view),
            lambda view=view: lrp.explain_all(NUMBERS, [view, X], "gradient"),
            lambda view=view: lrp.explain_all(NUMBERS, [X, X], "gradient", target=view),
            lambda view=view: lrp.explain(NUMBERS, X, "cd", spans=view),
            lambda view=view: lrp.explain(NUMBERS, X, "deeplift", reference=view),
        ):
            with contextlib.suppress(lrp.LrpError):  # some are numbers that will do
                call()
    with pytest.raises(lrp.LrpError):
        lrp.predict(NUMBERS, released)


def test_tensors_that_are_not_arrays():
    torch = pytest.importorskip("torch")
    dense, x = X.astype("f4"), torch.tensor(X, dtype=torch.float32)
    model = NUMBERS.astype("float32")
    others = [
        x.to_sparse(),
        torch.quantize_per_tensor(x, 0.01, 0, torch.qint8),
        torch.complex(x, -x).conj().imag,  # x, as a view with a sign that is still to be applied
        torch.ones(5, 3, device="meta"),
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)]),
        torch.complex(x, x).conj(),
        torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1), (10**8, 10**8)),
    ]
    for other in others:
        for call in (
            lambda other=other: lrp.predict(model, other),
            lambda other=other: lrp.explain_all(model, other, "gradient"),
            lambda other=other: lrp.explain_all(model, [dense, other], "gradient"),
            lambda other=other: lrp.explain(model, {"x": other}, "gradient"),
            lambda other=other: lrp.explain(model, dense, "deeplift", reference=other),
            lambda other=other: lrp.rank_methods(model, other),
            lambda other=other: lrp.Dense(other),
        ):
            with pytest.raises(lrp.LrpError):
                call()
