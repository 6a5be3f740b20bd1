# ruff: noqa: T201
"""Damage valid weight files and open them: the outcome must be a Model or a WeightFileError, and nothing else.

    python -m tests.fuzz_files --cases 10000

Cases are seeded: case k is the same damage to the same file every time. They run in a process of their own whose
memory is limited and that is watched, so that a crash inside the HDF5 library, a hang or a memory bomb is seen
and the next case goes on. A case that crashes that process is opened once more with `isolate=True`.
"""

import argparse
import io
import json
import pickletools
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

FIXTURES = Path(__file__).with_name("fixtures")
SECONDS = 20  # a case that takes longer hangs
MAX_BYTES = 2**26  # of arrays; the largest fixture has a few KB
MEMORY = 2**31  # address space of the process that opens the files
RESIDENT = 2**29  # what it may really use, Python and libraries included
OPCODES = [one.code for one in pickletools.opcodes]
ORDINARY = {"model", "error"}


def files():
    """Each fixture with what `load` needs for it, in a fixed order."""
    found = []
    for scores in sorted([*FIXTURES.glob("*/scores.json"), *FIXTURES.glob("*/expected.json")]):
        for name, row in sorted(json.loads(scores.read_text()).items()):
            load = dict(row["load"])
            if "config" in load:
                load["config"] = json.loads((scores.parent / load["config"]).read_text())
            found.append((scores.parent / name, load))
    return found


def damage(rng, content):
    """`content` with one of several kinds of damage."""
    data = bytearray(content)
    kind = rng.choice(["bits", "bytes", "truncate", "numbers", "block", "copy", "text"])
    spots = rng.integers(0, len(data), size=rng.integers(1, 9))
    if kind == "bits":
        for spot in spots:
            data[spot] ^= 1 << int(rng.integers(8))
    elif kind == "bytes":
        for spot in spots:
            data[spot] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.integers(256)]))
    elif kind == "truncate":
        del data[int(spots[0]) :]
    elif kind == "numbers":  # sizes, counts and addresses are little-endian numbers of 2 to 8 bytes
        for spot in spots[:2]:
            width = int(rng.choice([2, 4, 8]))
            value = int(rng.choice([0, 1, 2**15, 2**16 - 1])) * int(rng.choice([1, 2**8, 2**16, 2**32, 2**47]))
            data[spot : spot + width] = (value % 256**width).to_bytes(width, "little")
    elif kind == "block":
        length = int(rng.integers(1, 512))
        data[spots[0] : spots[0] + length] = bytes([int(rng.choice([0, 0xFF]))]) * length
    elif kind == "copy":
        length = int(rng.integers(1, 512))
        data[spots[0] : spots[0] + length] = data[spots[-1] : spots[-1] + length]
    else:  # digits and letters of the configuration
        readable = [k for k in range(len(data)) if 48 <= data[k] < 123]
        for spot in rng.choice(readable, 3) if readable else ():
            data[spot] = int(rng.choice(list(b'0123456789abcxyz{}[]",:-.e')))
    return bytes(data)


def damage_pickle(rng, content):
    """`content`, pickles one behind the other and perhaps more, with one to three instructions changed.

    An instruction is taken out, written twice, moved, replaced by another one, or its number made large.
    """
    parts, at = [], 0
    while at < len(content):
        try:
            places = [place for _, _, place in pickletools.genops(content[at:])]
        except ValueError:  # behind the last pickle
            break
        ends = [*places[1:], places[-1] + 1]
        parts += [content[at + a : at + b] for a, b in zip(places, ends, strict=True)]
        at += ends[-1]
    for _ in range(int(rng.integers(1, 4))):
        k, other = (int(n) for n in rng.integers(0, len(parts), size=2))
        kind = rng.choice(["drop", "twice", "swap", "copy", "opcode", "number", "many"])
        if kind == "drop":
            parts[k] = b""
        elif kind == "twice":
            parts[k] *= 2
        elif kind == "swap":
            parts[k], parts[other] = parts[other], parts[k]
        elif kind == "copy":
            parts[k] = parts[other]
        elif kind == "opcode" and parts[k]:
            parts[k] = rng.choice(OPCODES).encode("latin-1") + parts[k][1:]
        elif kind == "number":
            value = int(rng.choice([0, 1, 2, 255, 2**15, 2**31 - 1])) * int(rng.choice([1, 2**16, 2**32]))
            parts[k] = b"\x8a\x09" + (value * int(rng.choice([1, -1]))).to_bytes(9, "little", signed=True)
        else:
            parts[k] *= 10_000
    return b"".join(parts) + content[at:]


