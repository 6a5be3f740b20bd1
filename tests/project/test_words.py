"""The text that people read is plain English: none of the phrases below, except those with a reason.

It reads the pages of text, the package with its errors, help texts, docstrings and comments, the scripts of its pages,
examples, benchmarks and the help of the Makefile. CONTRIBUTING.md has the style on one page.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNT = r"(?:one|two|three|four|five|six|eight|ten|\d[\d,.]*)"
COUNTED = (
    r"(?:number|value|score|row|line|array|file|time|thread|bar|dot|panel|column|entry|vector|message|pass|memory)"
)
PREPOSITION = (
    r"(?:of|in|with|that|is|for|and|or|through|as|to|from|by|without|at|on|if|than|are|has|was|into|per|which)"
)
UNIT = (
    r"(?:word|step|feature|variable|class|layer|sequence|sentence|record|row|column|line|file|batch|block|thread|process|"
    r"node|window|day|month|second|minute|method|network|model|gate|unit|token|value|cell|call|part|group|section|page|run)"
)

# What must not be written, and what to write instead. A space also matches the end of a line or of a string.
PATTERNS = {
    rf"\b{COUNT} (?:(?!{PREPOSITION}\b)[\w-]+ )?(?!{PREPOSITION}\b)[\w-]+ an? {UNIT}\b": "one value per word",
    rf"\b{COUNTED}s? an? {UNIT}\b": "one value per word",
    r"\bof (?:yours|ours|theirs|(?:his|her|its|their|one's|your|our) own)\b": "your own, custom, built-in",
    r"\bstands?\b|\bstood\b": "is, means",
    r"(?<!there\s)\b(?:is|are|was|were) no\b(?! (?:longer|better|worse|more|less|larger|smaller)\b)": "is not a",
    r"\bmust get\b": "what is wrong; what was given; what to do",
    r"\bspeaks?\b": "supports, contradicts, describes",
    r"\bsays (?=[\w`])|\bsays[.;]": "is, means, shows, describes",  # not a variable of this name
    r"\bgets\b": "receives, has, becomes",
    r"\bthe way back\b|\b(?:sends?|sent) back\b": "backward pass, is propagated",
    r"\bwhat (?:is|was|were|are) (?:asked|said|kept|wanted)\b": "the request, the options, the result",
    r"\bwhat arrives\b|\bwhat comes back\b": "the incoming relevance, the result",
    r"\b(?:that|not) ships?\b|\bships? with\b|\b(?:a|the|of|with) shipped\b|\bbrought by\b": "bundled, installed with",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\ba hole\b": "a vulnerability",
    r"\bso many\b": "N",
    r"\bdear(?:er|est)\b": "more expensive, the most expensive",
    r"\bknown here\b|\bis known of\b": "supported",
    r"\bPress on\b|\bpull over\b": "Click, drag across",
    r"\bfor free\b": "at no extra cost",
    r"\bto look at twice\b": "treat with caution",
    r"\bof them computing\b": "39 ms",
    r"\bfrom strangers\b": "untrusted files",
    r"normalis|colour|stabilis|randomis|generalis|summaris|optimis|initialis|recognis|behaviour|neighbour|favour": (
        "American spelling"
    ),
}
COMPILED = [(re.compile(p.replace(" ", " +").lower()), better) for p, better in PATTERNS.items()]
BREAK = re.compile(r"""["']?\s*\n\s*(?:(?://|\#|\*|>)[ ]|f?["'])?""")  # the end of a line, of a comment or of a string

# What may be written all the same: the text around the phrase, and the reason.
ALLOWED = {
    "randomisation": "the name of a measure that users pass to rank_methods; renaming it would break their calls",
}

PAGES = ("README", "CONTRIBUTING", "ARCHITECTURE", "SECURITY", "CHANGELOG")
KINDS = (".md", ".py", ".js", ".html", ".css")
MADE = ("_build", "api")  # folders that `make docs` writes, from docstrings
TEXT = [*(ROOT / f"{name}.md" for name in PAGES), ROOT / "weights" / "README.md", ROOT / "Makefile"]
for folder in ("docs", "benchmarks", "examples", "lrpnumpy"):
    found = (path for path in (ROOT / folder).rglob("*") if path.suffix in KINDS)
    TEXT += [path for path in found if not set(MADE) & set(path.parts)]

STYLE_TABLE = re.compile(r"^\| instead of \| write \|\n(?:\|.*\n)+", re.MULTILINE)  # it quotes what not to write


def faults(text):
    """The phrases of the table above in a text: line, phrase, and what to write instead."""
    text = STYLE_TABLE.sub(lambda table: "".join(" " if c != "\n" else c for c in table[0]), text)
    plain = BREAK.sub(lambda match: " " * len(match[0]), text).lower()
    found = []
    for pattern, better in COMPILED:
        for match in pattern.finditer(plain):
            around = plain[max(0, match.start() - 40) : match.end() + 40]
            if not any(allowed in around for allowed in ALLOWED):
                found.append((text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), better))
    return sorted(found)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in sorted(TEXT)])
def test_the_text_is_plain_english(path):
    found = faults(path.read_text("utf-8"))
    assert not found, "\n".join(f"{path.relative_to(ROOT)}:{line}: {phrase!r}; write: {b}" for line, phrase, b in found)


@pytest.mark.parametrize(
    "text",
    [
        "one number a word",
        "an array of\n# ours",
        'a tokenizer of "\n        "its own',
        "what stands below",
        "this is no number",
        "options must get names",
        "words that speak against it",
        "the way back",
    ],
)
def test_a_fault_is_found(text):
    assert faults(text)


@pytest.mark.parametrize("allowed", ALLOWED)
def test_every_exception_is_needed(allowed):
    assert any(allowed in path.read_text("utf-8") for path in TEXT)
