"""The reference: a page in docs/api for each family of public names, written from signatures, docstrings and tables.

`python -m docs.reference` writes the pages, and the build of the site begins with it. A docstring explains a parameter
in a line that begins with its name and a colon ("a, b:" for two), or by its name in backticks. A record explains a
field like this, or by a comment behind it. `tests/project/test_api.py` holds every public name to that.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import lrpnumpy as lrp
from docs.calls import EXAMPLES, SEE_ALSO
from lrpnumpy import corpus, evaluate, laws, ledgers, packed, protocol, result, results, summary, verdict, windows
from lrpnumpy.__main__ import parser
from lrpnumpy.counterfactual import InputChange
from lrpnumpy.evaluate import ranking
from lrpnumpy.files import hints, report
from lrpnumpy.layers import LAYERS, base
from lrpnumpy.methods import METHODS, MethodTable
from lrpnumpy.methods.base import Option
from lrpnumpy.rules import propagation, sums
from lrpnumpy.show import html, latex

FOLDER = Path(__file__).parent / "api"
WIDTH = 100  # of a line of a signature
ENTRY = re.compile(r"([a-z_]\w*|[A-Z]\w{0,2})(, \w+)*:(?= )")  # "x: ", "longest, max_line: ", "Wq: "
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"\*{0,2}([A-Za-z_]\w*)(=.*)?")  # text in backticks is a name, or a name and a value
HEADINGS = {"LRP"}  # short words in capitals that begin a line and are not a parameter
INNER = {  # of models, inputs and embeddings: for the package itself, not for its users
    "described", "expanded", "given_dtype", "main_first", "network", "pad_row", "row_width", "unseen", "used", "wanted",
}  # fmt: skip


class Page(NamedTuple):
    """A page of the reference."""

    title: str
    begins: str
    names: tuple[Any, ...]  # functions and classes, in their order
    prefix: str = "lrp."  # what users write before a name
    made: bool = False  # whether users call its classes; else they get them from a call


def _all(module: Any, *without: Any) -> tuple[Any, ...]:
    found = (getattr(module, name) for name in module.__all__)
    return tuple(one for one in found if callable(one) and one not in without)


PAGES = {
    "explain": Page(
        "Explain",
        "One call for every method; [the methods and their options](methods.md) have a separate page. Examples use "
        '`words`, a text model (`lrp.load("sentiment-2")`), `vowels`, a model of series, `text`, a sentence, and '
        "`series`, a list of arrays.",
        (lrp.explain, lrp.explain_all, lrp.explain_windows, lrp.compare, lrp.decompose, lrp.counterfactual, lrp.methods,
         MethodTable, lrp.cite),
        made=True,
    ),
    "evidence": Page(
        "Evidence",
        "Experiments that test an explanation: [what they show and what they cannot](../concepts/evidence.md).",
        (lrp.evidence, lrp.Evidence, verdict.Experiments, verdict.EvidenceList),
    ),
    "records": Page(
        "Methods as records",
        'A method is a frozen record whose fields are its options; [their names](methods.md), such as "lrp-all", are '
        "short for records.",
        (lrp.LRP, lrp.Gradient, lrp.DeepLIFT, lrp.IntegratedGradients, lrp.Shapley, lrp.Occlusion, lrp.CD, lrp.Method,
         Option),
        made=True,
    ),
    "rules": Page(
        "Rules of LRP",
        "A rule for each layer; `lrp.rules` has the sum rules. [How to choose](../methods/lrp.md#rules-by-layer).",
        (lrp.Rule, sums.Epsilon, sums.Gamma, sums.AlphaBeta, sums.ZPlus, sums.WSquare, sums.Flat, sums.ZBox,
         sums.SumRule),
        made=True,
    ),
    "results": Page(
        "Results",
        "These are the types that functions return. You do not create them yourself, but use their fields and methods.",
        (lrp.Explanation, lrp.InputPart, results.Explanations, windows.Windows, lrp.Comparison, result.TopStep,
         result.Span, result.Hidden, result.Players, result.Mark,
         protocol.InputRows, ledgers.Ledger, ledgers.ReferenceLedger,
         ledgers.SpanLedger, summary.Summary, lrp.Counterfactual,
         InputChange),
    ),
    "models": Page(
        "Models and scores",
        "Networks, their inputs, and their scores.",
        (lrp.Model, lrp.Node, lrp.Input, lrp.Embedding, lrp.Table, lrp.predict, lrp.predict_all, lrp.trace,
         lrp.reconstruction_error),
        made=True,
    ),
    "layers": Page(
        "Layers",
        "Each is a record of arrays and settings; its methods are those of [`Layer`](own.md).",
        tuple(LAYERS.values()),
        made=True,
    ),
    "own": Page(
        "Custom cells and layers",
        "What a cell or a layer must define, and what its methods receive. `lrpnumpy/layers/base.py` begins with a "
        "complete layer; [how to extend](../howto/extend.md) has two cells.",
        (lrp.Cell, lrp.check_cell, laws.CellReport, laws.Law, lrp.Layer, base.Size, base.Ran, packed.Packed,
         packed.Batch, packed.LookedUp, packed.Change, packed.Split, propagation.Propagation, propagation.Entry,
         propagation.back_through_sum, sums.Term),
    ),
    "files": Page(
        "Weight files",
        "Files are read without the frameworks that wrote them, and nothing in a file is executed.",
        (lrp.load, lrp.sample, lrp.save, lrp.inspect, report.Report, lrp.convert, lrp.from_torch, lrp.from_keras,
         lrp.Attribution),
    ),
    "corpora": Page(
        "Corpora",
        "Millions of sequences, in bounded memory, resumable; `lrpnumpy.corpus` has these names.",
        (*_all(corpus),),
    ),
    "evaluate": Page(
        "Evaluate",
        "Which method to trust: `from lrpnumpy import evaluate`.",
        (*_all(evaluate), ranking.Cells, ranking.Column),
        "evaluate.",
    ),
    "plot": Page(
        "Pictures",
        "Explanations as figures of matplotlib; [the gallery](../pictures.md) shows each.",
        _all(lrp.plot),
        "lrp.plot.",
    ),
    "page": Page(
        "A page to explore",
        "One HTML file. The method `page` of results writes it, and `lrpnumpy page` writes it from stored results.",
        (lrp.write_page,),
    ),
    "html": Page(
        "HTML",
        "A page of several explanations and pictures: `from lrpnumpy.show import html`.",
        (html.page,),
        "html.",
    ),
    "latex": Page(
        "LaTeX",
        "Explanations for a paper: `from lrpnumpy.show import latex`.",
        (latex.document, latex.table),
        "latex.",
    ),
    "errors": Page(
        "Errors and warnings",
        "An error describes in one sentence what is wrong. A warning lists assumptions or results that are unreliable.",
        (lrp.LrpError, lrp.WeightFileError, lrp.AssumptionWarning, lrp.RelevanceWarning),
    ),
}  # fmt: skip


# Reading docstrings.


def explained(text: str) -> set[str]:
    """The names that a docstring explains: those that begin a line with a colon, and those in backticks."""
    found = {name for line in text.splitlines() if (entry := ENTRY.match(line)) for name in entry[0][:-1].split(", ")}
    return found - HEADINGS | {name[1] for code in CODE.findall(text) if (name := NAME.fullmatch(code))}


def parameters(function: Any) -> list[str]:
    """The names of what a function takes."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def is_record(one: Any) -> bool:
    """Whether a class is its fields: a frozen dataclass or a named tuple."""
    return inspect.isclass(one) and (dataclasses.is_dataclass(one) or hasattr(one, "_fields"))


