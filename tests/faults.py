# ruff: noqa: T201
"""Faults of the machine: killed at any moment, no room on the disk, nothing to write to, little memory.

    python -m tests.faults                 # 50 kills of each kind of work, a full disk, a read-only home, ulimit -v
    python -m tests.faults --kills 4 --only kills,disk

Nothing may be lost and nothing wrong: after a kill the work is done again, or gone on with, and its files are those of
an undisturbed run, bit for bit; a file that has its name is whole. Where there is no room or no memory, the error is
one of ours, and what was there before is there still.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("LRPNUMPY_COMPILE", "never")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import numpy as np  # noqa: E402

import lrpnumpy as lrp  # noqa: E402
from lrpnumpy.evaluate import rank_methods  # noqa: E402

OURS = os.path.dirname(lrp.__file__)
RECORDS, CHUNK = 36, 3
SIZES = (100, 2_000, 9_000)  # bytes that a file may have, where the disk is full
MEMORY = (1500, 800, 600, 400, 300, 200, 150, 100)  # MB of address space


# --------------------------------------------------------------------------------------------------------------- works


def _models():
    from tests.support import networks as nets

    rng = np.random.default_rng(7)
    words = ("the", "film", "is", "not", "good", "naïve", "<unk>")
    embedding = lrp.Embedding(rng.normal(size=(7, 3)), words, "<unk>")
    layers = [nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)]
    return lrp.Model(layers, embedding=embedding), lrp.Model(layers)


class Works:
    """Kinds of work, each a function of a folder in which it leaves its files; done again, it goes on or replaces."""

    def __init__(self, folder):
        self.words, self.series = _models()
        rng = np.random.default_rng(0)
        texts = [" ".join(rng.choice(self.words.inputs["x"].embedding.vocabulary, 5)) for _ in range(RECORDS)]
        texts[10] = texts[30] = ""
        self.source, self.stored = folder / "a.txt", folder / "stored"
        self.source.write_text("\n".join(texts))
        lrp.explain_corpus(self.words, self.source, out=lrp.Output(self.stored, chunk=CHUNK), threads=1)
        self.inputs = [rng.normal(size=(4, 3)) for _ in range(6)]
        self.every = {
            "explain_corpus": self.corpus, "export": self.export, "save": self.save, "write_page": self.page,
            "state of a ranking": self.rank,
        }  # fmt: skip

    def command(self, name):
        """The command for a whole corpus, with a model and an output that are beside its source."""
        folder = self.source.parent
        program = [sys.executable, "-m", "lrpnumpy", "corpus", str(self.source), str(folder / name)]
        return [*program, "--model", str(folder / "model.h5")]

    def corpus(self, folder):
        lrp.explain_corpus(self.words, self.source, out=lrp.Output(folder / "out", chunk=CHUNK), threads=2)

    def export(self, folder):
        found = lrp.open_explanations(self.stored)
        for name in ("out.csv", "out.jsonl", "out.h5"):
            found.export(folder / name, overwrite=True)

    def save(self, folder):
        lrp.save(self.words, folder / "model.h5", overwrite=True)

    def page(self, folder):
        lrp.write_page(folder / "page.html", lrp.open_explanations(self.stored))

    def rank(self, folder):
        from lrpnumpy.evaluate import rank

        rank.PART = 2
        measures = ["changes", "removal"]
        state, names = folder / "state", ["gradient", "lrp-all"]
        found = rank_methods(self.series, self.inputs, names, measures=measures, state=state, progress=False)
        cells = {name: one for name, one in json.loads(found.to_json())["columns"].items() if name != "cost"}
        _ranking(folder).write_text(json.dumps(cells))  # the cost is measured, and never twice the same


def files(folder):
    """Every file of a folder, as bytes; HDF5 by what is in it, a state of a ranking by the ranking that comes of it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "lock" and path.parent.name != "state":
            found[str(path.relative_to(folder))] = arrays(path) if path.suffix == ".h5" else path.read_bytes()
    return found


def arrays(path):
    """Every array of an HDF5 file as bytes, and its attributes."""
    import h5py

    found = {}

    def add(name, node):
        if isinstance(node, h5py.Dataset):
            found[name] = (node.dtype.str, node.shape, node[()].tobytes())

    with h5py.File(path) as file:
        file.visititems(add)
        return found | dict(file.attrs)


def _ranking(folder):
    """Where the ranking is written down, which is the test's own: outside of the folder that may be full."""
    return folder.with_name(f"{folder.name}.ranking")


def ranked(folder):
    """The ranking that came of a state."""
    path = _ranking(folder)
    return path.read_text() if path.exists() else None


