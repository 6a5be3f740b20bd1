"""Text that is meant to keep a pattern busy: every tokenizer and every regular expression is linear in its input."""

import ast
import re
import time
from pathlib import Path

import pytest

import lrpnumpy
from lrpnumpy.files import hints
from lrpnumpy.text import tokens

LENGTH = 1 << 17
SECONDS = 5  # of the processor; the slowest takes about 0.2, a quadratic one takes minutes
PACKAGE = Path(lrpnumpy.__file__).parent

# What is repeated, and what comes after it and makes a long match fail.
TREEBANK = {
    "backslashes": ("\\", ""),
    "escaped slashes": ("\\/", ""),
    "quotes": ('"', ""),
    "quotes between blanks": ('a " ', ""),
    "apostrophes": ("'", ""),
    "digits after an apostrophe": ("1", "a"),
    "dots between blanks": (". ", ""),
    "an abbreviation that goes on": ("a.", "b"),
    "commas and digits": ("1,", ""),
    "a chain of n't": ("n't", "x"),
    "letters without a blank": ("a", ""),
    "hyphens": ("a-", ""),
    "signs before no number": ("-.", ""),
    "names of brackets": ("-LR", ""),
    "accents in the wrong order": ("\u0315\u0300", ""),
    "dashes": ("—", ""),
}


def seconds(work, *arguments):
    began = time.process_time()
    work(*arguments)
    return time.process_time() - began


@pytest.mark.parametrize("name", TREEBANK)
def test_long_text_for_the_treebank_tokenizer(name):
    part, end = TREEBANK[name]
    text = "'" * (name == "digits after an apostrophe") + part * (LENGTH // len(part)) + end
    assert seconds(tokens, text, "treebank") < SECONDS


@pytest.mark.parametrize("tokenizer", ["space", "keras", "keras-tokenizer"])
def test_long_text_for_the_other_tokenizers(tokenizer):
    for part in ("a", " ", "'Σ", "\u0130"):
        assert seconds(tokens, part * (LENGTH // len(part)), tokenizer) < SECONDS


def test_lists_and_messages_of_the_command_line():
    for part in (",", "(,", "a,(", "layers=[", "layers='"):
        text = part * (LENGTH // len(part))
        assert seconds(hints.listed, text) < SECONDS
        assert seconds(hints.as_flags, text) < SECONDS
    assert hints.listed("conv(3, stride=1), lstm,fc") == ["conv(3, stride=1)", "lstm", "fc"]


def patterns():
    """Every regular expression of the package that stands there as it is, with where that is."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (f"re.{name}" for name in FUNCTIONS):
                if isinstance(node.args[0], ast.Constant):
                    yield path.relative_to(PACKAGE).as_posix(), node.args[0].value
                else:
                    assert path.name in MADE, f"{path}: a pattern that is put together needs a test of its own"


FUNCTIONS = ("compile", "sub", "match", "search", "split", "findall", "fullmatch", "finditer")
# Of the last two, one has a place of the model's own in it and bounded numbers, the other looks at one character.
MADE = {"text.py", "hints.py", "hydrology.py", "export.py"}
RUNS = ("\\", ",", "(", "'", "_1", "1.", "aA", "[")


def test_every_pattern_on_long_text():
    found = dict.fromkeys(patterns())
    assert len(found) > 10
    for where, pattern in found:
        for part in RUNS:
            text = part * (LENGTH // len(part)) + "\n"
            for work in (re.compile(pattern).fullmatch, lambda text, p=pattern: re.sub(p, "", text)):
                used = seconds(work, text)
                assert used < SECONDS, f"{where}: {pattern} takes {used:.1f} s for a long run of {part!r}"