@cache
def _source(module: str) -> tuple[list[str], dict[str, ast.ClassDef]]:
    """The lines of a module, and the classes in it."""
    text = inspect.getsource(sys.modules[module])
    return text.splitlines(), {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


@cache
def fields_of(kind: type) -> dict[str, str]:
    """The fields of a record, or the attributes of a class, each with the comment after it or in the line above."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if not one.__module__.startswith("lrpnumpy"):
            continue
        lines, classes = _source(one.__module__)
        tree = classes[one.__name__]
        nodes: list[Any] = [*tree.body]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                nodes += [inner for inner in ast.walk(node) if isinstance(inner, (ast.Assign, ast.AnnAssign))]
        for node in nodes:
            comment = re.search(r"  # (?!type:|fmt:)(.*)", lines[node.end_lineno - 1])
            if comment is None:
                comment = re.match(r" *# (.*)", lines[node.lineno - 2])  # where the line has no room for it: above
            found |= dict.fromkeys(_assigned(node), comment[1] if comment else "")
    if issubclass(kind, lrp.Method) and is_record(kind):  # inherited fields are documented where they are declared
        inherited = {name for name in parameters(kind) if name not in inspect.get_annotations(kind)}
        found |= {name: kind.options()[name].text + "." for name in inherited}
    if is_record(kind):
        return {name: found.get(name, "") for name in parameters(kind)}
    if issubclass(kind, lrp.Cell) and kind is not lrp.Cell:
        return {name: found.get(name, "") for name in kind.field_names()}
    return {name: text for name, text in found.items() if not name.startswith("_") and not name.isupper()}


def _assigned(node: Any) -> Iterator[str]:
    """The names that a statement gives values to: fields of a class, or attributes of self."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self":
                yield one.attr
            elif isinstance(one, ast.Name) and node.col_offset == 4:
                yield one.id


def members(kind: type) -> dict[str, Any]:
    """The methods and properties of a class that users call, also those inherited within the package; for a layer,
    other ways to make it."""
    found: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("lrpnumpy"):
            found |= {name: value for name, value in vars(one).items() if not name.startswith("_")}
    if issubclass(kind, lrp.Layer) and kind is not lrp.Layer:
        inherited = {*vars(base.Record), *vars(lrp.Cell)}
        found = {name: value for name, value in found.items() if name not in inherited}
        found = {name: value for name, value in found.items() if isinstance(value, (classmethod, staticmethod))}
    elif issubclass(kind, base.Record) and kind is not lrp.Layer:
        hidden = {*vars(base.Record), *INNER} - {"astype"}
        found = {name: value for name, value in found.items() if name not in hidden}
    if issubclass(kind, lrp.Method) and kind is not lrp.Method:
        found = {name: value for name, value in found.items() if name not in vars(lrp.Method)}
    kinds = (property, cached_property, classmethod, staticmethod)
    return {name: value for name, value in found.items() if isinstance(value, kinds) or inspect.isfunction(value)}


def function_of(member: Any) -> Any:
    """The function behind a method or a property."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, member)
    return inspect.unwrap(member)


def is_method(member: Any) -> bool:
    """Whether a member is called, and not a property."""
    return not isinstance(member, (property, cached_property))


# What a page shows.


@cache
def pages() -> dict[str, str]:
    """The text of every page by its name."""
    found = {name: _page(page) for name, page in PAGES.items()}
    return {**found, "methods": _methods(), "hints": _hints(), "commands": _commands()}


def _page(page: Page) -> str:
    parts = [f"# {page.title}", page.begins]
    for one in page.names:
        parts += [_class(one, page) if inspect.isclass(one) else _function(one, f"{page.prefix}{one.__name__}")]
    return "\n\n".join(parts) + "\n"


def _function(function: Any, name: str, level: str = "##") -> str:
    doc = inspect.getdoc(function) or ""
    parts = [f"{level} {name.rsplit('.')[-1]}", _signature(name, function), _text(doc)]
    if name in EXAMPLES:
        parts.append(f"Example:\n\n```python\n{EXAMPLES[name].strip()}\n```")
    if name.startswith("lrp.plot.") and name not in SEE_ALSO:
        parts.append(f"See also: [the gallery](../pictures.md#{name.rsplit('.')[-1]}).")
    elif name in SEE_ALSO:
        parts.append(f"See also: {', '.join(map(_related, SEE_ALSO[name]))}.")
    return "\n\n".join(parts)


def _related(one: str) -> str:
    """A link to a function of the same page, or to a page, named by its title."""
    if not one.endswith(".md"):
        return f"[`{one}`](#{one})"
    title = re.search(r"^# (.*)", (FOLDER / one).read_text("utf-8"), re.MULTILINE)
    assert title is not None
    return f"[{title[1]}]({one})"


def _class(kind: type, page: Page) -> str:
    doc = inspect.cleandoc(vars(kind).get("__doc__") or "")
    parts = [f"## {kind.__name__}"]
    if page.made and is_record(kind) and parameters(kind):
        parts.append(_signature(page.prefix + kind.__name__, kind))
    parts.append(_text(doc))
    lines = [f"- **{name}**: {_escaped(text)}" for name, text in fields_of(kind).items() if text]
    for name, member in members(kind).items():
        if not is_method(member):
            lines.append(f"- **{name}**: {_escaped(' '.join((inspect.getdoc(function_of(member)) or '').split()))}")
    if lines:
        parts.append("\n".join(lines))
    methods = {name: function_of(member) for name, member in members(kind).items() if is_method(member)}
    parts += [_function(function, f"{kind.__name__}.{name}", "###") for name, function in methods.items()]
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, function: Any) -> str:
    """A call with names, types and defaults, on one line or with a parameter a line."""
    written, star = [], False
    for one in inspect.signature(function).parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            written.append("*")
            star = True
        star = star or one.kind is one.VAR_POSITIONAL
        mark = {one.VAR_KEYWORD: "**", one.VAR_POSITIONAL: "*"}.get(one.kind, "")  # type: ignore[call-overload]
        kind = one.annotation if isinstance(one.annotation, str) else getattr(one.annotation, "__forward_arg__", "Any")
        default = one.default
        if default is one.empty or callable(default):
            shown = ""
        else:
            shown = " = {}" if "factory" in repr(default) else f" = {default!r}"
        written.append(f"{mark}{one.name}: {kind}{shown}")
    returns = inspect.signature(function).return_annotation
    arrow = f" -> {returns}" if isinstance(returns, str) and returns != "None" else ""
    line = f"{name}({', '.join(written)}){arrow}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in written) + f"){arrow}"
    return f"```text\n{line}\n```"


def _text(doc: str) -> str:
    """A docstring as Markdown: entries become a list, what is indented a block of code."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", doc):
        lines = block.splitlines()
        if lines and all(line.startswith(("    ", ">>>", "...")) for line in lines):
            code = inspect.cleandoc(block)
            previous = out.pop() if out and out[-1].startswith("```") else ""
            language = "text"  # not "python": tests run such blocks
            out.append(f"{previous[:-3]}\n{code}\n```" if previous else f"```{language}\n{code}\n```")
            continue
        paragraph: list[str] = []
        for line in lines:
            entry = ENTRY.match(line)
            if entry and not set(entry[0][:-1].split(", ")) & HEADINGS:
                names = ", ".join(f"**{name}**" for name in entry[0][:-1].split(", "))
                paragraph.append(f"- {names}:{_escaped(line[entry.end() :])}")
            else:
                paragraph.append(("  " if line.startswith(" ") else "") + _escaped(line.strip()))
        out.append("\n".join(paragraph))
    return "\n\n".join(out)


