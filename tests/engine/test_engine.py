"""Scores and gradients: against golden.h5, the oracle, central differences and torch; one by one and in batches."""

import signal
import subprocess
import sys
import threading
import time

import networks as nets
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp
from lrpnumpy.encode import encode_all, packed
from lrpnumpy.model import READOUTS
from lrpnumpy.passes import backward, forward
from lrpnumpy.rules import GRADIENT

GOLDEN = list(nets.golden())


def gradients(model, x, target, step=None):
    """Derivatives of one score by the inputs."""
    trace = forward(model, packed(model, encode_all(model, [x])), GRADIENT)
    seed = np.zeros_like(trace.scores)
    seed[-1 if step is None else step, target] = 1
    return backward(trace, seed, GRADIENT).inputs[model.main]


@pytest.mark.parametrize(("name", "model", "sequences"), GOLDEN, ids=[case[0] for case in GOLDEN])
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-12), ("float32", 1e-3)])
def test_golden_scores_and_gradients(name, model, sequences, dtype, tol):
    model = model.astype(dtype)
    xs = [part["x"].astype(dtype) for part in sequences]
    many = lrp.predict_all(model, xs)
    assert many.dtype == dtype
    for k, (x, part) in enumerate(zip(xs, sequences, strict=True)):
        close(lrp.predict(model, x), part["scores"], tol)
        close(many[k], part["scores"], tol)
    for target in {key for part in sequences for key in part if key.startswith("target")}:
        chosen = [k for k, part in enumerate(sequences) if target in part]
        for method, key in (("gradient", "gradient"), ("gradient-x-input", "gradient_x_input")):
            batch = lrp.explain_all(model, [xs[k] for k in chosen], method, int(target[6:]))
            for k, found in zip(chosen, batch, strict=True):
                close(found.feature_relevance, sequences[k][target]["eps0.001"][key], tol)
                close(
                    lrp.explain(model, xs[k], method, int(target[6:])).feature_relevance,
                    found.feature_relevance,
                    1e-12 if tol < 1e-6 else 1e-4,
                )


@given(st.data())
@nets.examples(100)
def test_any_network_gives_what_the_oracle_gives(data):
    model = data.draw(nets.networks())
    x = data.draw(nets.inputs(model))
    judge = nets.plain(model)
    close(lrp.predict(model, x), oracle.scores(judge, x))
    target = data.draw(st.integers(0, 2))
    step = data.draw(st.integers(0, len(x) - 1)) if model.every else None
    found = gradients(model, x, target, step)
    d_x, _ = oracle.gradient(judge, x, target, step=step)
    close(found, d_x, unit=np.abs(d_x).max() + 1e-300)


@given(st.data())
def test_a_batch_gives_what_single_calls_give(data):
    dtype, tol = data.draw(st.sampled_from([("float64", 1e-13), ("float32", 1e-5)]))
    model = data.draw(nets.networks(dtype=dtype))
    xs = data.draw(nets.inputs(model, count=data.draw(st.integers(1, 6))))
    threads = data.draw(st.sampled_from([None, 1, 2]))
    many = lrp.predict_all(model, xs, threads=threads)
    for x, scores in zip(xs, many, strict=True):
        assert scores.dtype == model.dtype
        close(scores, lrp.predict(model, x), tol, unit=max(1, np.abs(scores).max()))


@pytest.mark.parametrize("readout", READOUTS)
def test_central_differences(rng, readout):
    """Projected on random directions: df/dv = grad . v."""
    layers = [
        nets.two_way(rng, 3, 4, "concat", (nets.lstm, nets.gru), state=True),
        nets.dense(rng, 8, 5, "tanh"),
        nets.lstm(rng, 5, 4, state=True),
        nets.gru_before(rng, 4, 4, state=True),
        nets.two_way(rng, 4, 2, "concat", (nets.rnn, nets.rnn), state=True),
        nets.dense(rng, 4, 3),
    ]
    model, x, h = lrp.Model(layers, readout=readout), rng.normal(size=(6, 3)), 1e-6
    found = gradients(model, x, 1)

    def score(x):
        f = lrp.predict(model, x)
        return f[-1, 1] if readout == "every" else f[1]

    for _ in range(5):
        along = rng.normal(size=x.shape)
        numeric = (score(x + h * along) - score(x - h * along)) / (2 * h)
        close(np.sum(found * along), numeric, 1e-7, unit=1)


@pytest.mark.parametrize("directions", [1, 2])
def test_torch(rng, directions):
    torch = pytest.importorskip("torch")
    D, H, depth = 5, 4, 2
    net = torch.nn.LSTM(D, H, depth, bidirectional=directions == 2, batch_first=True).double()
    weights = {name: value.detach().numpy() for name, value in net.named_parameters()}

    def way(k, suffix):
        U, W = (weights[f"weight_{part}_l{k}{suffix}"].reshape(4, H, -1) for part in ("ih", "hh"))
        return lrp.LSTM(U, W, (weights[f"bias_ih_l{k}{suffix}"] + weights[f"bias_hh_l{k}{suffix}"]).reshape(4, H))

    layers = [
        way(k, "") if directions == 1 else lrp.Bidirectional(way(k, ""), way(k, "_reverse")) for k in range(depth)
    ]
    V = rng.normal(size=(3, H * directions))
    model, x = lrp.Model([*layers, lrp.Dense(V)], readout="mean"), rng.normal(size=(7, D))
    inputs = torch.tensor(x[None], requires_grad=True)
    scores = net(inputs)[0].mean(dim=1) @ torch.tensor(V).T
    scores[0, 2].backward()
    close(lrp.predict(model, x), scores[0].detach().numpy())
    close(gradients(model, x, 2), inputs.grad[0].numpy())


