"""A real cluster of two worker processes: the same bits as threads give, also when a worker is killed."""

import os
import signal

import networks as nets
import numpy as np
import pytest
from corpora import contents, rejected, run
from test_corpus import same, sentences

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels

pytest.importorskip("dask.bag")
distributed = pytest.importorskip("distributed")

WORDS = ("the", "film", "is", "not", "good", "naïve", "<unk>")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    E = lrp.Embedding(rng.normal(size=(len(WORDS), 3)), WORDS, unknown="<unk>")
    return lrp.Model([nets.two_way(rng, 3, 4), nets.dense(rng, 8, 3)], embedding=E, provenance={"by": "a test"})


@pytest.fixture(scope="module", autouse=True)
def plain_kernels():
    """Here and in the workers: three processes that compile at once take long. The benchmark compares compiled ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LRPNUMPY_COMPILE", "never")
        patch.setattr(kernels, "mode", "never")
        for one in kernels.KERNELS:  # what tests before these have compiled
            patch.setattr(one, "compiled", {})
        yield


@pytest.fixture(scope="module")
def client(plain_kernels):
    import dask

    patient = {"distributed.comm.timeouts.connect": "120s", "distributed.scheduler.allowed-failures": 5}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):
        yield client


def test_a_corpus_and_a_worker_that_is_killed(model, client, tmp_path):
    texts = sentences(200)
    texts[17] = ""
    run(model, texts, tmp_path / "threads", chunk=5, threads=2)
    victim = next(iter(client.run(os.getpid).values()))

    def source():
        yield from texts[:100]
        os.kill(victim, signal.SIGKILL)  # while it has chunks to explain
        yield from texts[100:]

    found = run(model, source(), tmp_path / "dask", chunk=5, workers=client)
    assert len(found) == 199 and len(rejected(found.path)) == 1
    assert contents(found.path) == contents(tmp_path / "threads")
    client.wait_for_workers(2, timeout=120)
    assert victim not in client.run(os.getpid).values()


def test_an_error_reaches_the_caller_and_the_run_is_resumed(model, client, tmp_path):
    texts = sentences(40)
    texts[30] = ""
    with pytest.raises(lrp.LrpError, match="record 31 cannot be explained"):
        run(model, texts, tmp_path / "out", chunk=3, workers=client, strict=True)
    with pytest.raises(lrp.LrpError, match=r"has a run of another source|cannot be explained"):
        run(model, texts[1:], tmp_path / "out", chunk=3, workers=client)
    found = run(model, texts, tmp_path / "out", chunk=3, workers=client)
    assert len(found) == 39 and len(rejected(found.path)) == 1


def test_a_bag(model, client):
    import dask.bag

    texts = sentences(20)
    found = lrp.explain_bag(model, dask.bag.from_sequence(texts, npartitions=3), target="all", unit="step")
    for a, b in zip(found.compute(), lrp.explain_all(model, texts, target="all", unit="step"), strict=True):
        nets.close(a.relevance, b.relevance)
        assert a.tokens == b.tokens
    mixed = dask.bag.from_sequence(["good film", "", "not"], npartitions=1)
    assert [e and len(e) for e in lrp.explain_bag(model, mixed, bad="none")] == [2, None, 1]
    with pytest.raises(lrp.LrpError, match="record 1 of the partition cannot be explained"):
        lrp.explain_bag(model, mixed).compute()
    with pytest.raises(lrp.LrpError, match="unknown method"):  # before anything is computed
        lrp.explain_bag(model, mixed, "magic")


def test_bags_without_a_cluster(model):
    import dask
    import dask.bag

    bag = lrp.explain_bag(model, dask.bag.from_sequence(["good film"]), unit="step")
    with dask.config.set(scheduler="synchronous"):
        (found,) = bag.compute()
    same(found, lrp.explain_all(model, ["good film"], unit="step")[0])
    assert sum(str(key).startswith("lrpnumpy-model-") for key in bag.dask) == 1  # one node, by its digest