def _escaped(text: str) -> str:
    """A text with escaped signs; text in backticks is code."""
    plain = [re.sub(r"([\\*_\[\]<>${}|#])", r"\\\1", part) for part in CODE.split(text)[::2]]
    code = [f"`{part}`" for part in CODE.findall(text)]
    return "".join(part for pair in zip(plain, [*code, ""], strict=True) for part in pair)


def _methods() -> str:
    parts = ["# Methods and their options", "`lrp.methods()` returns this table; `lrp.cite` prints the papers."]
    for method in METHODS.values():
        facts = {
            "cost": method.cost,
            "adds up to": method.conserves,
            "a value for each feature": method.feature_relevance,
        }
        lines = [f"## {method.name}", _escaped(f"{method.description}. {method.paper}")]
        lines.append("\n".join(f"- {name}: {_escaped(fact)}" for name, fact in facts.items()))
        lines.append(f"The record is [`lrp.{type(method).__name__}`](records.md).")
        rows = [f"- **{name}** = `{one.default!r}`: {_escaped(one.text)}." for name, one in method.options().items()]
        parts += [*lines, "\n".join(["Options:", "", *rows]) if rows else "It has no options."]
    return "\n\n".join(parts) + "\n"


def _hints() -> str:
    begins = (
        "# Hints\n\nModel hints provide what a weight file does not store: arguments of `load`, `inspect`, "
        "`convert`, `from_torch` and `from_keras`, and flags of the command line.\n\n"
    )
    rows = [f"- **{name}**: {_escaped(one.metadata['text'])}." for name, one in hints.known().items()]
    return begins + "\n".join(rows) + "\n"


def commands() -> dict[str, argparse.ArgumentParser]:
    """The commands of the program by name."""
    (sub,) = [one for one in parser()._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(sub.choices)


def flags(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes, but for its help."""
    return [one for one in command._actions if not isinstance(one, argparse._HelpAction)]


def _commands() -> str:
    parts = ["# The command line", "`lrpnumpy COMMAND --help` prints the same."]
    for name, command in commands().items():
        parts += [f"## lrpnumpy {name}", _escaped(command.description or "")]
        rows = []
        for one in flags(command):
            called = ", ".join(one.option_strings) or str(one.metavar or one.dest)
            text = command._get_formatter()._expand_help(one) if one.help else ""
            rows.append(f"- **`{called}`**: {_escaped(text)}")
        parts.append("\n".join(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def write(folder: Path = FOLDER) -> None:
    """Write every page whose text has changed."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