def test_the_trace_is_the_oracle_s(rng):
    lower = nets.two_way(rng, 3, 4, "concat", (nets.lstm, nets.gru))
    model = lrp.Model([lower, nets.gru_before(rng, 8, 2), nets.rnn(rng, 2, 3), nets.dense(rng, 3, 3)])
    x = rng.normal(size=(5, 3))
    found = lrp.trace(model, x)
    judge = oracle.forward(nets.plain(model), x)
    close(found["3"], judge[-1]["y"])
    values = {"0/forward": "ifgoch", "0/backward": "zrnh", "1": "zrnh", "2": "h"}
    for (path, names), way in zip(values.items(), [way for seen in judge[:3] for way in seen["ways"]], strict=True):
        for name in names:
            close(found[f"{path}/{name}"], way["u" if name == "z" else name])  # the oracle's name of the update gate


def test_the_trace_has_a_name_for_every_activation(rng):
    lower = nets.two_way(rng, 3, 4, "concat", (nets.lstm, nets.gru))
    model = lrp.Model([lower, nets.rnn(rng, 8, 3), nets.dense(rng, 3, 2)], readout="mean")
    x = rng.normal(size=(5, 3))
    found = lrp.trace(model, x)
    forward, backward = [f"0/forward/{name}" for name in "ifgoch"], [f"0/backward/{name}" for name in "zrnh"]
    assert [*found] == ["x", *forward, *backward, "0", "1/h", "1", "readout", "2"]
    close(found["x"], x)
    close(found["0"], np.concatenate([found["0/forward/h"], found["0/backward/h"]], axis=1))
    close(found["readout"][0], found["1"].mean(axis=0))
    close(found["2"][0], lrp.predict(model, x))
    scaled = lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 1)], scaler=(1.0, 2.0), output_scaler=(5.0, 3.0))
    found = lrp.trace(scaled, x)
    close(found["x"], (x - 1) / 2)
    close(found[":units"][0], 3 * found["1"][0] + 5)
    close(found[":units"][0], lrp.predict(scaled, x))


@pytest.mark.compiled
def test_a_long_sequence(rng):
    """100,000 steps: scores of the second half alone agree, since this network forgets."""
    model = lrp.Model([nets.two_way(rng, 2, 3), nets.dense(rng, 6, 2)], readout="last")
    x = rng.normal(size=(100_000, 2)) * 0.1
    found = lrp.explain(model, x, "lrp-all", unit="step")
    assert np.isfinite(found.relevance).all()
    forward_only = lrp.Model([model.layers[0].forward, lrp.Dense(model.layers[1].V[:, :3])])
    close(lrp.predict(forward_only, x), lrp.predict(forward_only, x[50_000:]), 1e-9)


def test_the_callers_arrays_stay_as_they_are(rng):
    U, W, x = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 3, 3)), rng.normal(size=(5, 2))
    before = [a.copy() for a in (U, W, x)]
    model = lrp.Model([lrp.LSTM(U, W), nets.dense(rng, 3, 2)])
    for method in lrp.methods():
        lrp.explain(model, x, method.name)
    for array, copy in zip((U, W, x), before, strict=True):
        assert array.flags.writeable and (array == copy).all()
    scores = lrp.predict(model, x)
    U[:] = 0  # the model has its own copy
    assert (lrp.predict(model, x) == scores).all()


@pytest.mark.compiled
def test_several_threads_at_once(rng):
    model = lrp.Model([nets.two_way(rng, 5, 8), nets.dense(rng, 16, 3)])
    xs = [rng.normal(size=(int(T), 5)) for T in rng.integers(1, 30, 200)]
    expected = lrp.explain_all(model, xs, threads=1).relevance
    found = [None] * 4

    def call(k):
        found[k] = lrp.explain_all(model, xs, threads=2).relevance

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for relevance in found:
        assert (relevance == expected).all()  # the same bits: chunks do not depend on the threads


ONE = """
import numpy as np, lrpnumpy as lrp
rng, H = np.random.default_rng(0), 20
cell = lrp.RNN(rng.normal(size=(H, 3)), rng.normal(size=(H, H)) / 5)  # its kernels compile soonest
model = lrp.Model([cell, lrp.Dense(rng.normal(size=(2, H)))])
"""


@pytest.mark.compiled  # the chunks at hand are finished first, and in plain Python one takes minutes
def test_ctrl_c_stops_cleanly():
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may have it ignored
    code += ONE + "xs = [rng.normal(size=(50, 3))] * 200_000; lrp.predict_all(model, xs[:100])\n"
    code += "print('go', flush=True); lrp.explain_all(model, xs)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"go\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert b"KeyboardInterrupt" in errors and process.returncode != 0
