"""Damaged explanations: JSON with odd values in it, folders of explanations with arrays that do not fit together.

    python -m tests.attacks.odd_files --cases 20000 --seed 1

Whatever is in them, there is a result that can be shown and written, or an LrpError.
"""

import argparse
import copy
import io
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.corpus.export import write_csv
from lrpnumpy.show import html

VALUES = [
    None, True, 0, 1, -1, 3, 2**70, -(2**63), 1.5, float("nan"), float("inf"), 1e308, "", "x", "all", "1", "\ud800",
    "\x1b[2J", [], [[]], [None], [1, 2], [1.0, "a"], [[1.0], [2.0, 3.0]], [["a"]], {}, {"a": 1}, {"kind": "Ledger"},
    {"dtype": "O", "text": ["a"]}, "datetime64[s]", "float16", "object", [0] * 70, [[[[1.0]]]],
]  # fmt: skip


def explanations(seed=0):
    """A few explanations that have all the parts there are."""
    rng = np.random.default_rng(seed)
    cell = lrp.LSTM(rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2, 2)))
    words = lrp.Embedding(rng.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>")
    head = lrp.Dense(rng.normal(size=(2, 2)))
    text = lrp.Model([cell, head], embedding=words, classes=["no", "yes"], output="softmax")
    series = lrp.Model([cell, head], features=["p", "q", "r"], output_unit="mm")
    labels = np.arange("2020-01-01", "2020-01-05", dtype="M8[D]")
    yield lrp.explain(text, "a b d c", spans=[(0, 2)], hidden=True)
    yield lrp.explain(text, "a b", "cd", target="all")
    yield lrp.explain(series, lrp.Table(rng.normal(size=(4, 3)), labels), "deeplift", target=1, unit="feature")
    yield lrp.explain(series, rng.normal(size=(2, 3)), "lrp-all", target="all", hidden=True)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def odd_json(text, rng):
    """A JSON text with one to three of its values replaced, removed or doubled."""
    data = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        path = [*places(data)]
        *above, last = path[rng.integers(1, len(path))] if len(path) > 1 else ("format",)
        here = data
        for key in above:
            here = here[key]
        match rng.integers(4):
            case 0 if isinstance(here, dict):
                del here[last]
            case 1 if isinstance(here, list):
                here.insert(0, here[last])
            case _:
                here[last] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    return json.dumps(data)


def use(e):
    """Do with an explanation what one does."""
    str(e), repr(e), e.to_json(), html.page(e).encode()
    for c in range(len(e.scores)) if e.target == "all" else [None]:
        one = e if c is None else e.for_class(c)
        one.to_frame(), one.top(2)
    write_csv([(1, e)], "record", io.StringIO())


def odd_folder(path, rng):
    """Change one thing in a folder of explanations: its index, an array, some of its numbers, some of its bytes."""
    part, index = path / "part-00000000.npz", path / "index.json"
    if rng.random() < 0.3:
        content = bytearray(part.read_bytes())
        for at in rng.integers(0, len(content), rng.integers(1, 9)):
            content[at] = rng.integers(256)
        part.write_bytes(content[: rng.integers(1, len(content))] if rng.random() < 0.2 else content)
        return
    with np.load(part) as file:
        arrays = dict(file)
    names = [*arrays]
    name = names[rng.integers(len(names))]
    array = arrays[name]
    match rng.integers(9):
        case 0:
            index.write_text(odd_json(index.read_text(), rng))
        case 1:
            text = arrays["text"].tobytes().decode()
            arrays["text"] = np.frombuffer(odd_json(text, rng).encode(), np.uint8)
        case 2:
            del arrays[name]
        case 3:
            arrays[name] = array.astype(["f4", "f8", "i8", "u1", "i4"][rng.integers(5)])
        case 4:
            arrays[name] = array[: rng.integers(len(array) + 1)]
        case 5:
            arrays[name] = np.repeat(array[..., None], rng.integers(4), axis=-1)
        case 6:
            arrays[name] = arrays[names[rng.integers(len(names))]]
        case _ if array.size:
            odd = [0, 1, -1, 255, 2**40, np.nan, np.inf, 3]
            arrays[name] = array.copy()
            with np.errstate(all="ignore"):
                arrays[name].flat[rng.integers(array.size)] = np.array(odd[rng.integers(8)]).astype(array.dtype)
    with part.open("wb") as file:
        np.savez(file, **arrays)


def use_folder(path, folder):
    """Do with a folder of explanations what one does."""
    found = lrp.open_explanations(path)
    repr(found)
    for e in found:
        use(e)
    for end in ("csv", "jsonl", "h5"):
        found.export(folder / f"out.{end}", overwrite=True)
    for name in found.columns:
        found.column(name)
    str(found.summary())
    str(found[-1:])
    [*found.rejections()]


def files(folder):
    """A few folders of explanations."""
    rng = np.random.default_rng(0)
    cell = lrp.LSTM(rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2, 2)))
    words = lrp.Embedding(rng.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>")
    text = lrp.Model([cell, lrp.Dense(rng.normal(size=(2, 2)))], embedding=words, output="softmax")
    settings = [{"unit": "feature"}, {"method": "cd", "target": "all"}, {"method": "deeplift", "unit": "feature"}]
    for k, one in enumerate(settings):
        columns = {"season": ["summer", "winter", None]}
        output = lrp.Output(folder / f"{k}", columns=columns)
        yield lrp.explain_corpus(text, ["a b", "d c c", "b"], out=output, **one).path


def run(cases, seed):
    """Try so many of each kind; returns the outcomes that are neither a result nor an LrpError."""
    rng, wrong, refused = np.random.default_rng(seed), [], 0
    texts = [e.to_json() for e in explanations()]
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        folder = Path(name)
        whole, path = [*files(folder)], folder / "damaged"
        for case in range(cases):
            if case % 2:
                text = odd_json(texts[rng.integers(len(texts))], rng)
                attempt = lambda text=text: use(lrp.Explanation.from_json(text))  # noqa: E731
            else:
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(whole[rng.integers(len(whole))], path)
                odd_folder(path, rng)
                attempt = lambda: use_folder(path, folder)  # noqa: E731
            try:
                attempt()
            except lrp.LrpError:
                refused += 1
            except Exception as error:
                wrong.append((case, error))
    return wrong, refused


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    wrong, refused = run(options.cases, options.seed)
    for case, error in wrong[:20]:
        print(f"case {case}: {type(error).__name__}: {error}")  # noqa: T201
        import traceback

        print("".join(traceback.format_tb(error.__traceback__)[-2:]))  # noqa: T201
    print(f"seed {options.seed}: {options.cases} cases, {refused} refused, {len(wrong)} foreign exceptions")  # noqa: T201
    raise SystemExit(bool(wrong))
