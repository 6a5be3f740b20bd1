"""The oracle against golden.h5, whose numbers come from a separate program, and against laws of its own."""

from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest

GOLDEN = Path(__file__).with_name("golden.h5")
RULES = "all", "prop", "abs", "half"


def close(a, b, tol, unit=None):
    unit = np.max(np.abs(b)) if unit is None else unit
    worst = np.max(np.abs(np.asarray(a) - b))
    assert np.shape(a) == np.shape(b) and worst <= tol * unit, (
        f"off by {worst:.1e}, allowed {tol:.0e} x {unit:.1e}"
    )


# ---- golden.h5 ----


def golden_model(group):
    lstms = [
        {"kind": "lstm", **{name: group[way][name][:] for name in "UWb"}} for way in group if len(way) > 1
    ]
    recurrent = lstms[0] if len(lstms) == 1 else {"kind": "bi", "backward": lstms[0], "forward": lstms[1]}
    return {"layers": [recurrent, {"kind": "dense", "V": group["V"][:], "d": group["d"][:]}]}


def golden_cases():
    with h5py.File(GOLDEN) as file:
        return [f"{name}/{sequence}" for name in file for sequence in file[name] if sequence != "model"]


@pytest.fixture(params=golden_cases())
def case(request):
    """(model, x, scores, [(class, its group)]) of one sequence."""
    with h5py.File(GOLDEN) as file:
        group = file[request.param]
        targets = [(int(name[6:]), group[name]) for name in group if name.startswith("target")]
        yield golden_model(group.parent["model"]), group["x"][:], group["scores"][:], targets


def test_golden_scores_gradient_occlusion(case):
    model, x, f, targets = case
    close(oracle.scores(model, x), f, 1e-12)
    for target, group in targets:
        golden = group["eps0.001"]
        d_x, _ = oracle.gradient(model, x, target)
        close(d_x**2, golden["gradient"][:], 1e-12)
        close(d_x * x, golden["gradient_x_input"][:], 1e-12)
        close(oracle.occlusion(model, x, target), golden["occlusion_f"][:], 1e-12)
        close(oracle.occlusion(model, x, target, of="p"), golden["occlusion_p"][:], 1e-12)


def test_golden_decomposition(case):
    model, x, _, targets = case
    words = np.array([oracle.decompose(model, x, (t, t + 1))["scores"] for t in range(len(x))])  # (T, 3, C)
    for target, group in targets:
        close(words[:, 0, target], group["eps0.001/cd"][:], 1e-12)
        spans = [oracle.decompose(model, x, span)["scores"][:2, target] for span in group["cd_spans"][:]]
        close(spans, group["cd_span_scores"][:], 1e-12)


def golden_largest(model, x, f_c, eps, result):
    """The file's measure: f_c, what arrives at the gates, what their biases take, what leaves a direction."""
    found = [abs(f_c)]
    ways = oracle.directions(model["layers"][0], len(x))
    for (p, _), s, R in zip(ways, oracle.forward(model, x)[0]["ways"], result["hidden"][0], strict=True):
        to_bias = p["b"] / (s["z"] + eps * np.where(s["z"] >= 0, 1, -1)) * R["z"]
        found += [np.abs(R["z"]).max(), np.abs(to_bias).max(), np.abs(R["x"]).max()]
    return max(found)


@pytest.mark.parametrize("rule", RULES)
def test_golden_lrp(case, rule):
    model, x, f, targets = case
    for target, group in targets:
        for eps in 0, 0.001, 0.2:
            golden = group[f"eps{eps}"]
            result = oracle.lrp(model, x, target, rule, eps)
            largest = golden[f"largest_lrp_{rule}"][()]
            close(result["x"], golden[f"lrp_{rule}"][:], 1e-11, largest)
            ledger = result["ledger"]
            entries = ledger["inputs"], sum(ledger["biases"]), ledger["stabiliser"], ledger["initial_state"]
            close(entries, golden[f"ledger_lrp_{rule}"][:], 1e-11, largest)
            close(golden_largest(model, x, f[target], eps, result), largest, 1e-9)
            assert largest <= result["largest"] * (1 + 1e-9)  # ours looks at every message
            if rule == "all" and eps == 0.001:
                ways = oracle.directions(model["layers"][0], len(x))
                R_T = [R["h"][order[-1]] for R, (_, order) in zip(result["hidden"][0], ways, strict=True)]
                close(np.concatenate(R_T), golden["lrp_all_hidden_T"][:], 1e-12)
