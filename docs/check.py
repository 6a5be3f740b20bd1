"""Walk the built site: every link leads somewhere, nothing is fetched from elsewhere, and what people want is near.

Run with: python -m docs.check docs/_build/html
"""

from __future__ import annotations

import re
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from docs import shown

FIRST = "docs/index.html"
OUTPUT = re.compile(r'<div class="cell_output[^>]*>(.*?)</pre>', re.DOTALL)  # text that a cell printed
CLICKS = 3

# What people want to do: the words of a link that leads there, and words that the section behind it must have.
TASKS = {
    "open a Keras file": ("a Keras file", ("lrp.load(", ".keras", "from_keras")),
    "open a PyTorch file": ("a PyTorch file", ("lrp.load(", ".pt", "from_torch")),
    "open an ONNX file": ("an ONNX file", ("exporter", "Recurrent layers")),
    "explain a sentence": ("a sentence", ("lrp.explain(", "lrpnumpy explain")),
    "explain a window": ("a window of a series", ("lrp.explain(", "explain_windows")),
    "explain a data set": ("a data set", ("summary", "explain_corpus")),
    "choose a method": ("a method", ("lrp-all", "rank_methods", "--method")),
    "choose a class": ("a class", ("target=", "versus=")),
    "choose a reference": ("a reference", ("reference=", "usual inputs")),
    "read the ledger": ("read the ledger", ("biases", "stabilizer", "e.ledger.total")),
    "rank methods": ("rank methods", ("rank_methods", "lrpnumpy evaluate")),
    "run a corpus": ("run a corpus", ("explain_corpus", "open_explanations", "lrpnumpy corpus")),
    "run a corpus on Dask": ("run it on Dask", ("Client", "explain_bag")),
    "compile ahead": ("compile ahead", ("lrpnumpy compile", "LRPNUMPY_COMPILE")),
    "save and share": ("save and share", ("to_json", "html.page", "lrp.save", "savefig")),
    "add a rule": ("add a rule", ("lrp.Rule(", "gate")),
    "add a layer": ("add a layer", ("def forward", "def backward")),
    "what a method computes": ("what a method computes", ("adds up to", "cost", "integrated-gradients")),
    "how fast": ("how fast", ("torch", "of the limit")),
    "install": ("Install", ("pip install", "GPU")),
    "SHAP values of an LSTM": ("SHAP values for an LSTM that add up", ("reference=", "deeplift")),
    "find the sensor of an alarm": ("Which sensor made the alarm", ("reconstruction_error",)),
    "explain every step": ("Explain every step", ('step="all"',)),
    "several inputs": ("Several inputs and static features", ("steps=False",)),
    "long windows": ("Long windows", ("deeplift", "summary.half")),
    "first steps of a series": ("Why is the first step so important", ("Evidence: fails",)),
    "patents": ("license and patents", ("not legal",)),
    "security": ("security", ("isolate=True", "WeightFileError")),
}

# What people search for who know other libraries.
SEARCHED = (
    "attribution", "saliency", "shap", "heatmap", "install", "gpu", "license", "patent", "transformer", "baseline",
    "captum", "xai", "logit",
)  # fmt: skip


class Link(NamedTuple):
    """Where a link leads: a page below the top of the site, and an anchor in it."""

    page: str
    anchor: str


