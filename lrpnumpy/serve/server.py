"""The server of the live page: the standard library's asyncio, one request a connection, three routes.

A connection costs no thread, so one that never ends its request costs nothing but its place. Connections that have not
shown the token have places apart from the others, and the oldest of them gives up its own when a new one comes.
Another process computes the answers, see `worker.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from lrpnumpy.checks import parse_json
from lrpnumpy.page import document
from lrpnumpy.serve.door import Bucket, Door, Head, Limits, Refusal, body_size, parsed
from lrpnumpy.serve.worker import Worker

LOG = logging.getLogger("lrpnumpy.serve")
HEADERS = (
    "Connection: close",
    "Cache-Control: no-store",
    "Referrer-Policy: no-referrer",  # the address has the token
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Resource-Policy: same-origin",
)
SCRIPTS = ("livetext.js", "ask.js", "selection.js", "editor.js", "live.js")  # after those of the page, in this order
MOMENT = 0.05  # seconds
BACKLOG = 1024  # connections that wait in the system to be accepted
NOTHING = "default-src 'none'; frame-ancestors 'none'"  # the policy of answers that are not a page


class Server:
    """A model's page: listens, lets in, answers."""

    def __init__(self, worker: Worker, limits: Limits | None = None) -> None:
        self.worker, self.limits = worker, limits or Limits()
        self.token = secrets.token_urlsafe(24)
        self.page = (b"", "")
        self.door: Door | None = None
        self.bucket: Bucket | None = None
        # Connections that have not shown the token with the time when they came, the oldest first; and those that have.
        self.strangers: dict[asyncio.Task[Any], float] = {}
        self.admitted: set[asyncio.Task[Any]] = set()

    async def run(self, host: str, port: int, ready: Callable[[str], None]) -> None:
        """Serve until cancelled; `ready` is called with the address once the model is open."""
        await self.worker.start()
        try:
            self.page = page_of(self.worker.facts)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.create_server((host, port), family=family, backlog=BACKLOG) as listener:
                listener.setblocking(False)
                port = listener.getsockname()[1]
                self.door = Door(self.token, f"[{host}]" if ":" in host else host, port)
                self.bucket = Bucket(self.limits, asyncio.get_running_loop().time())
                ready(f"http://{self.door.host}:{port}/?token={self.token}")
                await self._accept(listener)
        finally:
            await self.worker.stop()

    async def _accept(self, listener: socket.socket) -> None:
        """Take connections one after the other, each once there is a place for it; the others wait in the system."""
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connection, _ = await loop.sock_accept(listener)
                reader, writer = await asyncio.open_connection(sock=connection, limit=self.limits.head)
            except OSError:  # it has gone, or no more files may be open
                await asyncio.sleep(MOMENT)
                continue
            self.strangers[loop.create_task(self._connected(reader, writer))] = loop.time()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one answer."""
        task = asyncio.current_task()
        assert task is not None
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):  # it has gone, or is too slow
                status, answer, policy = await self._response(reader, task)
                kind = "text/html" if policy is not None else "application/json"
                lines = [
                    f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                    *HEADERS,
                    f"Content-Type: {kind}; charset=utf-8",
                    f"Content-Length: {len(answer)}",
                    f"Content-Security-Policy: {policy or NOTHING}",
                ]
                writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
                async with asyncio.timeout(self.limits.patience):
                    await writer.drain()
                    writer.write_eof()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.3 * (status >= 400)):  # unread bytes would reset the connection
                            while await reader.read(1 << 16):
                                pass
        finally:
            self.strangers.pop(task, None)
            self.admitted.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _response(self, reader: asyncio.StreamReader, task: asyncio.Task[Any]) -> tuple[int, bytes, str | None]:
        """Status, body, and the policy of a page; a refusal is JSON with one sentence."""
        try:
            head, body = await self._request(reader, task)
            if head.path == "/":
                return 200, *self.page
            found = {"progress": self.worker.progress, "waiting": self.worker.waiting}
            if head.path == "/explain":
                found = await self._explained(body)
            return 200, json.dumps(found).encode(), None
        except Refusal as refusal:
            return refusal.status, json.dumps({"error": refusal.text}).encode(), None
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            LOG.error("internal error: %s: %s", type(error).__name__, error)
            return 500, b'{"error": "internal error"}', None

    async def _request(self, reader: asyncio.StreamReader, task: asyncio.Task[Any]) -> tuple[Head, bytes]:
        """A request that is let in, whole, within the limits."""
        assert self.door is not None and self.bucket is not None
        try:
            async with asyncio.timeout(self.limits.patience):
                head = parsed(await reader.readuntil(b"\r\n\r\n"))
                self.door.check(head)
                self._admit(task)
                size = body_size(head, self.limits) if head.method == "POST" else 0
                self.bucket.take(asyncio.get_running_loop().time())
                return head, await reader.readexactly(size)
        except TimeoutError:
            raise Refusal(408, f"A request must arrive within {self.limits.patience:g} seconds.") from None
        except asyncio.LimitOverrunError:
            raise Refusal(431, f"Headers must have at most {self.limits.head:,} bytes.") from None
        except asyncio.IncompleteReadError:
            raise Refusal(400, "A request must have its declared length.") from None

    async def _make_room(self) -> None:
        """Close the oldest connections that have not shown the token, where no place is left for another."""
        now = asyncio.get_running_loop().time
        while len(self.strangers) >= self.limits.strangers:
            oldest, since = next(iter(self.strangers.items()))
            if now() < since + MOMENT:  # its request may be on the way, and have the token
                await asyncio.sleep(since + MOMENT - now())
            else:
                del self.strangers[oldest]
                oldest.cancel()

    def _admit(self, task: asyncio.Task[Any]) -> None:
        """Give a connection that has shown the token one of the places kept for such."""
        if len(self.admitted) >= self.limits.connections:
            raise Refusal(503, f"At most {self.limits.connections} connections must be open; try again in a moment.")
        self.strangers.pop(task, None)
        self.admitted.add(task)

    async def _explained(self, body: bytes) -> dict[str, Any]:
        """What the worker answers to a question in JSON."""
        try:
            question = parse_json(body, parse_constant=_no_constant)
        except ValueError:
            raise Refusal(400, "The body must be JSON in UTF-8, without NaN and infinity.") from None
        found = await self.worker.ask(question)
        if "internal" in found:
            LOG.error("internal error: %s", found["internal"])
            raise Refusal(500, "internal error")
        return found  # also where it is an error of the person who typed: browsers shout about other statuses


def _no_constant(name: str) -> None:
    raise ValueError(name)


def page_of(facts: dict[str, Any]) -> tuple[bytes, str]:
    """The page with the example explained, and its policy."""
    folder = files("lrpnumpy.serve") / "assets"
    texts = [(folder / name).read_text("utf-8") for name in (*SCRIPTS, "live.css")]
    first = {**facts["first"]["page"], "numbers": [1], "title": f"{facts['model']}, live", "live": facts}
    text = document(first, texts[:-1], "'self'", texts[-1])
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    return text.encode("utf-8", "replace"), f"{policy}; frame-ancestors 'none'"
