"""What other systems lack, taken away here: locks of POSIX, limits of processes, a way to wait for the disk."""

import io
import json
import os
import subprocess
import sys
import types
from dataclasses import asdict
from pathlib import Path

import pytest
from interop import zoo

import lrpnumpy as lrp
from lrpnumpy.files import disk, isolated
from lrpnumpy.files.kinds import LoadOptions

ROOT = Path(__file__).parents[2]


class Msvcrt(types.SimpleNamespace):
    """The locks of Windows: one process has a byte, every other gets a PermissionError."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__(taken=set())

    def locking(self, number, mode, count):
        assert mode == self.LK_NBLCK and count == 1
        place = os.fstat(number).st_ino
        if place in self.taken:
            raise PermissionError(13, "Permission denied")
        self.taken.add(place)


@pytest.mark.parametrize("system", ["posix", "windows", "neither"])
def test_a_lock_is_taken_once(tmp_path, monkeypatch, system):
    if system != "posix":
        monkeypatch.setattr(disk, "fcntl", None)
        monkeypatch.setattr(disk, "msvcrt", Msvcrt() if system == "windows" else None)
    with (tmp_path / "lock").open("wb") as first, (tmp_path / "lock").open("wb") as second:
        assert disk.locked(first)
        assert disk.locked(second) is (system == "neither")


def test_a_corpus_without_posix(tmp_path, monkeypatch):
    """The lock is one file that stays: Windows removes none that is open."""
    monkeypatch.setattr(disk, "fcntl", None)
    model = zoo.NETWORKS["maximum"].model()
    records = [[[1.0] * model.input_size] * 3] * 4
    for overwrite in (False, False, True):
        monkeypatch.setattr(disk, "msvcrt", Msvcrt())  # whose locks are gone when their files are closed
        assert len(lrp.explain_corpus(model, records, out=lrp.Output(tmp_path / "out", overwrite))) == 4
        assert sorted(os.listdir(tmp_path / "out")) == ["index.json", "lock", "part-00000000.npz"]


def test_the_disk_of_a_mac_is_asked_for_more(tmp_path, monkeypatch):
    asked = []
    fake = types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda number, what: asked.append(what))
    monkeypatch.setattr(disk, "fcntl", fake)
    with (tmp_path / "a").open("wb") as file:
        file.write(b"x")
        disk.flush(file)
        assert (tmp_path / "a").read_bytes() == b"x" and asked == [51]
        fake.fcntl = lambda number, what: exec("raise OSError(45, 'not supported')")
        disk.flush(file)


def test_folders_that_cannot_be_synchronised(tmp_path, monkeypatch):
    def refuse(number):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    disk.sync(tmp_path)


LIMITS = """
import sys
sys.modules["resource"] = None  # as on Windows: it cannot be imported
from lrpnumpy.files import isolated
isolated.child()
"""


def test_a_child_without_limits_of_the_system(tmp_path, monkeypatch):
    """Where there is no module `resource`, and where it lets nobody set a limit, the file is read all the same."""
    path = tmp_path / "model.h5"
    model = zoo.NETWORKS["sentence"].model()
    lrp.save(model, path)
    popen = subprocess.Popen
    monkeypatch.setattr(
        isolated.subprocess, "Popen", lambda command, **more: popen([sys.executable, "-c", LIMITS], **more)
    )
    assert lrp.load(path, isolate=True).digest == model.digest

    resource = pytest.importorskip("resource")

    def refuse(*_):
        raise ValueError("current limit exceeds maximum limit")  # macOS

    monkeypatch.setattr(resource, "setrlimit", refuse)
    isolated._limit(AS=2**30, NOT_KNOWN=1)


def test_what_a_child_does(tmp_path, monkeypatch):
    """Here in this process: the limits come first, and the answer is what the parent understands."""
    path, limits = tmp_path / "model.h5", {}
    model = zoo.NETWORKS["sentence"].model()
    lrp.save(model, path)
    monkeypatch.setattr(isolated, "_limit", lambda **given: limits.update(given))

    def answer(path):
        question = json.dumps([str(path), asdict(LoadOptions(max_bytes=10**6))])
        monkeypatch.setattr(sys, "stdin", io.StringIO(question))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
        isolated.child()
        return isolated._received(isolated.Source(str(path)), sys.stdout.buffer.getvalue())

    assert answer(path).model.digest == model.digest
    assert 4 * 10**6 < limits["AS"] < 2**31 and limits["CPU"] >= 20 and limits["FSIZE"] == limits["CORE"] == 0
    path.write_bytes(b"nothing")
    with pytest.raises(lrp.WeightFileError, match="kind that is not known"):
        answer(path)


def test_a_child_is_read_in_little_memory(tmp_path):
    """A parent that may have less memory than the largest file that is allowed."""
    resource, path = pytest.importorskip("resource"), tmp_path / "model.h5"
    lrp.save(zoo.NETWORKS["sentence"].model(), path)
    code = "import sys, lrpnumpy as lrp; print(lrp.load(sys.argv[1], isolate=True).digest)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9)),
    )  # fmt: skip
    assert done.stdout.strip() == lrp.load(path).digest, done.stderr


def test_the_limits_of_a_child(tmp_path):
    pytest.importorskip("resource")
    code = "import resource; from lrpnumpy.files.isolated import _limit; _limit(CPU=7, FSIZE=0); "
    code += "print(*(resource.getrlimit(k)[0] for k in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE))); "
    code += "open(__import__('sys').argv[1], 'wb', 0).write(b'x')"
    command = [sys.executable, "-c", code, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["7", "0"] and "File too large" in done.stderr
    assert (tmp_path / "file").read_bytes() == b""


def test_texts_are_read_and_written_in_utf8_everywhere():
    """No file is opened as text without an encoding: that of Windows is another one."""
    code = "import runpy, sys; sys.argv = ['lrpnumpy', 'methods']; runpy.run_module('lrpnumpy', run_name='__main__')"
    for arguments in (["-c", code], ["-m", "lrpnumpy", "inspect", "sentiment"]):
        done = subprocess.run(
            [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", *arguments],
            capture_output=True, text=True, encoding="utf-8", cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-800:]