def damage_saved(rng, content):
    """A file of torch.save whose pickle is damaged, in an archive that is whole."""
    if not content.startswith(b"PK"):
        return damage_pickle(rng, content)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, damage_pickle(rng, data) if name.endswith("data.pkl") else data)
    return out.getvalue()


def write_case(case, folder):
    """The damaged file of a case, and what `load` needs for it."""
    rng = np.random.default_rng([case, 20190101])
    known = files()
    path, load = known[case % len(known)]
    target = folder / path.name
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
        parts = sorted(part.relative_to(path) for part in path.rglob("*") if part.is_file())
        hit = parts[int(rng.integers(len(parts)))]
        hurt = damage_saved if hit.suffix == ".pt" and rng.random() < 0.7 else damage
        (target / hit).write_bytes(hurt(rng, (path / hit).read_bytes()))
    else:
        hurt = damage_saved if path.parent.name == "torchsave" and rng.random() < 0.7 else damage
        beside = path.with_name(f"{path.name}.data")  # weights of an ONNX file; these or the file itself are damaged
        hit = beside if beside.exists() and rng.random() < 0.2 else path
        for one in (path, beside):
            if one.exists():
                content = one.read_bytes()
                (folder / one.name).write_bytes(hurt(rng, content) if one == hit else content)
    return target, load


def outcome(path, load):
    """What comes of opening a file, in one word, and more about it."""
    import lrpnumpy as lrp

    warnings.simplefilter("ignore", lrp.AssumptionWarning)
    try:
        model = lrp.load(path, max_bytes=MAX_BYTES, **load)
        assert isinstance(model, lrp.Model)
    except lrp.WeightFileError as error:
        return "error", str(error)
    except BaseException as error:
        return "exception", f"{type(error).__name__}: {error}"
    return "model", ""


def work(first, last):
    """Open the cases from `first` to before `last`, saying before each which it is and afterwards what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryDirectory() as scratch:
        for case in range(first, last):
            print(json.dumps([case]), flush=True)
            path, load = write_case(case, Path(scratch))
            print(json.dumps([case, *outcome(path, load), peak()]), flush=True)
            if peak() >= RESIDENT:  # the next case starts afresh
                return


def peak():
    """Bytes that this process has used at most; getrusage would count those of its parent, too."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(cases, first=0):
    """The outcome of each case: model, error, exception, crash, hang or memory, with more about it."""
    results, start, last = {}, first, first + cases
    while start < last:
        command = [sys.executable, "-m", "tests.fuzz_files", "--work", str(start), str(last)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=FIXTURES.parents[1]) as process:
            current = _watch(process, results, start)
        if process.returncode != 0 and results.get(current, ("",))[0] != "hang":
            results[current] = ("crash", f"the process ended with {process.returncode}")
        start = current + 1
    return results


def _watch(process, results, current):
    """Take in what the process says until it ends or hangs; the case it was at."""
    waiting = selectors.DefaultSelector()
    waiting.register(process.stdout, selectors.EVENT_READ)
    buffer = b""
    while True:
        if not waiting.select(timeout=SECONDS * 3 if not results else SECONDS):
            results[current] = ("hang", f"nothing for {SECONDS} seconds")
            process.kill()
            return current
        part = process.stdout.read1()
        if not part:
            process.wait()
            return current
        *lines, buffer = (buffer + part).split(b"\n")
        for line in lines:
            current, *result = json.loads(line)
            if result:
                kind, more, used = result
                results[current] = (kind, more) if used < RESIDENT else ("memory", f"{used:,} bytes")


def isolated(case):
    """The outcome of a case that crashes, opened in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        path, load = write_case(case, Path(scratch))
        return outcome(path, {**load, "isolate": True})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    began = time.time()
    results = run(options.cases, options.first)
    bad = {case: result for case, result in results.items() if result[0] not in ORDINARY}
    for case, (kind, more) in bad.items():
        print(f"case {case}, {files()[case % len(files())][0].name}: {kind}, {more}")
        if kind == "crash":
            print(f"    in a process of its own: {isolated(case)}")
    counts = Counter(kind for kind, _ in results.values())
    print(f"{len(results)} cases in {time.time() - began:.0f} s: {dict(counts)}")
    sys.exit(any(kind != "crash" or isolated(case)[0] != "error" for case, (kind, _) in bad.items()))


if __name__ == "__main__":
    main()
