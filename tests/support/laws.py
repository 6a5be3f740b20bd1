"""Laws that hold for every network, whatever its layers: each test of a layer calls `hold` with networks around it."""

import pickle
import warnings

import h5py
import numpy as np
from cases import EVERY_CASE
from networks import GOLDEN, close

import lrpnumpy as lrp
from lrpnumpy.methods import METHODS

LRP = [name for name, method in METHODS.items() if method.kind == "lrp"]
QUICK = {"integrated-gradients": {"nodes": 5}, "shapley": {"players": 3}}  # options with which a slow method is quick
THIRD = lrp.Rule("third", lambda gate, signal, eps: (gate * 0 + 0.25, signal * 0 + 0.5))


def record(model, values):
    """The inputs of one record by name."""
    return values if isinstance(values, dict) else {model.main: values}


def plain(model, values):
    """As `explain` takes it."""
    values = record(model, values)
    return values if len(values) > 1 else values[model.main]


def score(model, values, target):
    """The score that is explained: at the last step where there is one at every step."""
    f = lrp.predict(model, plain(model, values))
    return f[-1, target] if model.every else f[target]


RULES, EPSILONS = (*LRP, THIRD), (0.0, 0.001, 0.2)


def the_ledger_adds_up(model, records, target, rules=RULES, epsilons=EPSILONS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        for method in rules:
            for eps in epsilons:
                options = {"eps": eps, "gamma": 0.5 if eps == 0.2 else 0}
                for values, found in zip(
                    records,
                    lrp.explain_all(model, [plain(model, r) for r in records], method, target, **options),
                    strict=True,
                ):
                    f = score(model, values, target)
                    parts = found.inputs.values()
                    unit = max(abs(f), found.ledger.largest, *(abs(part.feature_relevance).max() for part in parts))
                    inputs = sum(part.feature_relevance.sum() for part in parts)
                    close(found.ledger.inputs, inputs, 1e-10, unit)
                    close(found.ledger.total, f, 1e-10, unit)


def gradients(model, values, target):
    """Derivatives of the score by every input, by name: gradient x input at inputs that are not 0, divided by them."""
    found = lrp.explain(model, plain(model, values), "gradient-x-input", target).inputs
    return {
        name: (found[name].feature_relevance / np.atleast_2d(x)).reshape(np.shape(x))
        for name, x in record(model, values).items()
    }


def gradients_are_slopes(model, records, target, rng, tol=1e-6):
    """Projected on random directions: df/dv = grad . v."""
    h = 1e-5
    for values in records:
        found = gradients(model, values, target)
        values = record(model, values)
        for _ in range(2):
            along = {name: rng.normal(size=np.shape(x)) for name, x in values.items()}
            ahead, behind = (
                score(model, {name: x + way * along[name] for name, x in values.items()}, target) for way in (h, -h)
            )
            slope = sum((found[name] * along[name]).sum() for name in values)
            unit = 1 + sum(np.abs(found[name]).sum() for name in values)
            close(slope, (ahead - behind) / (2 * h), tol, unit)


def a_batch_gives_what_single_calls_give(model, records, target, spans):
    many = [plain(model, values) for values in records]
    close(
        np.concatenate([np.atleast_2d(f) for f in lrp.predict_all(model, many)]),
        np.concatenate([np.atleast_2d(lrp.predict(model, x)) for x in many]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        for method in METHODS:
            if method == "occlusion-p" and model.output == "linear":
                continue
            options = {"unit": "feature"} if "occlusion" in method else {"eps": 0.1} if method in LRP else {}
            options |= QUICK.get(method, {})
            together = lrp.explain_all(model, many, method, target, spans=spans, **options)
            for x, phrases, found in zip(many, spans, together, strict=True):
                one = lrp.explain(model, x, method, target, spans=phrases, **options)
                unit = max(1, getattr(one.ledger, "largest", 0), np.abs(one.relevance).max())
                for name, part in one.inputs.items():
                    close(found.inputs[name].relevance, part.relevance, 1e-11, unit)
                    if part.feature_relevance is not None:
                        close(found.inputs[name].feature_relevance, part.feature_relevance, 1e-11, unit)
                close([s.relevance for s in found.spans], [s.relevance for s in one.spans], 1e-11, unit)


def occlusion_is_forward_passes(model, records, target, spans, omit):
    """Of every step, phrase and number, all records in one call."""
    many = [plain(model, values) for values in records]
    found = lrp.explain_all(model, many, "occlusion-f", target, unit="feature", spans=spans)
    for values, phrases, one in zip(records, spans, found, strict=True):
        f, values = score(model, values, target), record(model, values)

        def drop(name, where, f=f, values=values):
            x = np.atleast_2d(np.array(values[name], float))
            x[where] = 0
            return f - score(model, {**values, name: x.reshape(np.shape(values[name]))}, target)

        for name, x in values.items():
            T, D = np.atleast_2d(x).shape
            close(one.inputs[name].relevance, [drop(name, t) for t in range(T)], 1e-11, 1 + abs(f))
            singly = [[drop(name, (t, d)) for d in range(D)] for t in range(T)]
            close(one.inputs[name].feature_relevance, singly, 1e-11, 1 + abs(f))
        close([s.relevance for s in one.spans], [drop(model.main, slice(*s)) for s in phrases], 1e-11, 1 + abs(f))
    if not omit or sum(port.steps for port in model.inputs.values()) > 1:
        return
    long = [k for k, values in enumerate(records) if len(record(model, values)[model.main]) > 3]
    found = lrp.explain_all(model, [many[k] for k in long], "occlusion-f", target, reference="omit")
    for k, one in zip(long, found, strict=True):
        values = record(model, records[k])
        x = values[model.main]
        f = score(model, values, target)
        left = [{**values, model.main: np.delete(x, t, axis=0)} for t in range(len(x))]
        close(one.relevance, [f - score(model, rest, target) for rest in left], 1e-11, 1 + abs(f))


def decomposition_adds_up(model, records, target, spans, whole):
    """beta + gamma + delta is the score; with `whole`, all words together leave nothing irrelevant."""
    for values, phrases in zip(records, spans, strict=True):
        f, T = score(model, values, target), len(record(model, values)[model.main])
        ledger = lrp.explain(model, plain(model, values), "cd", target, spans=[*phrases, (0, T)]).ledger
        assert np.isfinite(ledger.relevant).all()
        close(ledger.total, np.full(len(phrases) + 1, f), 1e-11, 1 + np.abs(ledger.relevant).max())
        if whole:
            close(ledger.irrelevant[-1], 0.0, 1e-11, 1 + np.abs(ledger.relevant).max())


def overflows(model, values):
    """Whether some activation of the network is so large that differences of its squares are not finite."""
    return not all((abs(one) < 1e100).all() for one in lrp.trace(model, plain(model, values)).values())


def references_are_complete(model, records, target, rng, method="deeplift", tol=1e-12, **options):
    """Relevances add up to f(x) - f(reference) within `tol` of what they add up to without signs; at x they are 0."""
    vectors = {name: rng.normal(size=port.size) for name, port in model.inputs.items()}
    if any(overflows(model, values) for values in records):  # exponential gates: the numbers grow from step to step
        return
    for reference in ("zero", [vectors, {name: -v / 2 for name, v in vectors.items()}]):
        found = lrp.explain_all(
            model, [plain(model, r) for r in records], method, target, reference=reference, **options
        )
        for values, one in zip(records, found, strict=True):
            values = record(model, values)
            every = [{}] if reference == "zero" else reference
            base = [
                score(
                    model,
                    {name: np.zeros(np.shape(x)) + ref.get(name, 0.0) for name, x in values.items()},
                    target,
                )
                for ref in every
            ]
            parts = [part.feature_relevance for part in one.inputs.values()]
            size = sum(np.abs(part).sum() for part in parts)
            f = score(model, values, target)
            unit = max(size, np.abs([f, *base]).max() * 1e-2)  # the scores themselves are rounded
            close(sum(part.sum() for part in parts), f - np.mean(base), tol, unit)
            close([one.ledger.score, one.ledger.reference], [f, np.mean(base)])
            close(one.ledger.inputs + one.ledger.gap, f - np.mean(base), tol, unit)
    for values in records[:2]:
        itself = {name: np.asarray(x) for name, x in record(model, values).items()}
        one = lrp.explain(model, plain(model, values), method, target, reference=itself, **options)
        assert all((part.relevance == 0).all() for part in one.inputs.values())


def float32_is_close(model, records, target):
    short = model.astype("float32")
    for values in records if EVERY_CASE else records[:1]:
        for method in ("gradient-x-input", "occlusion-f", "cd"):
            a, b = (lrp.explain(m, plain(m, values), method, target) for m in (short, model))
            assert a.relevance.dtype == np.float32
            close(a.relevance, b.relevance, 2e-3, 1 + np.abs(b.relevance).max())


def files_and_pickles_hold_it(model, tmp_path):
    lrp.save(model, tmp_path / "model.h5", overwrite=True)
    again = lrp.load(tmp_path / "model.h5")
    assert again.digest == model.digest == pickle.loads(pickle.dumps(model)).digest
    assert lrp.inspect(tmp_path / "model.h5").model.digest == model.digest


def hold(model, records, rng, tmp_path=None, target=0, whole=True, omit=True, smooth=1e-6):
    """All laws."""
    sizes = [len(record(model, values)[model.main]) for values in records]
    spans = [[(0, 1), (T // 3, 2 * T // 3 + 1), (T - 1, T)] for T in sizes]
    for k, rule in enumerate(RULES):  # in `make test` each with one epsilon
        the_ledger_adds_up(model, records, target, [rule], EPSILONS if EVERY_CASE else [EPSILONS[k % len(EPSILONS)]])
    gradients_are_slopes(model, records, target, rng, smooth)
    a_batch_gives_what_single_calls_give(model, records, target, spans)
    occlusion_is_forward_passes(model, records, target, spans, omit)
    decomposition_adds_up(model, records, target, spans, whole)
    references_are_complete(model, records, target, rng)
    float32_is_close(model, records, target)
    if tmp_path is not None:
        files_and_pickles_hold_it(model, tmp_path)


# ---- golden networks ----


def golden(name):
    """A group of networks.h5 as nested dicts."""

    def read(node):
        return {key: read(part) for key, part in node.items()} if isinstance(node, h5py.Group) else node[()]

    with h5py.File(GOLDEN.with_name("networks.h5")) as file:
        return read(file[name])


def agrees(model, group, step_of=None, names=None):
    """Scores, gradients, LRP with ledgers and occlusion of a golden network, alone and in a batch of other lengths.

    `step_of` says of a target of a network with predictions at every step which step and output it is.
    """
    names = names or list(model.inputs)
    keys = [f"input{k}" for k in range(len(names))]
    x = dict(zip(names, (group[key] for key in keys), strict=True))
    T = len(x[model.main])
    shorter = {name: value[: max(1, T - 2)] if model.inputs[name].steps else value for name, value in x.items()}
    many = [plain(model, values) for values in (shorter, x, x)]
    scores = lrp.predict(model, plain(model, x))
    close(scores.ravel(), group["scores"])
    for key in [key for key in group if key.startswith("target")]:
        part, target, place = group[key], int(key[6:]), {}
        if step_of is not None:
            step, target = step_of(target)
            place = {"step": step}

        def both(method, target=target, place=place, **options):
            yield lrp.explain(model, plain(model, x), method, target, **place, **options)
            batch = many if not place else many[1:]
            yield lrp.explain_all(model, batch, method, target, **place, **options)[1 - len(place)]

        for found in both("gradient-x-input"):
            for name, golden_key in zip(names, keys, strict=True):
                want = np.atleast_2d(part["gradient"][golden_key] * x[name])
                close(found.inputs[name].feature_relevance, want)
        for rule in ("all", "prop", "abs", "half"):
            for eps in ("0", "0.001", "0.2"):
                want = part[f"lrp_{rule}"][f"eps{eps}"]
                inputs, biases, stabilizer, largest = want["ledger"]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", lrp.RelevanceWarning)
                    for found in both(f"lrp-{rule}", eps=float(eps)):
                        for name, golden_key in zip(names, keys, strict=True):
                            close(found.inputs[name].feature_relevance, np.atleast_2d(want[golden_key]), 1e-10, largest)
                        close(found.ledger.inputs, inputs, 1e-10, largest)
                        close(sum(found.ledger.biases), biases, 1e-10, largest)
                        close(found.ledger.stabilizer, stabilizer, 1e-10, largest)
        for found in both("occlusion-f"):
            close(found.relevance, part["occlusion_f"], 1e-10)
        for key, method, options in golden_references(part, names, keys):
            for found in both(method, **options):
                for name, golden_key in zip(names, keys, strict=True):
                    close(found.inputs[name].feature_relevance, np.atleast_2d(part[key][golden_key]), 1e-10)


def golden_references(part, names, keys):
    """What the file says of methods with a reference: key, method, options."""
    references = [{name: part[f"reference{k}"][key] for name, key in zip(names, keys, strict=True)} for k in (0, 1)]
    integrated = {"nodes": 80}
    options = {
        "integrated_zero": ("integrated-gradients", integrated),
        "integrated_first_reference": ("integrated-gradients", {"reference": references[:1], **integrated}),
        "deeplift_zero": ("deeplift", {}),
        "deeplift_two_references": ("deeplift", {"reference": references}),
    }
    return [(key, *options[key]) for key in options if key in part]
