"""Every public name, parameter, field, option and flag is explained by its docstring, and stands in the reference once.

docs/reference.py says how a docstring explains a parameter, and writes the pages.
"""

import builtins
import inspect
import keyword
import re
import sys
from collections import Counter

import pytest

import lrpnumpy as lrp
from docs import calls, reference
from docs.reference import PAGES, explained, fields_of, function_of, is_method, is_record, members, parameters
from lrpnumpy import corpus, evaluate
from lrpnumpy.files import hints
from lrpnumpy.methods import METHODS, all_options

NAMES = [one for page in PAGES.values() for one in page.names]
MADE = {one for page in PAGES.values() if page.made for one in page.names}
# Types of the machinery that results carry along, and which a user of the result has no use for.
INSIDE = {"Record", "Request", "Columns", "Encoded", "Keep", "Cell", "Activation"}


def public(module):
    return {getattr(module, name) for name in module.__all__ if callable(getattr(module, name))}


def returned(one):
    """The classes of ours that a function or the methods and properties of a class return."""
    functions = [one] if not inspect.isclass(one) else [function_of(member) for member in members(one).values()]
    for function in functions:
        written = inspect.signature(function).return_annotation
        for name in re.findall(r"[A-Z]\w+", written if isinstance(written, str) else ""):
            found = getattr(sys.modules[function.__module__], name, None)
            if inspect.isclass(found) and found.__module__.startswith("lrpnumpy") and name not in INSIDE:
                yield found


def callables():
    """Every function and method that users call."""
    for one in NAMES:
        if not inspect.isclass(one):
            yield one
        else:
            yield from (function_of(member) for member in members(one).values() if is_method(member))


# Names that a docstring may put in backticks, besides the parameters of its own.
KNOWN = (
    {name for one in NAMES if inspect.isclass(one) for name in [*members(one), *fields_of(one)]}
    | {one.__name__ for one in NAMES}
    | {*hints.known(), *all_options(), *METHODS, *dir(builtins), *keyword.kwlist, "lrpnumpy", "plot"}
)


def problems(doc, names, known=frozenset()):
    """What is wrong with a docstring of something that has these parameters or fields."""
    said = explained(doc)
    entries = {name for name in said if re.search(rf"^([\w, ]+, )?{name}(, [\w, ]+)?: ", doc, re.MULTILINE)}
    found = [f"does not explain {name}" for name in names if name not in said]
    found += [f"explains {name}, which is no parameter" for name in sorted(entries - {*names})]
    found += [f"names `{name}`, which is not known" for name in sorted(said - entries - {*names} - KNOWN - known)]
    return found if doc else ["has no docstring"]


@pytest.mark.parametrize("function", [*dict.fromkeys(callables())], ids=lambda function: function.__qualname__)
def test_a_docstring_explains_what_its_function_takes(function):
    assert problems(inspect.getdoc(function) or "", parameters(function)) == []


@pytest.mark.parametrize("kind", [one for one in NAMES if inspect.isclass(one)], ids=lambda kind: kind.__name__)
def test_a_class_explains_its_fields(kind):
    doc = inspect.cleandoc(vars(kind).get("__doc__") or "")
    fields = fields_of(kind)
    open_ = [name for name, comment in fields.items() if not comment]
    assert [one for one in problems(doc, open_, {*fields}) if not any(one.split()[1] == f + "," for f in fields)] == []
    for name, member in members(kind).items():
        assert is_method(member) or inspect.getdoc(function_of(member)), f"{kind.__name__}.{name} has no docstring"


def test_the_check_sees_what_is_wrong():
    assert problems("", []) == ["has no docstring"]
    assert problems("Adds.\n\na: one.", ["a", "b"]) == ["does not explain b"]
    assert problems("Adds `a` and `explain`.\n\nc, d: two.", ["a", "d"]) == ["explains c, which is no parameter"]
    assert problems("Adds `a` and `nonsense`.", ["a"]) == ["names `nonsense`, which is not known"]


def test_every_public_name_stands_on_one_page():
    assert [name for name, count in Counter(NAMES).items() if count > 1] == []
    missing = (public(lrp) | public(lrp.plot) | public(evaluate) | public(corpus)) - {*NAMES}
    assert sorted(one.__name__ for one in missing) == []


def test_what_a_public_call_returns_is_explained():
    missing = {found.__name__ for one in NAMES for found in returned(one)} - {one.__name__ for one in NAMES}
    assert sorted(missing) == []


def test_every_option_hint_command_and_flag_stands_in_the_reference():
    pages = reference.pages()
    for method in METHODS.values():
        (own,) = re.findall(rf"^## {method.name}\n(.*?)(?=^## |\Z)", pages["methods"], re.MULTILINE | re.DOTALL)
        for name, one in method.options().items():
            assert f"**{name}** = `{one.default!r}`" in own and one.text and one.text[:20] in own.replace("\\", "")
    for name in hints.known():
        assert f"- **{name}**: " in pages["hints"]
    for name, command in reference.commands().items():
        (own,) = re.findall(rf"^## lrpnumpy {name}\n(.*?)(?=^## |\Z)", pages["commands"], re.MULTILINE | re.DOTALL)
        assert command.description
        for one in reference.flags(command):
            assert one.help, f"{name} {one.dest} must have a help text"
            assert f"{', '.join(one.option_strings) or one.metavar or one.dest}`" in own


def test_every_name_has_its_heading():
    pages = reference.pages()
    for name, page in PAGES.items():
        for one in page.names:
            assert f"\n## {one.__name__}\n" in pages[name]
            for member in members(one) if inspect.isclass(one) else ():
                assert re.search(rf"^(### |- \*\*){member}\b", pages[name], re.MULTILINE)
            for field in fields_of(one) if inspect.isclass(one) else ():
                assert re.search(rf"\b{field}\b", pages[name])


FUNCTIONS = [
    f"{page.prefix}{one.__name__}" for page in PAGES.values() for one in page.names if not inspect.isclass(one)
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_an_example_that_runs(name, tmp_path, monkeypatch, shared_setup):
    monkeypatch.chdir(tmp_path)
    exec(compile(calls.EXAMPLES[name], name, "exec"), dict(shared_setup))
    assert name in calls.SEE_ALSO or name.startswith("lrp.plot.")


@pytest.fixture(scope="module")
def shared_setup():
    names: dict[str, object] = {}
    exec(calls.SETUP, names)
    return names


def test_records_that_users_make_show_their_call():
    assert {lrp.Model, lrp.LSTM, lrp.Rule, lrp.Input} <= {kind for kind in MADE if is_record(kind)}
    call = "lrp.Dense(V: np.ndarray, d: np.ndarray | None = None, activation: str = 'linear')"
    assert call in reference.pages()["layers"]


def test_the_index_lists_every_page():
    listed = (reference.FOLDER / "index.md").read_text("utf-8").split("```")[1].split("\n\n")[1].split()
    assert sorted(listed) == sorted(reference.pages())
