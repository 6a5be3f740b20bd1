"""Damaged files and texts, the same every time; and that the fuzzer would see a crash, a hang or a bomb."""

import faulthandler
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from cases import EVERY_CASE

pytest.importorskip("resource")  # the limits of the processes that open them

from tests.fuzz import workers
from tests.fuzz.cases import Cases
from tests.fuzz.damage import damaged
from tests.fuzz.doors import DOORS
from tests.fuzz.hdf5 import damage_hdf5, lookup3, parts
from tests.fuzz.seeds import seeds

# Seeds that are refused undamaged, each for its reason.
REFUSED = ("lzf", "attentive.keras", "header and dates", "protocol", "a named type", "half", "soft links")


CASES = 2000 if EVERY_CASE else 600


def test_damaged_files_and_texts():
    """Each gives a result or an error of ours; both happen, so that the damage is neither nothing nor all."""
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "2019", "--cases", str(CASES), "--workers", "2"]
    environment = {**os.environ, "LRPNUMPY_COMPILE": "never"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("  0")]
    results, errors = (sum(int(row[k]) for row in rows) for k in (-7, -6))
    assert results + errors == CASES and results > 0.15 * CASES and errors > 0.35 * CASES


@pytest.fixture(scope="module")
def every():
    return seeds()


def test_what_is_damaged_was_whole(every, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    assert len(every) > 20
    for one in (one for some in every.values() for one in some[:20]):
        if any(name in one.name for name in REFUSED):
            continue
        folder = tmp_path_factory.mktemp("whole")
        for name, content in one.files.items():
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            DOORS[one.door](folder / one.path, dict(one.given), random.Random(3))


def test_damage_depends_on_the_seed_alone(every):
    for some in every.values():
        for content in some[0].files.values():
            first, again, other = (damaged(random.Random(k), content) for k in (1, 1, 2))
            assert first == again and (first != content or other != content)


def test_checksums_of_hdf5_are_right_after_the_damage(tmp_path):
    """Every sealed structure is found; where one is damaged, the library sees no wrong checksum."""
    assert lookup3(b"") == 0xDEADBEEF and lookup3(b"Four score and seven years ago") == 0x17770551
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for k in range(12):
            file[f"a{k}"] = np.ones((4, 3))
            file.attrs[f"a{k}"] = "text"
        file.create_dataset("fixed", (8, 4), "f4", chunks=(2, 2))[:] = 1
        file.create_dataset("growing", (8, 4), "f4", chunks=(2, 2), maxshape=(None, 4))[:] = 1
    whole = path.read_bytes()
    known = parts(whole)
    signs = {whole[start : start + 4] for start, _, _ in known.sealed}
    assert signs >= {b"\x89HDF", b"OHDR", b"FRHP", b"FHDB", b"BTHD", b"BTLF", b"FAHD", b"FADB", b"EAHD", b"EAIB"}
    assert len([start for start, _, _ in known.sealed if whole[start : start + 4] == b"OHDR"]) == whole.count(b"OHDR")
    wrong = 0
    for k in range(300):
        path.write_bytes(damage_hdf5(random.Random(k), whole))
        try:
            with h5py.File(path) as file:
                list(file)
        except (OSError, RuntimeError, KeyError) as error:
            wrong += "checksum" in str(error)
    assert wrong < 60  # a tenth is left wrong on purpose; some damage moves what a checksum covers


class Bad(Cases):
    """Cases that do what none should."""

    def __init__(self):
        self.number, self.seeds, self.formats = 0, {"x": []}, ["x"]

    def make(self, case):
        return type("Seed", (), {"format": "x"}), {}, None

    def run(self, case, folder):
        if case == 3:
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)  # as a wrong address in C does
        if case == 6:
            time.sleep(60)
        while case == 7:
            pass
        if case == 9:
            np.ones(workers.GROWTH // 4)
        if case == 11:
            raise SystemExit
        return ("x", "exception", ZeroDivisionError("by 0")) if case == 12 else ("x", "error", None)


def test_the_watch_sees_what_goes_wrong(monkeypatch):
    monkeypatch.setattr(workers, "ASLEEP", 6)
    monkeypatch.setattr(workers, "HANGS", 1)
    monkeypatch.setattr(workers, "GROWTH", 2**25)
    told = []
    for counts in workers.run(Bad(), 0, 20, 2, lambda case, name, kind, more: told.append((case, kind))):
        last = counts
    assert sorted(told) == [
        (3, "crash"), (6, "hang"), (7, "hang"), (9, "memory"), (11, "crash"), (12, "exception"),
    ]  # fmt: skip
    assert last == {"x": [0, 15]}
