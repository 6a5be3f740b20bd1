"""The figures of a run: a table for the terminal, and the section of a page."""

import os
import platform
import re
import time
from collections import Counter

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
        f"{figures['workers']} workers on {figures['cores']} cores, {rate:.0f} a second; failures: {bad}"
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


def section(figures):
    """For a page, in Markdown."""
    lines = [
        f"`python -m tests.fuzz --cases {figures['cases']} --seed {figures['seed']}`, lrpnumpy "
        f"{figures['version']}, Python {figures['python']}, {figures['date']}: {_heading(figures)}. A result is a file "
        "that could be opened in spite of its damage, an error is an `LrpError`. Slow is more than 2.5 s of the "
        "processor, memory more than 350 MB.",
        "",
        f"| format | cases | result | error | {' | '.join(KINDS)} |",
        f"| --- |{' ---: |' * (3 + len(KINDS))}",
        *(f"| {row[0]} | {' | '.join(f'{n:,}' for n in row[1:])} |" for row in _rows(figures)),
    ]
    return "\n".join(lines)


def write_section(path, figures):
    """Put the figures into a page, between two marks; where these are missing, at its end with a title."""
    text = path.read_text("utf-8")
    content = f"{BEGIN}\n{section(figures)}\n{END}"
    if BEGIN in text:
        text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: content, text, flags=re.S)
    else:
        text = f"{text.rstrip()}\n\n{TITLE}\n\n{content}\n"
    path.write_text(text, "utf-8")