# --------------------------------------------------------------------------------------------------------------- kills


def forked(work):
    """The exit status of a child that does some work: 0 when it is done, 1 after an LrpError, minus a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        work()
        status = 0
    except lrp.LrpError as error:
        status = 1 if "written" in str(error) else 4
        if status == 4:
            print(error, file=sys.stderr)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def traced(work, kill_at=0):
    """Do some work and count the lines of ours that this thread reaches; at number `kill_at` the process is killed."""
    lines = 0

    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        lines += 1
        if lines == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return lines


def killed(name, work, top, kills, rng):
    """Kill a kind of work so many times, at a random line of ours or a random time, and compare; what was seen."""
    calm, folder = top / "calm", top / "torn"
    calm.mkdir()
    work(calm)
    shutil.rmtree(calm)
    calm.mkdir()
    lines = traced(partial(work, calm))
    whole, text = files(calm), ranked(calm)
    folder.mkdir()
    began = time.perf_counter()
    work(folder)
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    folder.mkdir()
    done = finished = 0
    while done < kills:
        if done % 2:
            child = forked(partial(work, folder))
            time.sleep(seconds * rng.uniform(0, 0.8))
            os.kill(child, signal.SIGKILL)
        else:  # half of them in the last part, where files take their names
            at = rng.randint(1, lines) if done % 4 else lines - rng.randint(0, min(lines - 1, 80))
            child = forked(partial(traced, partial(work, folder), at))
        how = ended(child)
        assert how in (0, -signal.SIGKILL), (name, how)
        done += how != 0
        _check_whole(name, folder, whole)
        if how == 0 or rng.random() < 0.4:  # go on, or take another kill first
            work(folder)
            finished += 1
            assert files(folder).items() >= whole.items(), (name, "differs from an undisturbed run")
            assert set(files(folder)) - set(whole) <= _left(folder), (name, sorted(files(folder)))
            assert ranked(folder) == text, (name, "another ranking")
            shutil.rmtree(folder)
            folder.mkdir()
    return {"kills": done, "finished": finished, "lines": lines, "seconds": round(seconds, 3)}


def _left(folder):
    """Temporary files of processes that were killed: hidden, and in nobody's way."""
    return {str(path.relative_to(folder)) for path in folder.rglob(".*")}


def _check_whole(name, folder, whole):
    """A file that has its name is whole; the index of a run is one at its begin, and another at its end."""
    for path, content in files(folder).items():
        if path.endswith("index.json"):
            index = json.loads(content)
            assert index["parts"] is None or content == whole[path], (name, path)
        elif path in whole:
            assert content == whole[path], (name, path, "is half a file")


# ---------------------------------------------------------------------------------------------------------------- disk


