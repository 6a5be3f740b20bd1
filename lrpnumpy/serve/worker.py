"""A process that holds the model and answers one question at a time: it can be ended when one takes too long.

Parent and child exchange lines of JSON. The child first describes the model (`facts`), then answers each line that
it receives. While it is idle, it runs every method once, which has their kernels compiled in the background
(`progress`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import queue
import signal
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lrpnumpy.checks import LrpError
from lrpnumpy.serve.door import Limits, Refusal

LOG = logging.getLogger("lrpnumpy.serve")
LINE = 1 << 27  # bytes of an answer at most
START = 120.0  # seconds that opening the model may take, and any answer while kernels are compiled
IDLE = 0.05  # seconds without a question after which the child prepares a little more
_HERE = Path(__file__).parents[2]  # where this very package is, for the child to find it too


class Worker:
    """The parent's side: starts the child, asks it, ends it, and starts it again."""

    def __init__(self, model: str, hints: dict[str, Any], limits: Limits) -> None:
        self.model, self.hints, self.limits = model, hints, limits
        self.facts: dict[str, Any] = {}
        self.progress: dict[str, Any] = {"done": 0, "of": 1, "name": "opening the model"}
        self.process: asyncio.subprocess.Process | None = None
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the child, and wait until it has opened the model; an LrpError where it cannot."""
        self.answers = asyncio.Queue()
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", "from lrpnumpy.serve.worker import child; child()"),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_HERE), os.environ.get("PYTHONPATH")]))},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE,
        )
        self.reading = asyncio.create_task(self._read(self.process, self.answers))
        first = await self._exchange({"model": self.model, "hints": self.hints}, START)
        if "error" in first:
            await self.stop()
            raise LrpError(first["error"])
        self.facts = first

    async def stop(self) -> None:
        """End the child."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            with contextlib.suppress(ConnectionError):
                await process.stdin.wait_closed()
        if self.reading is not None:
            await self.reading

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question, or a Refusal: too many wait, or it takes too long."""
        if self.waiting >= self.limits.waiting:
            raise Refusal(
                503, f"At most {self.limits.waiting} questions must wait for an answer; try again in a moment."
            )
        self.waiting += 1
        try:
            async with self.turn:
                if self.process is None or self.process.returncode is not None:
                    await self.start()
                is_ready = self.progress["done"] >= self.progress["of"]
                return await self._exchange(question, self.limits.compute if is_ready else START)
        finally:
            self.waiting -= 1

    async def _exchange(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One line there, one line back; without an answer the child is ended."""
        assert self.process is not None and self.process.stdin is not None
        found: dict[str, Any] = {"gone": "ended"}
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            await self.process.stdin.drain()
            found = await asyncio.wait_for(self.answers.get(), seconds)
        except TimeoutError:
            found["gone"] = f"took longer than {seconds:g} seconds"
        except ConnectionError:
            pass
        finally:
            if "gone" in found:  # also where nobody waits for the answer any more: the next one must be its own
                await self.stop()
        if "gone" in found:
            LOG.warning("the computation %s; it is started again", found["gone"])
            raise Refusal(503, f"The computation {found['gone']} and was ended; try a shorter input or another method.")
        return found

    async def _read(self, process: asyncio.subprocess.Process, answers: asyncio.Queue[dict[str, Any]]) -> None:
        """Read the lines of the child: progress as it comes, answers for those who wait."""
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # a line that is too long, which no answer is
            while line := await process.stdout.readline():
                found = json.loads(line)
                if "progress" in found:
                    self.progress = found["progress"]
                else:
                    answers.put_nowait(found)
        answers.put_nowait({"gone": "ended"})


# -- the child's side ----------------------------------------------------------------------------------------


def child() -> None:
    """What the child does until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever prints does not get between the answers
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(lines,), daemon=True).start()
    work(lines, out)


def _take(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the parent is gone, whatever is being computed


def work(lines: queue.SimpleQueue[str], out: IO[str]) -> None:
    """Open the model of the first line, answer all others."""
    from lrpnumpy.files import load
    from lrpnumpy.page.payload import to_json
    from lrpnumpy.serve import answers

    def say(answer: Any) -> None:
        out.write(to_json(answer) + "\n")
        out.flush()

    asked = json.loads(lines.get())
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = load(asked["model"], **asked["hints"])
        name = Path(asked["model"]).stem
        answers.check_model(model)
        start = answers.example(model, name if name == asked["model"] else "")
        facts = answers.facts(model, name, start)
        say({**facts, "warnings": [str(one.message) for one in caught], "first": answers.answer(model, start)})
    except LrpError as error:
        say({"error": str(error)})
        return
    ahead: Iterator[Any] | None = _warmed(model, start, facts)
    progress = None
    while True:
        try:
            line = lines.get(timeout=None if ahead is None else IDLE)
        except queue.Empty:
            assert ahead is not None
            before, progress = progress, next(ahead, None)
            if progress is None:
                ahead = None
            elif progress != before:
                say({"progress": progress})
            continue
        say(_answered(model, line))


def _answered(model: Any, line: str) -> dict[str, Any]:
    """An answer, or the error in the question, or, without any detail, an internal error."""
    from lrpnumpy.serve import answers

    try:
        return answers.answer(model, json.loads(line))
    except LrpError as error:
        return {"error": textwrap.shorten(str(error), 1000)}
    except Exception:
        last = traceback.format_exc().strip().splitlines()[-3:]
        return {"internal": " | ".join(part.strip() for part in last)}


def _warmed(model: Any, start: dict[str, Any], facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run every method once, and after each let the background compile the kernels that it needs.

    Yields what has been done so far; questions are answered in between, by plain functions where kernels are missing.
    """
    from lrpnumpy.kernels import compile as kernels
    from lrpnumpy.serve import answers

    names = [one["name"] for one in facts["methods"] if not one["costly"]]
    names.sort(key=lambda name: name != facts["method"])  # what the page shows first
    for k, name in enumerate(names):
        progress = {"done": k, "of": len(names), "name": name}
        yield progress
        with contextlib.suppress(LrpError):
            answers.answer(model, {**start, "methods": [name]})
        since = time.monotonic()  # one that cannot be compiled stays a plain function
        while any(dtype not in one.compiled for one, dtype in [*kernels._asked]) and time.monotonic() < since + START:
            yield progress
    yield {"done": len(names), "of": len(names), "name": ""}
