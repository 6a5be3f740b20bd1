"""What a release says of itself is true: versions, packages, bounds, workflows, the tests that SECURITY.md names."""

import ast
import configparser
import fnmatch
import re
import sys
from pathlib import Path

import pytest

import lrpnumpy as lrp
from tests import uncovered
from tests.oldest import constraints

ROOT = Path(__file__).parents[2]
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg", "utf-8")
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))  # an sdist has none


def text(name):
    return (ROOT / name).read_text("utf-8")


def test_one_version_everywhere():
    version, date = re.search(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE).groups()
    assert version == lrp.__version__
    assert f"\nversion: {version}\ndate-released: {date}\n" in text("CITATION.cff")


def test_every_package_and_every_file_of_it_is_installed():
    listed = CONFIG["options"]["packages"].split()
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "lrpnumpy").rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} | {"lrpnumpy.weights"} == {*listed}
    data = CONFIG["options.package_data"]
    for package in listed:
        folder = ROOT / (package.replace(".", "/") if package != "lrpnumpy.weights" else "weights")
        patterns = [one for one in re.split(r"[,\s]+", data.get(package, "")) if one]
        inside = [path for path in folder.iterdir() if path.is_file() and path.suffix not in (".py", ".pyc")]
        for path in inside:
            assert any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns), f"setup.cfg must list {path}"


def test_bounds_of_the_recipe_are_those_of_setup_cfg():
    recipe = text("conda/meta.yaml").replace("matplotlib-base", "matplotlib")
    needed = CONFIG["options"]["install_requires"].split()
    assert {f"    - {one.replace('>=', ' >=')}" for one in needed} <= {*recipe.splitlines()}
    assert {one.replace(">=", "==") for one in needed} <= {*constraints()}


def test_versions_of_python():
    yaml = pytest.importorskip("yaml")
    said = re.findall(r"Python :: (3\.\d+)", CONFIG["metadata"]["classifiers"])
    assert CONFIG["options"]["python_requires"] == f">={said[0]}"
    for path in WORKFLOWS:
        if path.name == "test.yml":
            assert yaml.safe_load(path.read_text("utf-8"))["jobs"]["test"]["strategy"]["matrix"]["python"] == said


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_read_and_no_more(path):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        allowed = {"id-token": "write"} if (path.name, name) == ("publish.yml", "publish") else {"contents": "read"}
        assert job.get("permissions", {"contents": "read"}) == allowed
    used = [line for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert len(used) == sum("uses" in step for job in workflow["jobs"].values() for step in job["steps"]) > 0
    for line in used:  # a tag may be moved, a commit may not
        assert re.fullmatch(r" +- uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def known_tests(path):
    return {node.name for node in ast.parse(text(path)).body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_security_names_exists(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests" / "attacks"), str(ROOT / "tests" / "support"), *sys.path])
    import hostile
    import hostile_onnx  # noqa: F401

    rows = [row for row in text("SECURITY.md").splitlines() if row.startswith("| CVE-")]
    assert len(rows) > 10
    for row in rows:
        attacks, _, named = (cell.strip() for cell in row.strip("|").split("|"))
        assert re.fullmatch(r"CVE-\d{4}-\d{4,5}(, CVE-\d{4}-\d{4,5})*", attacks)
        tests = re.findall(r"`([^`]+)`", named)
        assert tests, f"{attacks} must name a test"
        for test in tests:
            kind, name = re.split(r"::|:", test)
            assert name in (hostile.ATTACKS if kind == "attacks" else known_tests(kind)), f"there is no {test}"


def test_places_that_no_test_runs_are_where_they_are_said_to_be():
    for place in uncovered.REASONS:
        file, _, name = place.partition(" ")
        known, _ = uncovered.statements(text(f"lrpnumpy/{file}"))
        assert not name or name in [one for _, _, one in known], place


def test_lines_that_raise_errors_are_told_from_others():
    source = (
        "def f(x):\n    if x:\n        raise ValueError(\n            x\n        )\n    x.refuse(1)\n    return x\n"
    )
    assert uncovered.statements(source) == ([(1, 7, "f")], {3, 4, 5, 6})
