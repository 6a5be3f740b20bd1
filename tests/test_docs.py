"""The Python of README and docs runs: the blocks of a page one after another, in a folder with what a checkout has.

A block that needs a framework says so behind its language: ```python torch. It runs where that is installed.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python *([a-z]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for framework, block in BLOCK.findall(page.read_text("utf-8")):
        if not framework or find_spec(framework):
            exec(compile(block, page.name, "exec"), names)
