"""Note which layers the tests of this folder open; `--opens` writes them into docs/opens.md (see opens.py)."""

import pytest

NOTES = set()


def pytest_addoption(parser):
    parser.addoption("--opens", action="store_true", help="add what is opened to docs/opens.md")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" and report.passed:
        NOTES.update(getattr(item, "opened", ()))


def pytest_sessionfinish(session):
    if NOTES and session.config.getoption("--opens", default=False):
        from interop import opens

        opens.write(NOTES)


@pytest.fixture(autouse=True)
def noted(request, monkeypatch):
    """Note every file and module that the test opens."""
    if not request.config.getoption("--opens", default=False):
        return
    from interop import opens

    import lrpnumpy as lrp
    from lrpnumpy import files
    from lrpnumpy.files.torch import model as torch
    from lrpnumpy.files.torch import modules as torch_modules

    request.node.opened = notes = []
    kinds = set()
    find, load, from_torch = torch.find, files.load, files.from_torch

    def finding(source, paths, described, *more):
        found = find(source, paths, described, *more)
        kinds.update(torch_modules.NAMES.get(module.kind, "Linear") for module in found)
        kinds.update(part.kind for part in (described.parts if described else ()))
        return found

    def loading(path, **said):
        kinds.clear()
        model = load(path, **said)
        notes.extend(opens.of_file(path, set(kinds)))
        return model

    def live(module, **said):
        model = from_torch(module, **said)
        notes.extend(opens.of_module(module))
        return model

    monkeypatch.setattr(torch, "find", finding)
    for place in (lrp, files):
        monkeypatch.setattr(place, "load", loading)
        monkeypatch.setattr(place, "from_torch", live)