@contextlib.contextmanager
def small_disk(folder, size):
    """A disk of so many bytes, where one may be made; whether it is one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    is_one = os.getuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield is_one
    finally:
        if is_one:
            subprocess.run(["umount", str(folder)], check=True)


def full_disk(name, work, top):
    """No room: an error of ours, no half file, and once there is room the work is done as if nothing had happened."""
    calm, folder = top / "whole", top / "full"
    calm.mkdir()
    work(calm)
    whole, text, seen = files(calm), ranked(calm), {}

    def limited(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        work(folder)

    for size in SIZES:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        how = ended(forked(partial(limited, size)))
        assert how in (0, 1), (name, size, how)
        _check_whole(name, folder, whole)
        work(folder)
        assert files(folder).items() >= whole.items() and ranked(folder) == text, (name, size)
        seen[f"files of {size} bytes"] = "error" if how else "done"
    for size in (8192, 32768):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with small_disk(folder, size) as is_one:
            if not is_one:
                break
            how = ended(forked(partial(work, folder)))
            assert how in (0, 1), (name, size, how)
            _check_whole(name, folder, whole)
            subprocess.run(["mount", "-o", "remount,size=8m", str(folder)], check=True)
            work(folder)
            assert files(folder).items() >= whole.items() and ranked(folder) == text, (name, size)
        seen[f"a disk of {size} bytes"] = "error" if how else "done"
    return seen


# ------------------------------------------------------------------------------------------------ home, install, memory

EXPLAIN = [
    sys.executable,
    "-m",
    "lrpnumpy",
    "explain",
    "This isn't a good movie.",
    "--method",
    "lrp-all",
    "--json",
    "-",
]


def _program(command, folder, limit=None, **environment):
    """Run a command of ours; its exit status, and what it said."""

    def before():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LRPNUMPY", "NUMBA", "XDG"))}
    done = subprocess.run(
        command, cwd=folder, env={**inherited, "PYTHONPATH": str(HERE.parent), **environment}, capture_output=True,
        text=True, preexec_fn=before, timeout=900,
    )  # fmt: skip
    return done


@contextlib.contextmanager
def unwritable(folder):
    """Nothing in a folder can be written to; root, who may write everywhere, needs a disk that is mounted so."""
    if os.getuid() == 0:
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
    every = [] if os.getuid() == 0 else [folder, *folder.rglob("*")]
    try:
        for path in every:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield
    finally:
        for path in every:
            path.chmod(0o755)
        if os.getuid() == 0:
            subprocess.run(["umount", str(folder)], check=True)


def read_only(top):
    """A home and an install that cannot be written to: the same explanation, and no more than a hint."""
    home, package = top / "home", top / "package"
    home.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.nbc")
    for name in ("lrpnumpy", "weights"):
        shutil.copytree(HERE.parent / name, package / name, ignore=ignored)
    where = {"PYTHONPATH": str(package), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as other:
        works = Works(Path(other))
        lrp.save(works.words, Path(other, "model.h5"))
        with unwritable(top):
            try:
                (home / "x").touch()
            except OSError:
                found = _program(EXPLAIN, home, **where)
                many = _program(works.command("here"), home, **where)
            else:
                raise AssertionError("the home can be written to")
        usual = _program(EXPLAIN, HERE.parent)
        _program(works.command("there"), HERE.parent)
        assert many.returncode == 0 and "Traceback" not in many.stderr, many.stderr
        assert files(Path(other, "here")) == files(Path(other, "there")), "a corpus differs"
    assert found.returncode == 0 and "Traceback" not in found.stderr, found.stderr
    ours, theirs = (lrp.Explanation.from_json(one.stdout[one.stdout.index("{\n") :]) for one in (found, usual))
    off = float(np.abs(ours.relevance - theirs.relevance).max() / np.abs(theirs.relevance).max())
    assert off < 1e-4, off  # rounding: plain and compiled kernels add up in another order
    hints = [line for line in found.stderr.splitlines() if line.strip()]
    assert len(hints) <= 1, hints
    return {"difference": off, "said": hints, "said of a corpus": many.stderr.strip().splitlines()}


def little_memory(top):
    """`ulimit -v`: success or an error of ours, whatever the limit; never a crash."""
    works = Works(top)
    lrp.save(works.words, top / "model.h5")
    commands = {"explain": EXPLAIN, "corpus": works.command("c")}
    seen = {}
    for name, command in commands.items():
        for limit in MEMORY:
            shutil.rmtree(top / "c", ignore_errors=True)
            done = _program(command, top, limit * 10**6)
            last = (done.stderr.strip().splitlines() or [""])[-1]
            seen[f"{name}, {limit} MB"] = "done" if done.returncode == 0 else f"exit {done.returncode}: {last[:150]}"
            assert done.returncode >= 0, (name, limit, done.returncode, done.stderr[-2000:])
            assert limit < 200 or "Traceback" not in done.stderr, (name, limit, done.stderr[-2000:])
    return seen


# --------------------------------------------------------------------------------------------------------- the program


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults of the machine.")
    parser.add_argument("--kills", type=int, default=50, help="of each kind of work")
    parser.add_argument("--seed", type=int, help="a fresh one where it is left out")
    parser.add_argument("--only", default="kills,disk,home,memory")
    parser.add_argument("--figures", type=Path, help="also write what was seen as JSON")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    only, rng, seen = options.only.split(","), random.Random(seed), {"seed": seed, "version": lrp.__version__}
    sync, os.fsync = os.fsync, lambda handle: None  # what is killed is the process, not the machine
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        works = Works(top)
        for kind, run in (("kills", partial(killed, kills=options.kills, rng=rng)), ("disk", full_disk)):
            if kind not in only:
                continue
            for name, work in works.every.items():
                place = top / kind / name.replace(" ", "-")
                place.mkdir(parents=True)
                seen[f"{kind}: {name}"] = run(name, work, place)
                print(f"{kind}: {name}: {seen[f'{kind}: {name}']}", flush=True)
    os.fsync = sync
    for kind, run in (("home", read_only), ("memory", little_memory)):
        if kind in only:
            with tempfile.TemporaryDirectory() as scratch:
                os.chmod(scratch, 0o755)
                seen[kind] = run(Path(scratch))
                print(f"{kind}: {json.dumps(seen[kind], indent=1)}", flush=True)
    if options.figures:
        options.figures.write_text(json.dumps(seen, indent=1) + "\n")
    print("nothing lost, nothing wrong")


if __name__ == "__main__":
    main()
