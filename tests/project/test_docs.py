"""The code of README and docs runs: the blocks of a page one after another, in a folder with what a checkout has.

A block that needs a framework names it after its language: ```python torch. It runs where that is installed (`make
interop`). Shell blocks run `lrpnumpy` in this process. `make docs` runs tutorials and pages of concepts, which are
slower.
"""

import io
import json
import re
import shlex
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import lrpnumpy as lrp
from docs import shown
from lrpnumpy.__main__ import main
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.layers import LAYERS
from lrpnumpy.methods import METHODS
from lrpnumpy.show import plot

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\S*) *([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
HEADER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)  # of a cell: what its picture shows
RUNS = ("python", "sh", "{code-cell}")
# What else may be fenced: formulas, layouts and what a program prints, and what Sphinx reads.
STANDS = ("text", "{toctree}", "{eval-rst}", "{image}", "{include}", "{literalinclude}", "{nb-exec-table}")
PAGES = [ROOT / "README.md", *(p for p in sorted(ROOT.glob("docs/**/*.md")) if "_build" not in p.parts)]
NOTEBOOKS = [  # `make docs` runs them
    page
    for page in PAGES
    if page.parent.name in ("tutorials", "concepts") and page.read_text("utf-8").startswith("---\nfile_format: mystnb")
]
WITH_CODE = [  # the examples of the reference are run by test_api.py
    page
    for page in PAGES
    if page not in NOTEBOOKS
    and page.parent.name != "api"
    and any(kind in RUNS for kind, *_ in FENCE.findall(page.read_text("utf-8")))
]
# The files of a reader: what pages call by these names.
FILES = {
    "model.keras": "keras3/relu.keras",
    "model.h5": "tf_keras_graphs/scaled.h5",
    "model.weights.h5": "keras3/maximum.weights.h5",
    "model.json": "keras3/maximum.json",
    "words.keras": "keras3/stack.keras",
    "words.h5": "tf_keras/stack.h5",
    "attention.keras": "keras3_graphs/attentive.keras",
    "model.pt": "torchsave/state.pt",
    "checkpoint.ckpt": "torchsave/checkpoint.ckpt",
    "model.onnx": "onnx/sentence.onnx",
    "runs/my_run": "neuralhydrology/lstm_static",
}
REVIEWS = ("A moving film.", "It isn't funny.", "Not bad at all.", "The plot is a mess, but I liked it.")
# DeepLIFT does nothing special here: sums, and numbers that are moved.
LINEAR = {"Dense", "TwoClasses", "Affine", "Repeat", "Flatten", "Reshape", "Slice", "Reverse", "Transpose", "Pad"}


def a_readers_folder(folder):
    for name in ("examples", "weights"):
        (folder / name).symlink_to(ROOT / name)
    for name, source in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        found = ROOT / "tests" / "fixtures" / source
        (shutil.copytree if found.is_dir() else shutil.copy)(found, folder / name)
    (folder / "reviews.txt").write_text("\n".join(REVIEWS), "utf-8")
    (folder / "data.jsonl").write_text("\n".join(json.dumps({"text": text, "y": 1}) for text in REVIEWS), "utf-8")


def run_shell(block):
    """Each command that is ours; `make` and `pip` are not tried here."""
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "lrpnumpy":
            with warnings.catch_warnings():  # the command line prints them in its own way
                assert main(words[1:]) == 0, line
        else:
            assert not words or words[0] in ("make", "pip"), f"no test knows how to run {line!r}"


def named(page):
    """A page for parametrize, by its path; marked if some of its blocks need a framework."""
    needs = any(kind == "python" and framework for kind, framework, _ in FENCE.findall(page.read_text("utf-8")))
    return pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=[pytest.mark.framework] if needs else [])


@pytest.mark.parametrize("page", [named(page) for page in WITH_CODE])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    a_readers_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kernels, "mode", kernels.mode)  # a bag of Dask sets it for good, in what is usually a worker
    names: dict[str, object] = {}
    shown.watch(monkeypatch.setattr)
    for kind, framework, block in FENCE.findall(page.read_text("utf-8")):
        if kind == "sh":
            run_shell(block)
        elif kind in RUNS and (kind != "python" or not framework or find_spec(framework)):
            code = HEADER.sub("", block) if kind == "{code-cell}" else block
            exec(compile(code, page.name, "exec"), names)
    assert not shown.NAN.search(capsys.readouterr().out)


def test_a_failing_explanation_is_not_shown_without_its_evidence(monkeypatch):
    text = "A moving film with a great cast."
    e = lrp.explain(lrp.load("sentiment-2"), text, "lrp-half")
    assert e.evidence().verdict == "fails"
    for picture in (lrp.plot.sentence, lrp.plot.waterfall, lrp.plot.ledger):
        shown.check(e, shown.figure_text(picture(e)))
    monkeypatch.setattr(lrp.Explanation, "__str__", lambda self: "lrp-half: why 'positive'?")
    shown.watch(monkeypatch.setattr)
    with pytest.raises(shown.Silent, match="lrp-half is shown without its evidence: Evidence: fails"):
        str(e)
    axes = Figure().subplots()
    axes.bar(range(len(e)), e.relevance)  # by hand
    with pytest.raises(shown.Silent, match="lrp-half is shown without its evidence"):
        axes.figure.savefig(io.BytesIO())
    axes.bar(range(len(e)), e.relevance)
    axes.set_title("lrp-half: fails")
    axes.figure.savefig(io.BytesIO())
    assert shown.NAN.search("score nan") and not shown.NAN.search("Fernando, 1e-3")


