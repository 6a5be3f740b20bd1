"""Imports point one way: read from the import statements of every module, without running them."""

import ast
import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "lrpnumpy"

# From the ground up. A module imports from the floors below its own and from its own folder, nothing else.
FLOORS = [
    {"kernels", "checks", "fields", "weights", "interrupt", "lazy"},
    {"meant"},
    {"ledgers", "scaling", "summary", "tables", "verdict"},
    {"activations", "packed", "readback"},
    {"rules", "result"},
    {"targets"},
    {"statement", "protocol"},
    {"layers"},
    {"inputs", "text", "laws", "series"},
    {"model"},
    {"folding", "reconstruction"},
    {"encode", "passes"},
    {"methods", "schedule"},
    {"predict", "asked", "results"},
    {"files", "cite"},
    {"explain"},
    {"evidence", "parts"},
    {"corpus", "counterfactual", "windows"},
    {"evaluate"},
    {"show"},
    {"page", "exchange"},
    {"serve"},
    {"__init__"},
    {"commands"},
    {"__main__"},
]
FLOOR = {name: k for k, names in enumerate(FLOORS) for name in names}

# A result or a ranking draws itself in a notebook or a terminal, and loads the drawing code when it does.
LAZY = {
    *((room, "show") for room in ("result", "evaluate", "counterfactual")),
    *(("protocol", room) for room in ("show", "page", "corpus", "exchange")),
    *(("result", room) for room in ("page", "exchange")),
    *((room, "evidence") for room in ("result", "protocol")),
    ("results", "explain"),  # a summary explains another class
}

# Libraries that only these may import.
OWNERS = {
    "numba": {"kernels"},
    "llvmlite": {"kernels"},
    "h5py": {"files", "corpus"},
    "matplotlib": {"show"},
}
# Loaded where they are first needed, never by `import lrpnumpy`.
LATE = ["numba", "llvmlite", "h5py", "matplotlib", "tqdm", "scipy", "pandas", "torch"]


def room(module):
    """`lrpnumpy.kernels.lstm` is in the room kernels."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(source, module, modules, is_package=False):
    """Each imported module with its line, and whether that happens inside a function.

    Other libraries that are imported for type checkers only are left out: nothing loads them.
    """
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            below = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules else base for name in below]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
                names = [node.args[0].value]
        for name in names:
            if id(node) not in for_types or name.split(".")[0] == PACKAGE:
                yield name, node.lineno, id(node) in inside


def problems(source, module, modules, is_package=False):
    """What is wrong with the imports of one module, in words."""
    here = room(module)
    if here not in FLOOR:
        return [f"{module}: {here} must have a place in FLOORS of this test"]
    found = []
    for name, line, lazy in imports(source, module, modules, is_package):
        top = name.split(".")[0]
        if top != PACKAGE:
            if here not in OWNERS.get(top, {here}):
                found.append(f"{module}:{line} imports {top}, which only {sorted(OWNERS[top])} may")
            continue
        there = room(name)
        if here == "kernels" and there != "kernels":
            found.append(f"{module}:{line} imports {name}; kernels know only kernels")
        elif there != here and not FLOOR.get(there, 99) < FLOOR[here] and not (lazy and (here, there) in LAZY):
            found.append(f"{module}:{line} imports {name}, which is not on a floor below")
    return found


def sources():
    """Module name to file, for the whole package."""
    files = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def test_imports_point_down():
    files = sources()
    assert len(files) > 200
    for module, path in files.items():
        assert not problems(path.read_text("utf-8"), module, files, path.name == "__init__.py")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lrpnumpy.passes", "from lrpnumpy.explain import explain"),
        ("lrpnumpy.passes", "from lrpnumpy import methods"),
        ("lrpnumpy.passes", "from . import methods"),
        ("lrpnumpy.passes", "from .methods import METHODS"),
        ("lrpnumpy.passes", "def f():\n    import lrpnumpy.methods"),
        ("lrpnumpy.passes", "import lrpnumpy"),
        ("lrpnumpy.passes", "from importlib import import_module\nimport_module('numba')"),
        ("lrpnumpy.rules.lrp", "from lrpnumpy.layers import LSTM"),
        ("lrpnumpy.kernels.lstm", "from lrpnumpy.checks import LrpError"),
        ("lrpnumpy.kernels.lstm", "from ..model import LSTM"),
        ("lrpnumpy.result", "from lrpnumpy.show import html"),
        ("lrpnumpy.model", "import h5py"),
        ("lrpnumpy.explain", "def f():\n    from matplotlib import pyplot"),
        ("lrpnumpy.attic", "import math"),
    ],
)
def test_an_arrow_that_turns_back_is_seen(module, source):
    modules = {f"lrpnumpy.{name}" for name in FLOOR}
    assert len(problems(source, module, modules)) == 1


def test_what_is_allowed_passes():
    modules = {f"lrpnumpy.{name}" for name in FLOOR} | {"lrpnumpy.kernels.lstm"}
    down = "import numpy\nfrom lrpnumpy import packed\nfrom lrpnumpy.kernels import lstm"
    assert not problems(down, "lrpnumpy.passes", modules)
    assert not problems("def f():\n    from lrpnumpy.show import html", "lrpnumpy.result", modules)
    assert not problems("import numba\nfrom . import steps", "lrpnumpy.kernels.lstm", modules)


def test_the_picture_in_architecture_md_has_these_floors():
    """From the top down, one line a floor: the rooms, a bar, what they are for."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    lines = [line.partition("│") for line in text.splitlines() if "│" in line]
    assert [set(rooms.strip().split(", ")) for rooms, _, _ in reversed(lines)] == FLOORS
    assert all(purpose.strip() for _, _, purpose in lines)


def test_importing_the_package_is_cheap():
    code = f"import sys, lrpnumpy; print(*[name for name in {LATE} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_every_package_is_in_setup_cfg():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = set(config["options"]["packages"].split())
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / PACKAGE).rglob("__init__.py")}
    assert listed == folders | {f"{PACKAGE}.weights"}
