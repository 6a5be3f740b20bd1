"""`make coverage`, the last step: which lines of the package no test runs, by name, and why.

    python -m tests.uncovered

reads what the runs of tests have left in `.coverage`, and prints: the places that tests cannot run here, each with its
reason; how many errors about files and arguments no test raises (`make fuzz` raises others); and every other line that
no test runs. It fails where tests run less than 96 % of the lines, where the last list grows, and where tests run all
of a place that `REASONS` names.
"""

import ast
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAST = 96.0  # % of the lines
MOST = 280  # lines that have no reason; lower it when there are fewer

NUMBA = "is Python for Numba alone to read; its results are tested compiled"
REASONS = {  # a file, or a function in it with everything inside
    "kernels/product.py overloads": NUMBA,
    "kernels/product.py add_rows": NUMBA,
    "kernels/product.py add_tile": NUMBA,
    "kernels/product.py _tile_function": NUMBA,
    "kernels/elementary.py _implement": NUMBA,
    "serve/worker.py child": "is another process, which is killed when it is no longer needed",
    "serve/worker.py _take": "is another process, which is killed when it is no longer needed",
}


def statements(source: str) -> tuple[list[tuple[int, int, str]], set[int]]:
    """First and last line and name of every function and class, outer ones first; and the lines that raise errors."""
    found, refusals = [], set()

    def look(node: ast.AST, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{inside}.{child.name}".lstrip(".")
                found.append((child.lineno, child.end_lineno, name))
            if is_refusal(child):
                refusals.update(range(child.lineno, child.end_lineno + 1))
            look(child, name)

    look(ast.parse(source), "")
    return found, refusals


def is_refusal(node: ast.AST) -> bool:
    """`raise …`, `….refuse(…)`, `_fail(…)`, or an `except` that does nothing else."""
    if isinstance(node, ast.ExceptHandler):
        return all(map(is_refusal, node.body))
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return (
        isinstance(node, ast.Raise) or getattr(called, "attr", "") == "refuse" or getattr(called, "id", "") == "_fail"
    )


def reason(place: str) -> str | None:
    """The entry of REASONS that a place belongs to: its own, that of what it is inside of, or that of its file."""
    file, _, name = place.partition(" ")
    parts = name.split(".")
    inside = [f"{file} {'.'.join(parts[:k])}" for k in range(len(parts), 0, -1)]
    return next((one for one in (*inside, file) if one in REASONS), None)


def main() -> int:
    import coverage

    measured = coverage.Coverage(**({"data_file": sys.argv[1]} if sys.argv[1:] else {}))
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        measured.json_report(outfile=f"{folder}/found.json")
        report = json.loads(Path(folder, "found.json").read_text("utf-8"))
    named, refused, others = Counter(), Counter(), {}
    for path, about in report["files"].items():
        file = Path(path).relative_to("lrpnumpy").as_posix()
        known, refusals = statements((ROOT / path).read_text("utf-8"))
        for line in about["missing_lines"]:
            place = " ".join([file, *[name for first, last, name in known if first <= line <= last][-1:]])
            if (found := reason(place)) is not None:
                named[found] += 1
            elif line in refusals:
                refused[file.partition("/")[0]] += 1
            else:
                others.setdefault(place, []).append(line)
    totals, count = report["totals"], sum(map(len, others.values()))
    print(f"{totals['percent_covered']:.2f} % of {totals['num_statements']:,} lines are run by tests")
    for name, why in REASONS.items():
        print(f"{named[name]:6}  {name}: {why}")
    print(
        f"{refused.total():6}  errors that no test raises:", ", ".join(f"{n} in {room}" for room, n in refused.items())
    )
    print(f"{count:6}  others, of {MOST} at most:")
    for place, lines in others.items():
        print(f"        {place}: {', '.join(map(str, lines))}")
    stale = [name for name in REASONS if not named[name]]
    if stale:
        print("tests run all of these, which tests/uncovered.py names:", *stale)
    return int(bool(stale) or count > MOST or totals["percent_covered"] < LEAST)


if __name__ == "__main__":
    sys.exit(main())
