"""Reading a file in a separate process: a crash, a hang or a takeover of the reader stays there.

The child returns its result as a line of JSON and the plain bytes of the arrays. The parent checks
these as it checks a file: a child that has been taken over can hand on wrong numbers, but nothing worse.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import WeightFileError
from lrpnumpy.files import kinds, native
from lrpnumpy.files.budget import SECONDS_PER_BYTE
from lrpnumpy.files.kinds import LoadOptions, configuration
from lrpnumpy.files.report import Report
from lrpnumpy.files.safe import MAX_TEXT, Fields, Shape, Source

SECONDS = 120  # after this the child is stopped
_START = 20  # seconds of the processor besides what the budget allows: for Python and libraries to load, anywhere
_BESIDES = 2**30  # memory of a child besides the arrays: Python, libraries, the vocabulary
_TEXT = 16 * MAX_TEXT  # of an answer: settings and vocabulary
_PIECE = 1 << 20  # bytes of an answer that are read at once
_HERE = Path(__file__).parents[2]  # where this very package is, for the child to find it too


def read(path: Path, asked: LoadOptions) -> Report:
    """What `kinds.read` gives, found out by a child process."""
    file = Source(str(path))
    with file.guard("config", "must be plain JSON"):
        asked = replace(asked, config=configuration(file, asked.config))
        question = json.dumps([os.path.abspath(path), asdict(asked)])
    content = _answer(file, question.encode(), asked.max_bytes + _TEXT)
    file.budget.grow(len(content))
    return _received(file, content)


def _answer(file: Source, question: bytes, most: int) -> bytearray:
    """What the child writes, at most `most` bytes of it; an error where it crashes or hangs."""
    late = threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", "from lrpnumpy.files.isolated import child; child()"],
        cwd=_HERE,  # not the caller's folder, from which Python would import what lies there
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows would open a console
    ) as process:

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(SECONDS, stop)
        timer.daemon = True  # Ctrl-C may come before anything cancels it, and the program would wait for it
        try:
            timer.start()
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(question)
                process.stdin.close()
            content = bytearray()  # in pieces: asked for `most` at once, Python would take the memory for all of it
            while len(content) < most and (piece := process.stdout.read(_PIECE)):
                content += piece
            if len(content) < most:
                process.wait()
        finally:
            timer.cancel()
            process.kill()
    if late.is_set():
        raise file.error("", f"took more than {SECONDS} seconds to read; it is damaged or hostile")
    if process.returncode:
        raise file.error("", f"crashed the process that read it ({process.returncode}); it is damaged or hostile")
    return content


def _received(file: Source, content: bytes | bytearray) -> Report:
    """The report that a child has sent, every part of it checked."""
    line, _, data = content.partition(b"\n")
    with file.guard("", "gave an answer that is not understood"):
        answer = Fields(file, "answer", json.loads(line))
    if answer.has("error"):
        raise WeightFileError(answer.string("error"))
    model = None
    if answer.has("model"):
        words = answer.object("words")
        with file.guard(""):
            take = _arrays(file, answer, data)
            model = native.model_of(answer.object("model"), take, lambda path, _: words.strings(path))
            file.budget.numbers("", model.declared)
    notes, models, warnings = (tuple(answer.strings(key)) for key in ("notes", "models", "warnings"))
    return Report(file.file, answer.string("kind"), model, notes, models, warnings)


def _arrays(file: Source, answer: Fields, data: bytes | bytearray) -> native.Take:
    """What takes the arrays of an answer: their bytes one after the other, in the order of its paths and lengths."""
    dtype = np.dtype(np.float64 if answer.string("dtype") == "float64" else np.float32)
    ends = accumulate(answer.integers("lengths"), initial=0)
    spans = dict(zip(answer.strings("paths"), pairwise(ends), strict=False))

    def take(path: str, shape: Shape) -> np.ndarray:
        """An array by its path, if it has the bytes that its shape needs."""
        start, stop = spans.get(path, (0, 0))
        sizes = [n or 0 for n in shape]
        found = np.frombuffer(data[start:stop], dtype)
        if min(sizes) < 1 or found.size != math.prod(sizes):
            raise file.error(path, "is missing or of another size than its shape needs")
        return found.reshape(sizes)

    return take


def child() -> None:
    """What the child does: read a file as asked on standard input, answer on standard output."""
    path, question = json.load(sys.stdin)
    asked = LoadOptions(**question)
    size = os.stat(path).st_size
    _limit(AS=4 * asked.max_bytes + _BESIDES, CPU=_START + int(2 * size * SECONDS_PER_BYTE), FSIZE=0, CORE=0)
    arrays: dict[str, np.ndarray] = {}
    try:
        report = kinds.read(Path(path), asked)
        answer: dict[str, Any] = {name: getattr(report, name) for name in ("kind", "notes", "models", "warnings")}
        if (model := report.model) is not None:
            arrays = native.arrays_of(model)
            answer |= {"model": native.settings_of(model), "dtype": model.dtype.name}
            answer |= {"paths": list(arrays), "lengths": [array.nbytes for array in arrays.values()]}
            answer |= {"words": native.vocabularies_of(model)}
    except WeightFileError as error:
        answer = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    for array in arrays.values():
        sys.stdout.buffer.write(array.tobytes())


def _limit(**limits: int) -> None:
    """Have the system refuse more than reading can need: memory, time, any file that is written, any dump of memory.

    Windows has no such limits. What a system does not know, or lets nobody set (macOS: memory), stays as it is; the
    budget of the file and the clock of the parent are everywhere.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, f"RLIMIT_{name}")
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
