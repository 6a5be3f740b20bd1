"""A live page on this machine for tests: a server in a thread, and requests to it as bytes."""

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from lrpnumpy.serve import Limits, Server, Worker


class Answer(NamedTuple):
    status: int  # 0 where the connection was closed without a word
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Live:
    """The address of a live page, and ways to talk to it."""

    def __init__(self, address, server):
        parts = urlsplit(address)
        self.address, self.server = address, server
        self.host, self.port = parts.hostname, parts.port
        self.token = parse_qs(parts.query)["token"][0]

    def connect(self, timeout=120):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def raw(self, content, timeout=120, parts=()):
        """The answer to these bytes; `parts` are sent one after the other as long as they are taken."""
        with self.connect(timeout) as one:
            try:
                for part in (content, *parts):
                    one.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it did not want to hear more
            return read(one)

    def head(self, method="GET", path="/state", token=None, **headers):
        """The head of a request that is let in, but for what is said otherwise; None leaves a header out."""
        said = {"Host": f"{self.host}:{self.port}", "X-Lrpnumpy-Token": self.token if token is None else token}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in said.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    def get(self, path="/state", **more):
        return self.raw(self.head("GET", path, **more))

    def post(self, body, **more):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        said = {"Content_Type": "application/json", "Content_Length": len(body), **more}
        return self.raw(self.head("POST", "/explain", **said) + body)

    def is_well(self):
        """Whether it still answers a good question."""
        found = self.post({"text": "A good film."})
        return found.status == 200 and found.json["tokens"] == ["A", "good", "film", "."]


def read(one):
    """What a socket says until it is closed."""
    content = b""
    try:
        while more := one.recv(1 << 16):
            content += more
    except ConnectionResetError:
        pass
    head, _, body = content.partition(b"\r\n\r\n")
    if not head:
        return Answer(0, {}, b"")
    first, *lines = head.decode().split("\r\n")
    return Answer(int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body)


@contextmanager
def served(model="sentiment", warm=True, **limits):
    """A live page of a model; limits are those of `Limits`. With `warm`, once all kernels are there."""
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), {}

    async def run():
        allowed = Limits(**limits)
        worker = Worker(model, {}, allowed)
        found["server"] = Server(worker, allowed)

        def tell(address):
            found["address"] = address
            ready.set()

        await found["server"].run("127.0.0.1", 0, tell)

    def work():
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            found["error"] = error
        finally:
            ready.set()
            for other in asyncio.all_tasks(loop):
                other.cancel()
            loop.run_until_complete(asyncio.sleep(0.05))
            loop.close()

    task = loop.create_task(run())
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(120)
        if "error" in found:
            raise found["error"]
        if warm:
            worker, until = found["server"].worker, time.monotonic() + 300
            while worker.progress["done"] < worker.progress["of"]:
                assert time.monotonic() < until
                time.sleep(0.05)
        yield Live(found["address"], found["server"])
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(120)
        assert not thread.is_alive()
