"""`make dist`: wheel and sdist, built from a clean checkout, compared with it, and tried where nothing else is.

Ends with an error where a tracked file is missing, something else is in it, or a fresh virtual environment takes more
than `--seconds` of processor time to install the wheel and run the first example of the README: that counts the same
on a machine that is busy. The time that passed is printed, too. All Python of the README must run from the wheel alone,
and print what the README shows.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OMITTED = (".github/", ".ci/", ".gitignore", "docs/.gitignore")  # of the repository, not of the sdist
ADDED = re.compile(r"PKG-INFO|[\w.]+\.egg-info/.*|setup\.cfg")  # by setuptools
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
SMOKE = """
import lrpnumpy as lrp
for name in ("sentiment", "sentiment-2", "river", "vowels", "pump"):
    lrp.load(name)
assert len(lrp.inspect("toy").models) == 100
assert lrp.load("sentiment").classes and len(lrp.methods()) > 9
assert "site-packages" in lrp.__file__, lrp.__file__
"""


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def tracked(*folders: str) -> list[str]:
    """Files of the repository."""
    return run("git", "ls-files", "-z", *folders, cwd=ROOT).rstrip("\0").split("\0")


def difference(what: str, found: set[str], wanted: set[str]) -> list[str]:
    """What is wrong with the contents of an archive, a line each."""
    missing = [f"{what} lacks {name}" for name in sorted(wanted - found)]
    return missing + [f"{what} has {name}, which is not tracked" for name in sorted(found - wanted)]


def check_contents(wheel: Path, sdist: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {re.sub("^weights/", "lrpnumpy/weights/", name) for name in tracked("lrpnumpy", "weights")}
    wrong = difference("the wheel", names, package)
    with tarfile.open(sdist) as archive:
        inside = {one.name.split("/", 1)[1] for one in archive.getmembers() if one.isfile()}
    inside = {name for name in inside if not ADDED.fullmatch(name)}
    wanted = {name for name in tracked() if not name.startswith(OMITTED) and name != "setup.cfg"}
    if wrong := wrong + difference("the sdist", inside, wanted):
        sys.exit("\n".join(wrong))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files go")
    options.add_argument("--seconds", type=float, default=60, help="for pip install and the ten lines")
    given = options.parse_args()
    work = given.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("checkout", "empty", "sdist"):
        (work / folder).mkdir(parents=True)
    run("git", "archive", "-o", work / "checkout.tar", "HEAD", cwd=ROOT)
    run("tar", "xf", work / "checkout.tar", "-C", work / "checkout")
    for old in [*given.out.glob("*.whl"), *given.out.glob("*.tar.gz")]:
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", given.out, work / "checkout")  # the wheel is built from the sdist
    (wheel,), (sdist,) = given.out.glob("*.whl"), given.out.glob("*.tar.gz")
    check_contents(wheel, sdist)
    print(f"{wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB) and {sdist.name} hold what is tracked")

    python = work / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    venv.create(work / "venv", with_pip=True)
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks, outputs = PYTHON.findall(readme), OUTPUT.findall(readme)
    (work / "first.py").write_text(blocks[0], "utf-8")
    (work / "all.py").write_text("\n".join(blocks), "utf-8")
    spent = 0.0
    for what, command in {
        "pip install": ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel),
        "the first example of the README": ("-I", work / "first.py"),
    }.items():
        before, started = os.times(), time.monotonic()
        shown = run(python, *command, cwd=work / "empty")
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"{what}: {used:.1f} s of processor time, {time.monotonic() - started:.1f} s passed")
        spent += used
    missing = [line for line in outputs[0].splitlines() if line.strip() != "…" and line not in shown.splitlines()]
    assert not missing, f"the README shows lines that its first example does not print: {missing}\n{shown}"
    if spent > given.seconds:
        sys.exit(f"both must take at most {given.seconds:g} s, took {spent:.1f} s")
    run(python, "-I", "-c", SMOKE, cwd=work / "empty")
    run(python.with_name("lrpnumpy"), "explain", "It isn't funny.", cwd=work / "empty")
    shown = run(python, "-I", work / "all.py", cwd=work / "empty")
    for line in re.findall(r"print\(.*\) +# (.*\d.*)", readme):
        assert line in shown, f"the README shows a line that its examples do not print: {line}\n{shown}"
    print("all Python of the README runs from the wheel")

    with tarfile.open(sdist) as archive:
        archive.extractall(work / "sdist", filter="data")
    (source,) = (work / "sdist").iterdir()
    collected = run(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", cwd=source)
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/methods/test_text.py", cwd=source)
    print(f"the sdist: {collected.strip().splitlines()[-1]}")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
