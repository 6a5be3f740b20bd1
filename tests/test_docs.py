"""The Python of README and docs runs: the blocks of a page one after another, in a folder with what a checkout has.

A block that needs a framework says so behind its language: ```python torch. It runs where that is installed.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from lrpnumpy.layers import LAYERS

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python *([a-z]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))]
# DeepLIFT does nothing special here: sums, and numbers that are moved.
LINEAR = {"Dense", "TwoClasses", "Affine", "Repeat", "Flatten", "Reshape", "Slice", "Reverse", "Transpose", "Pad"}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for framework, block in BLOCK.findall(page.read_text("utf-8")):
        if not framework or find_spec(framework):
            exec(compile(block, page.name, "exec"), names)


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
