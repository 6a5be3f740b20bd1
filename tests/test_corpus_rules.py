"""Rules of one's own in a corpus: a run goes on by the rule it was begun with, or not at all."""

import json
import operator
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import networks as nets
import numpy as np
import pytest
from test_corpus import WORDS, contents, interrupted, sentences

import lrpnumpy as lrp
from lrpnumpy.corpus.own import identity
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.rules import RULES
from lrpnumpy.rules.lrp import proportional

ROOT = Path(__file__).parents[1]
ALPHA = 0.25
SETTINGS = SimpleNamespace(alpha=0.25)
COUNT = 0
HELPERS = ModuleType("helpers")
HELPERS.alpha = 0.25


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    E = lrp.Embedding(rng.normal(size=(len(WORDS), 3)), WORDS, unknown="<unk>")
    return lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 3)], embedding=E)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The network is tiny: no kernel needs to be compiled for it."""
    monkeypatch.setattr(kernels, "mode", "never")


def split(gate, signal, alpha):
    """A fraction alpha for the gate, the rest for the signal."""
    return np.full_like(gate, alpha), np.full_like(signal, 1 - alpha)


# Each makes a rule's function from a number: with the same number the same rule, with another number another one.


def closure(alpha):
    return lambda gate, signal, eps: split(gate, signal, alpha)


def closure_array(alpha):
    table = np.array([0.0, alpha])
    return lambda gate, signal, eps: split(gate, signal, table[1])


def closure_in_a_closure(alpha):
    def inner():
        return alpha

    return lambda gate, signal, eps: split(gate, signal, inner())


def nested_values(alpha):
    table = {"a": [(1, alpha)], "b": "text", "c": {1, 2}, "d": None}
    return lambda gate, signal, eps: split(gate, signal, table["a"][0][1])


def default(alpha):
    def shares(gate, signal, eps, alpha=alpha):
        return split(gate, signal, alpha)

    return shares


def keyword_default(alpha):
    def shares(gate, signal, eps, *, alpha=alpha):
        return split(gate, signal, alpha)

    return shares


def attribute(alpha):
    def shares(gate, signal, eps):
        return split(gate, signal, shares.alpha)

    shares.alpha = alpha
    return shares


def partial_argument(alpha):
    return partial(lambda alpha, gate, signal, eps: split(gate, signal, alpha), alpha)


def partial_keyword(alpha):
    return partial(lambda gate, signal, eps, alpha: split(gate, signal, alpha), alpha=np.float32(alpha))


def partial_of_partial(alpha):
    return partial(partial(lambda a, b, gate, signal, eps: split(gate, signal, a + b), alpha), 0.5)


def other_rule(alpha):
    base = lrp.Rule("base", closure(alpha))
    return lambda gate, signal, eps: base.shares(gate, signal, eps)


def written(text, **values):
    """A function from its text, with globals of its own."""
    names = {"np": np, "split": split, **values}
    exec(text, names)
    return names["shares"]


def constant(alpha):
    return written(f"def shares(gate, signal, eps):\n    return split(gate, signal, {alpha})")


def constant_tuple(alpha):
    return written(f"def shares(gate, signal, eps):\n    return split(gate, signal, (1, {alpha})[1])")


def constant_inside(alpha):
    text = f"def shares(gate, signal, eps):\n    inner = lambda: {alpha}\n    return split(gate, signal, inner())"
    return written(text)


def global_value(alpha):
    return written("def shares(gate, signal, eps):\n    return split(gate, signal, alpha)", alpha=alpha)


def global_inside(alpha):
    text = "def shares(gate, signal, eps):\n    return (lambda: split(gate, signal, alpha))()"
    return written(text, alpha=alpha)


def global_function(alpha):
    return written("def shares(gate, signal, eps):\n    return helper(gate, signal, eps)", helper=closure(alpha))


def module_value(alpha):
    module = ModuleType("mine")
    module.alpha, module.deeper = alpha, ModuleType("mine.deeper")
    module.deeper.alpha = 2 * alpha
    text = "def shares(gate, signal, eps):\n    return split(gate, signal, mine.alpha + mine.deeper.alpha)"
    return written(text, mine=module)


def library(alpha):
    name = "maximum" if alpha < 0.5 else "minimum"
    return written(f"def shares(gate, signal, eps):\n    return np.{name}(gate, signal), np.linalg.norm(signal)")


def library_by_itself(alpha):
    text = "def shares(gate, signal, eps):\n    return f(gate, signal), abs(signal)"
    return written(text, f=np.maximum if alpha < 0.5 else operator.add)


MAKERS = [
    closure, closure_array, closure_in_a_closure, nested_values, default, keyword_default, attribute,
    partial_argument, partial_keyword, partial_of_partial, other_rule, constant, constant_tuple, constant_inside,
    global_value, global_inside, global_function, module_value, library, library_by_itself,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_rules_are_told_apart_by_every_value_they_use(make):
    one, same, other = (identity(lrp.Rule("mine", make(alpha))) for alpha in (0.25, 0.25, 0.75))
    assert one.doubt is None and one.note.startswith("own rule, sha256 ")
    assert one == same and one != other


def test_types_and_signs_are_part_of_a_value():
    values = [0, 0.0, -0.0, False, "0", b"0", (0,), [0], {0: 0}, {0}, [[0], [0]], slice(0, 0), (0, 0, None), None]
    values += [np.float32(0), np.float64(0), np.zeros(1), np.zeros((1, 1)), np.zeros(1, ">f8"), np.zeros(1, bool)]
    notes = {identity(lrp.Rule("mine", closure(value))).note for value in values}
    assert len(notes) == len(values)


def test_built_in_functions_can_be_told_too():
    notes = {identity(lrp.Rule("mine", rule.shares)).note for rule in RULES.values()}
    assert len(notes) == len(RULES) and all(note.startswith("own rule, sha256") for note in notes)
    assert identity(lrp.LRP("prop")) != identity(lrp.LRP(proportional)) != identity(lrp.LRP(proportional, eps=0.1))
    first, second, same = (lrp.LRP(sums={"first": lrp.rules.Gamma(gamma)}) for gamma in (0.25, 0.5, 0.25))
    assert identity(first) == identity(same) != identity(second) and identity(first).doubt is None


def test_a_rule_has_the_same_digest_in_every_process():
    code = """if True:
        import sys
        sys.path.insert(0, "tests")
        import lrpnumpy as lrp
        from lrpnumpy.corpus.own import identity
        from test_corpus_rules import MAKERS
        print([identity(lrp.Rule("mine", make(0.25))).note for make in MAKERS])
    """
    here = str([identity(lrp.Rule("mine", make(0.25))).note for make in MAKERS])
    for seed in ("1", "2"):  # of the order of sets
        environment = {"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
        assert done.stdout.strip() == here, done.stderr


class Shares:
    """A rule that keeps its number in an object."""

    def __init__(self, alpha):
        self.alpha = alpha

    def __call__(self, gate, signal, eps):
        return split(gate, signal, self.alpha)


def counting(gate, signal, eps):
    global COUNT
    COUNT += 1
    return split(gate, signal, 1 / COUNT)


def remembering():
    last = 0.0

    def shares(gate, signal, eps):
        nonlocal last
        last = 0.5
        return split(gate, signal, last)

    return shares


def importing(gate, signal, eps):
    import random as chance

    return split(gate, signal, chance.random())


DOUBTFUL = {
    "an object": (Shares(0.25), "shares is of type Shares"),
    "a method": (Shares(0.25).__call__, "shares is of type method"),
    "a closure over an object": (closure(Shares(0.25)), "the variable alpha around <lambda> is of type Shares"),
    "a partial with an object": (partial(split, alpha=Shares(1)), "an argument of shares is of type Shares"),
    "an array of objects": (closure(np.array([{}], object)), "is an array of object"),
    "a global object": (
        lambda g, s, eps: split(g, s, SETTINGS.alpha),
        "the global SETTINGS is of type SimpleNamespace",
    ),
    "a module of one's own": (lambda g, s, eps: split(g, s, vars(HELPERS)["alpha"]), "calls vars"),
    "a module as a whole": (closure(HELPERS), "is the module helpers"),
    "eval": (lambda g, s, eps: eval("split(g, s, ALPHA)"), "calls eval"),
    "random": (lambda g, s, eps: split(g, s, random.random()), "the global random.random is of type"),
    "NumPy's random": (lambda g, s, eps: split(g, s, np.random.rand()), "the global np.random.rand is of type"),  # noqa: NPY002
    "an import": (importing, "importing imports random"),
    "a global that changes": (counting, "counting changes COUNT"),
    "a variable that changes": (remembering(), "shares changes last"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_told_apart(name):
    shares, reason = DOUBTFUL[name]
    found = identity(lrp.Rule("mine", shares))
    assert reason in found.doubt and found.note == "own rule that cannot be told from another"


# ------------------------------------------------------------------------------------------------------------ runs


@pytest.mark.parametrize("make", [closure, partial_argument, default, global_value], ids=lambda make: make.__name__)
def test_a_run_goes_on_by_the_rule_it_was_begun_with(model, tmp_path, make):
    texts, out = sentences(30), tmp_path / "out.h5"
    one, other = (lrp.Rule("mine", make(alpha)) for alpha in (0.3, 0.4))
    whole = contents(lrp.explain_corpus(model, texts, tmp_path / "whole.h5", one, chunk=4).path)
    interrupted(model, texts, out, 25, method=one, chunk=4)
    for _ in range(2):  # in the middle, and when it is finished
        with pytest.raises(lrp.LrpError, match=r'but rule was "own rule, sha256 .*" and is now "own rule, sha256 '):
            lrp.explain_corpus(model, texts, out, other, chunk=4, resume=True)
        again = lrp.explain_corpus(model, texts, out, lrp.Rule("mine", make(0.3)), chunk=4, resume=True)
        assert contents(again.path) == whole


def test_a_rule_that_cannot_be_told_apart_runs_once(model, tmp_path):
    texts, out, rule = sentences(30), tmp_path / "out.h5", lrp.Rule("mine", Shares(0.3))
    message = r"cannot be resumed by the rule 'mine', .* \(shares is of type Shares\); remove it to begin anew, or make"
    interrupted(model, texts, out, 25, method=rule, chunk=4)
    with pytest.raises(lrp.LrpError, match=message):
        lrp.explain_corpus(model, texts, out, rule, chunk=4, resume=True)
    run = lrp.explain_corpus(model, texts, tmp_path / "new.h5", rule, chunk=4, resume=True)  # nothing to resume
    assert run.explained == 30
    with pytest.raises(lrp.LrpError, match=message):
        lrp.explain_corpus(model, texts, run.path, rule, chunk=4, resume=True)
    plain = lrp.explain_corpus(model, texts, tmp_path / "plain.h5", lrp.Rule("mine", closure(0.3)), chunk=4)
    with run.open() as found, plain.open() as wanted:
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a.relevance, b.relevance)


@pytest.mark.parametrize("name", ["lrp-half", "lrp-all", "occlusion-p", "gradient"])
@pytest.mark.parametrize("shares", [closure(0.3), Shares(0.3)], ids=["closure", "object"])
def test_a_rule_with_the_name_of_a_method_is_not_that_method(model, tmp_path, name, shares):
    texts, rule = sentences(20), lrp.Rule(name, shares)
    for begun, then in ((rule, name), (name, rule)):
        out = tmp_path / f"{type(begun).__name__}.h5"
        interrupted(model, texts, out, 18, method=begun, chunk=4)
        for _ in range(2):  # in the middle, and when it is finished
            with pytest.raises(lrp.LrpError, match=r"rule was|cannot be resumed by the rule"):
                lrp.explain_corpus(model, texts, out, then, chunk=4, resume=True)
            if not out.exists():
                lrp.explain_corpus(model, texts, tmp_path / "whole.h5", begun, chunk=4).path.rename(out)
    with lrp.open_explanations(tmp_path / "Rule.h5") as own, lrp.open_explanations(tmp_path / "str.h5") as built_in:
        assert own.run["rule"].startswith("own rule") and f"by {name}, a rule of one's own, in" in repr(own)
        assert built_in.run["rule"] is None and f"by {name} in" in repr(built_in)


def test_a_run_begun_before_this_was_noted_is_not_mixed(model, tmp_path):
    """Older runs noted less of a rule: they are told apart from every newer one."""
    texts, out, rule = sentences(30), tmp_path / "out.h5", lrp.Rule("mine", closure(0.3))
    interrupted(model, texts, out, 25, method=rule, chunk=4)
    note = tmp_path / "out.h5.parts" / "run.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "rule": "ab" * 32}))
    with pytest.raises(lrp.LrpError, match='rule was "abab'):
        lrp.explain_corpus(model, texts, out, rule, chunk=4, resume=True)
