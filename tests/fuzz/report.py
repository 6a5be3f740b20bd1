"""The figures of a run: a table for the terminal, and the section of a page.

python -m tests.fuzz.report docs/security.md --figures figures.json --faults faults.json
"""

import argparse
import json
import os
import platform
import re
import time
from collections import Counter
from pathlib import Path

import lrpnumpy as lrp

BEGIN, END = "<!-- figures of tests.fuzz begin -->", "<!-- figures of tests.fuzz end -->"
TITLE = "## What the fuzzer found"
OUTCOMES = ("result", "error")
KINDS = ("exception", "crash", "hang", "slow", "memory")


def about(cases, options, done, counts, failures, seconds):
    """Everything that is known of a run, as plain JSON."""
    bad = Counter((name, kind) for _, name, kind in failures)
    return {
        "version": lrp.__version__, "date": time.strftime("%Y-%m-%d", time.gmtime()), "seed": cases.number,
        "cases": done, "seconds": round(seconds), "workers": options.workers, "cores": os.cpu_count(),
        "python": platform.python_version(), "files": sum(map(len, cases.seeds.values())),
        "formats": {
            name: dict(zip(OUTCOMES, counts[name], strict=True)) | {kind: bad[name, kind] for kind in KINDS}
            for name in cases.formats
        },
    }  # fmt: skip


def _rows(figures):
    for name, one in figures["formats"].items():
        yield (
            name,
            sum(one[k] for k in ("result", "error", "exception", "crash", "hang")),
            one["result"],
            one["error"],
            *(one[kind] for kind in KINDS),
        )


def _heading(figures):
    total = Counter()
    for one in figures["formats"].values():
        total.update({kind: one[kind] for kind in KINDS})
    bad = ", ".join(f"{total[kind]} {kind}" for kind in KINDS)
    rate = figures["cases"] / max(1, figures["seconds"])
    return (
        f"{figures['cases']:,} cases (seed {figures['seed']}) in {figures['seconds']:,} s with "
        f"{figures['workers']} workers on {figures['cores']} cores, {rate:.0f} per second; failures: {bad}"
    )


def table(figures):
    """For the terminal."""
    rows = [("format", "cases", "result", "error", *KINDS), *(tuple(map(str, row)) for row in _rows(figures))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append("  ".join((first.ljust(widths[0]), *numbers)))
    return "\n".join([*lines, _heading(figures)])


def merged(several):
    """The figures of runs that were done side by side, each of its own cases of one seed."""
    first, *others = several
    out = {**first, "formats": {name: dict(one) for name, one in first["formats"].items()}}
    for one in others:
        if (one["seed"], one["version"]) != (out["seed"], out["version"]):
            raise SystemExit("figures must be of one seed and one version to be added up.")
        out |= {"cases": out["cases"] + one["cases"], "workers": out["workers"] + one["workers"]}
        out["seconds"] = max(out["seconds"], one["seconds"])
        for name, counts in one["formats"].items():
            for kind, count in counts.items():
                out["formats"][name][kind] += count
    return out


FOUND = """\
`make fuzz` damages {files} valid files and texts of all formats in the table, and opens each of them: the result must
be a model, an explanation or an `LrpError`. Most damage is targeted: values of JSON, lists and sizes of zip archives,
instructions of pickles, fields of ONNX; messages, trees and heaps of HDF5, with corrected checksums. A fifth of the
damage is random. Each run prints a fresh seed; `--seed` and `--case` repeat a case. A crash, 300 seconds of silence,
2.5 seconds of processor time or 350 MB of memory is a failure.

It found these faults in this version: half of the damaged rankings and ranking states raised Python exceptions; parts
of an interrupted run whose arrays had become dates raised an exception of the HDF5 library, and a changed note in them
was accepted; a `.npy` file with a broken header showed a traceback on the command line, and so did JSON with 100,000
brackets; an explanation file whose ledger had no steps could be read but not shown. The million cases below still found
two faults: NumPy took seconds to read a damaged `.npy` header of 4 kB and 20 s for 9 kB (lrpnumpy now parses headers
itself), and the brackets of JSON of 200 MB were counted only after it was in memory twice. These are the four failures
in the table, and they pass now. All of these faults are fixed, and all but the last have a test in `tests/attacks/`."""

FAULTED = """\
`python -m tests.faults` kills work at a random line or moment, removes its disk, home and memory, and compares the
result with an undisturbed run, bit for bit: nothing was lost and nothing was wrong. Earlier runs found three faults: a
page was replaced in place, so a full disk left half of it; the state of a ranking was rewritten at each start, so a
kill at that moment lost it; and with `ulimit -v` no file could be read in a separate process."""


def section(figures):
    """The figures of the fuzzer in Markdown."""
    lines = [
        FOUND.format(files=figures["files"]),
        "",
        f"lrpnumpy {figures['version']}, Python {figures['python']}, {figures['date']}: {_heading(figures)}.",
        "",
        f"| format | cases | result | error | {' | '.join(KINDS)} |",
        f"| --- |{' ---: |' * (3 + len(KINDS))}",
        *(f"| {row[0]} | {' | '.join(f'{n:,}' for n in row[1:])} |" for row in _rows(figures)),
    ]
    return "\n".join(lines)


def faults_section(seen):
    """What the faults came to, in Markdown."""
    lines = [FAULTED, "", "| work | kill -9 | repeated or resumed | full disk |", "| --- | ---: | ---: | --- |"]
    for key, one in seen.items():
        if key.startswith("kills: "):
            name = key.removeprefix("kills: ")
            disk = Counter(seen[f"disk: {name}"].values())
            fits = f", {disk['done']} times it fit" if disk["done"] else ""
            lines.append(f"| {name} | {one['kills']} | {one['finished']} | {disk['error']} times an error{fits} |")
    lines += ["", "| address space (`ulimit -v`) | " + " | ".join(("explain", "corpus")) + " |", "| ---: | --- | --- |"]
    memory = seen["memory"]
    for limit in dict.fromkeys(key.split(", ")[1] for key in memory):
        cells = (memory[f"{name}, {limit}"].partition(":")[0] for name in ("explain", "corpus"))
        lines.append(f"| {limit} | {' | '.join(cells)} |")
    difference = seen["home"]["difference"]
    same = "identical bits" if difference == 0 else f"results that differ by {difference:.0e}"
    lines += [
        "",
        f"With a read-only home and installation, a sentence and a corpus are explained with {same}. Exit 2 is an "
        "`LrpError`; exit 1 is Python or NumPy, which cannot start with so little memory.",
    ]
    return "\n".join(lines)


def write_section(path, figures, seen=None):
    """Put the figures into a page, between two marks; where these are missing, as a section that is the last one."""
    text = path.read_text("utf-8")
    parts = [section(figures), *([f"### Faults of the machine\n\n{faults_section(seen)}"] if seen else [])]
    content = f"{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}"
    if BEGIN in text:
        text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: content, text, flags=re.S)
    else:
        text = f"{text.partition(TITLE)[0].rstrip()}\n\n{TITLE}\n\n{content}\n"
    path.write_text(text, "utf-8")


def main():
    """Write what was found into a page."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.report", description=main.__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="of tests.fuzz; several are added up")
    parser.add_argument("--faults", type=Path, help="figures of tests.faults")
    options = parser.parse_args()
    figures = merged([json.loads(path.read_text()) for path in options.figures])
    write_section(options.page, figures, options.faults and json.loads(options.faults.read_text()))


if __name__ == "__main__":
    main()