class Page(HTMLParser):
    """What one page has: links, what it fetches, and its text with where each anchor's element begins and ends."""

    VOID = frozenset(
        {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
    )

    def __init__(self, name: str, html: str) -> None:
        super().__init__()
        self.name = name
        self.hrefs: list[tuple[str, int]] = []  # with where the text of the link begins
        self.ends: list[int] = []  # where that of each link ends
        self.fetched: list[str] = []
        self.sections: dict[str, tuple[int, int]] = {}  # anchor: where its element begins and ends in `said`
        self.said: list[str] = []  # texts, and tags of pictures and formulas
        self._open: list[tuple[str, list[str], int]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links, what is fetched, and which anchors begin."""
        found = {key: value or "" for key, value in attrs}
        if tag == "a" and "href" in found:
            self.hrefs.append((found["href"], len(self.said)))
        elif tag in ("img", "script", "iframe", "source") and "src" in found:
            self.fetched.append(found["src"])
        elif tag == "link" and {"stylesheet", "icon", "preload"} & set(found.get("rel", "").split()):
            self.fetched.append(found["href"])
        if tag in ("img", "math"):
            self.said.append(f"<{tag}>")
        anchors = [found[key] for key in ("id", "name") if found.get(key) and (key == "id" or tag == "a")]
        if tag in self.VOID:
            self.sections.update({anchor: (len(self.said), len(self.said)) for anchor in anchors})
        else:
            self._open.append((tag, anchors, len(self.said)))

    def handle_endtag(self, tag: str) -> None:
        """Close the element, and those inside it that close themselves."""
        if tag == "a":
            self.ends += [len(self.said)] * (len(self.hrefs) - len(self.ends))
        if tag not in (one for one, *_ in self._open):
            return
        while self._open:
            name, anchors, start = self._open.pop()
            self.sections.update({anchor: (start, len(self.said)) for anchor in anchors})
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        """Text."""
        self.said.append(data)

    def text(self, anchor: str = "") -> str:
        """The text of a section, or of the article; an empty anchor inside a section means that section."""
        start, end = self.sections[anchor] if anchor else self.sections.get("furo-main-content", (0, len(self.said)))
        if end - start < 2 and anchor:  # an empty target before a heading
            start, end = min(
                (s for s in self.sections.values() if s[0] <= start and s[1] - s[0] > 5), key=lambda s: s[1] - s[0]
            )
        return "".join(self.said[start:end])

    def links(self) -> list[tuple[Link, str]]:
        """Links to other places of the site, each with its text."""
        found = []
        for (href, start), end in zip(self.hrefs, self.ends, strict=True):
            parts = urlsplit(href)
            if not parts.scheme and not parts.netloc:
                path = Path("/", self.name).parent / unquote(parts.path) if parts.path else Path("/", self.name)
                said = "".join(self.said[start:end]).strip()
                found.append((Link(_plain(path), unquote(parts.fragment)), said))
        return found


def _plain(path: Path) -> str:
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def read(folder: Path) -> dict[str, Page]:
    """All pages of a site by their path."""
    files = (path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts)
    return {
        name: Page(name, path.read_text("utf-8")) for path in files if (name := path.relative_to(folder).as_posix())
    }


def broken(folder: Path, pages: dict[str, Page]) -> list[str]:
    """Links that lead nowhere, and files that would be fetched from elsewhere."""
    wrong = []
    for page in pages.values():
        for link, _ in page.links():
            if link.page in pages:
                if link.anchor and link.anchor not in pages[link.page].sections:
                    wrong.append(f"{page.name}: no #{link.anchor} in {link.page}")
            elif not (folder / link.page).is_file():
                wrong.append(f"{page.name}: no page {link.page}")
        wrong += [f"{page.name}: fetches {one}" for one in page.fetched if urlsplit(one).netloc]
    return wrong


def clicks(pages: dict[str, Page], first: str = FIRST) -> dict[Link, tuple[int, list[str]]]:
    """How many clicks each place is away from the first page, up to `CLICKS`, and the texts of the links to it."""
    far: dict[Link, tuple[int, list[str]]] = {Link(first, ""): (0, [])}
    queue = deque(far)
    while queue:
        here = queue.popleft()
        count = far[here][0]
        if count < CLICKS and here.page in pages:
            for link, said in pages[here.page].links():
                if link not in far:
                    far[link] = (count + 1, [])
                    queue.append(link)
                far[link][1].append(said)
    return far


def unreachable(
    pages: dict[str, Page], wanted: dict[str, tuple[str, tuple[str, ...]]], first: str = FIRST
) -> list[str]:
    """Tasks that no link within reach leads to; a place with an anchor is the section that the anchor names."""
    places = [
        (said, pages[link.page].text(link.anchor))
        for link, (_, said) in clicks(pages, first).items()
        if link.page in pages and (not link.anchor or link.anchor in pages[link.page].sections)
    ]
    return [
        f"{task}: no link {called!r} within {CLICKS} clicks leads to {', '.join(words)}"
        for task, (called, words) in wanted.items()
        if not any(any(called in one for one in said) and all(w in text for w in words) for said, text in places)
    ]


def wanted() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The tasks above, each picture, each method and each layer."""
    from lrpnumpy.layers import LAYERS
    from lrpnumpy.methods import METHODS
    from lrpnumpy.show import plot

    pictures = {f"draw {name}": (f"plot.{name}(", (f"lrp.plot.{name}(", "<img>")) for name in plot.__all__}
    methods = {
        f"what {name} computes": (name, ("<math>", "When it fails", method.paper.split()[0]))
        for name, method in METHODS.items()
    }
    return TASKS | pictures | methods | {f"what {name} computes": ("", (name, "LRP")) for name in LAYERS}


def unsearchable(pages: dict[str, Page]) -> list[str]:
    """Words that people search for, and that no page has."""
    texts = [page.text().lower() for page in pages.values()]
    return [f"a search for {word!r} finds nothing" for word in SEARCHED if not any(word in text for text in texts)]


def unshowable(folder: Path) -> list[str]:
    """Outputs of notebooks with a NaN or a warning of NumPy."""
    wrong = []
    for path in sorted(folder.rglob("*.html")):
        for output in OUTPUT.findall(path.read_text("utf-8")):
            if shown.NAN.search(output) or "RuntimeWarning" in output:
                wrong.append(f"{path.relative_to(folder)}: an output shows nan or a NumPy warning: {output[:200]!r}")
    return wrong


def main(folder: Path) -> int:
    """Report what is wrong; 1 if anything is."""
    pages = read(folder)
    wrong = broken(folder, pages) + unreachable(pages, wanted()) + unsearchable(pages) + unshowable(folder)
    for line in wrong:
        print(line, file=sys.stderr)
    links = sum(len(page.links()) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(wanted())} tasks: {len(wrong) or 'nothing'} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