def test_first_steps_say_that_pandas_is_to_be_installed():
    text = (ROOT / "docs/start/dataframe.md").read_text("utf-8")
    assert "pip install pandas" in text[: text.index("import lrpnumpy as lrp", text.index("import pandas"))]


@pytest.mark.parametrize("page", [named(page) for page in PAGES])
def test_every_block_of_a_page_has_a_language(page):
    """So that none is overlooked: what runs is fenced as Python or shell, what does not as text."""
    text = page.read_text("utf-8")
    assert {kind for kind, *_ in FENCE.findall(text)} <= {*RUNS, *STANDS}
    plain = FENCE.sub("", text)
    assert not re.search(r"(?:^|\n)\n    \S", plain), "a block is indented; fence it, and say its language"


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_has_a_page(name):
    """One that the table of docs/layers leads to, and which says what each method does."""
    folder = ROOT / "docs" / "layers"
    rows = [row for row in (folder / "README.md").read_text("utf-8").splitlines() if f"`{name}`" in row]
    assert len(rows) == 1, f"docs/layers/README.md must name {name} in one row"
    pages = [(folder / page).read_text("utf-8") for page in re.findall(r"\((\w+\.md)\)", rows[0])]
    (page,) = [page for page in pages if re.search(rf"^#+ .*\b{name}\b|`{name}\b", page, re.MULTILINE)]
    for said in ("LRP", "ontextual decomposition", "DeepLIFT"):
        assert said in page or (said == "DeepLIFT" and name in LINEAR), f"the page of {name} must speak of {said}"


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_is_in_the_gallery(name):
    """A section of docs/pictures.md that draws it, and a row of its table that leads there."""
    text = (ROOT / "docs" / "pictures.md").read_text("utf-8")
    assert re.search(rf"\| \[`plot\.{name}\(.*?\]\(#{name}\)", text), f"the table must lead to {name}"
    (section,) = re.findall(rf"^### {name}\n(.*?)(?=^##)", text, re.DOTALL | re.MULTILINE)
    assert any(f"lrp.plot.{name}(" in block for kind, _, block in FENCE.findall(section) if kind == "{code-cell}")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page(name):
    """One that the table of docs/methods.md leads to: formula, reference, when it fails, and what was measured."""
    folder = ROOT / "docs"
    rows = [row for row in (folder / "methods.md").read_text("utf-8").splitlines() if f"`{name}`" in row]
    (file,) = re.findall(r"\((methods/\S+\.md)\)", rows[0])
    page = (folder / file).read_text("utf-8")
    assert "\n$$\n" in page and "## When it fails" in page
    author, year = METHODS[name].paper.split()[0], METHODS[name].paper[-4:]
    assert author in page and year in page, f"{file} must name {METHODS[name].paper}"
    for option in METHODS[name].options():
        assert f"`{option}`" in rows[0], f"the table must name the option {option} of {name}"


def test_what_pages_say_was_measured_is_in_the_results():
    measured, truth = {}, {}
    for part in (ROOT / "docs" / "trust-results.md").read_text("utf-8").split("\n## ")[1:]:
        table = [
            [cell.strip(" *") for cell in row.split("|")[1:-1]] for row in part.splitlines() if row.startswith("|")
        ]
        for row in table[2:]:
            values = dict(zip(table[0], row, strict=True))
            if part.startswith("Networks whose truth is known"):
                truth[row[0]] = values  # the same for every network
            else:
                measured[row[0], part.split()[0]] = values
    assert truth and len(measured) > len(truth)
    compared = 0
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        head: list[str] = []
        for row in re.findall(r"^\|(.*)\|$", page.read_text("utf-8"), re.MULTILINE):
            cells = [cell.strip() for cell in row.split("|")]
            if cells[:2] == ["method", "network"]:
                head = cells[2:]
            elif head and not row.startswith(" ---"):
                values = truth.get(cells[0], dict.fromkeys(("true steps", "true values"), "-")) | measured[*cells[:2]]
                assert cells[2:] == [values[column] for column in head], f"{page.name}: {row}"
                compared += 1
    assert compared == len(measured) - 3  # all but the random numbers


def test_sample():
    """Bundled data that a bundled model explains; the README uses it, so it must be in the wheel."""
    table = lrp.sample("river")
    assert table.values.shape == (731, 6) and str(table.labels[0])[:10] == "2003-10-01"
    assert {*lrp.load("river").features} < {*table.features}
    with pytest.raises(lrp.LrpError, match=r"name must be .*'river'.*got 'lake'"):
        lrp.sample("lake")
