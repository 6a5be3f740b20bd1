"""Attacks on the live page: each is refused, and it goes on. All traffic stays on 127.0.0.1."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial

import pytest
from serving import Live, served

from lrpnumpy.serve.door import Bucket, Limits

MEGABYTE = b"x" * (1 << 20)
GOOD = {"text": "A good film."}


@pytest.fixture(scope="module")
def live():
    with served(warm=False) as found:
        yield found


@pytest.fixture(autouse=True)
def limited(live, monkeypatch):
    """Set limits for one test; by default a request must arrive within a second, and there may be many."""

    def limit(**limits):
        allowed = Limits(**limits)
        monkeypatch.setattr(live.server, "limits", allowed)
        monkeypatch.setattr(live.server.worker, "limits", allowed)
        live.server.bucket = Bucket(allowed, live.server.bucket.since)

    limit(patience=1.0, rate=1000, burst=1000)
    return limit


def recovers(live):
    """Whether a good question has its answer, on a busy machine after a while."""
    deadline = time.monotonic() + 60
    while not (is_well := live.is_well()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_well


@pytest.fixture(autouse=True)
def goes_on(live, limited, caplog):
    """After every attack a good question has its answer, and nothing went wrong unseen."""
    yield
    said = [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"]
    # A child that is gone before asyncio looks for it is no mistake.
    assert [one for one in said if not one.startswith("Unknown child process")] == []
    assert recovers(live)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "10.0.0.1:{port}",
        "127.0.0.1:1",
        "",
        None,
    ],
)
def test_another_host(live, host):
    found = live.get(Host=None if host is None else host.format(port=live.port))
    assert found.status == 403 and "Host" in found.json["error"]


@pytest.mark.parametrize("path", ["/", "/state", "/?token=", "/?token=wrong", "/state?token={half}"])
def test_no_token_or_a_wrong_one(live, path):
    found = live.get(path.format(half=live.token[:-1]), token="")
    assert found.status == 403 and live.token not in found.body.decode()
    assert live.post(GOOD, token="").status == 403
    assert live.post(GOOD, token="ä".encode().decode("latin-1")).status in (400, 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "file://"])
def test_a_page_of_somebody_else(live, origin):
    assert live.post(GOOD, Origin=origin).status == 403
    preflight = live.raw(live.head("OPTIONS", "/explain", Origin=origin, Access_Control_Request_Method="POST"))
    assert preflight.status == 405 and "access-control-allow-origin" not in preflight.headers


def test_a_body_of_10_mb(live):
    """It is refused by what it says of its size, before it is read."""
    head = live.head("POST", "/explain", Content_Type="application/json", Content_Length=10 << 20)
    start = time.monotonic()
    assert live.raw(head).status == 413  # not a byte of it was sent
    assert live.raw(head, parts=[MEGABYTE] * 10).status in (413, 0)
    assert time.monotonic() - start < 30


def test_a_body_of_10_mb_in_chunks(live):
    head = live.head("POST", "/explain", Content_Type="application/json", Transfer_Encoding="chunked")
    assert live.raw(head, parts=[b"100000\r\n" + MEGABYTE + b"\r\n"] * 10).status in (411, 0)
    assert live.raw(head + b"5\r\nhello\r\n0\r\n\r\n").status == 411
    assert live.post(GOOD, Transfer_Encoding="chunked").status == 411  # with a length besides


@pytest.mark.parametrize("size", [10, "-1", "1e3", "0x10", "1_0", " ", "9" * 30, "10, 10"])
def test_a_content_length_that_lies(live, size):
    """Less than is sent, or no number at all."""
    head = live.head("POST", "/explain", Content_Type="application/json", Content_Length=size)
    assert live.raw(head, parts=[MEGABYTE] * 10).status in (400, 411, 0)


def test_a_content_length_that_promises_more(live):
    head = live.head("POST", "/explain", Content_Type="application/json", Content_Length=1000)
    assert live.raw(head + b"{}").status == 408
    with live.connect() as one:  # and one that goes away in the middle
        one.sendall(head + b"{")


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/explain/../../etc/passwd",
        "/live.js",
        "/assets/live.js",
        "/.git/config",
        "/\\..\\windows",
        "/state%00",
        "http://evil.example/",
        "*",
    ],
)
def test_a_path_that_is_none(live, path):
    found = live.get(path)
    assert found.status in (400, 404) and b"root:" not in found.body


def test_a_question_cannot_name_a_file(live):
    for question in ({"model": "/etc/passwd"}, {"text": "a", "hints": {}}, {"csv": "/etc/passwd"}, {"path": "x"}):
        found = live.post(question)
        assert "root" not in found.json["error"]


def test_a_script_in_a_word_stays_a_word(live):
    word = "</script><script>evil</script>"
    found = live.post({"text": f"A {word} film"})
    assert found.status == 200 and found.headers["content-type"].startswith("application/json")
    assert word in found.json["tokens"] and found.headers["x-content-type-options"] == "nosniff"
    wrong = live.post({"text": "a", "methods": ["<script>alert(1)</script>"]})
    assert "unknown method" in wrong.json["error"] and wrong.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"text": "\xc3"}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"values": [[NaN]]}',
        b'{"values": [[Infinity]]}',
        b'{"values": [[1e999]]}',
        b'{"values": [[' + b"9" * 5000 + b"]]}",
        b'{"text": "\\ud800"}' + b" " * 10 + b"x",
        json.dumps({"values": [[[[[[1]]]]]]}).encode(),
        json.dumps({"values": [[1.0] * 100_000]}).encode(),
        json.dumps({"values": [[1.0]] * 100_000}).encode(),
        json.dumps({"values": {"__class__": "x"}}).encode(),
        json.dumps({"text": "a " * 400_000}).encode(),
        json.dumps({"csv": "1," * 400_000}).encode(),
        json.dumps({"csv": "1\n" * 300_000}).encode(),
        json.dumps({"text": "a", "options": {"eps": 1e308, "nodes": 10**18}}).encode(),
        json.dumps({"text": "a", "phrase": [-1, 10**18]}).encode(),
        json.dumps({"text": "a", "phrase": [[0, 1]] * 10_000}).encode(),
        json.dumps({"text": "\0\1\2", "methods": ["lrp-all"] * 1000}).encode(),
        b"null",
        b"1",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_no_question(live, body):
    found = live.post(body)
    assert found.status in (200, 400) and [*found.json] == ["error"]
    assert len(found.body) < 3000 and b"Traceback" not in found.body and b".py" not in found.body


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have(live, number):
    assert live.post(b'{"text": "a", "options": {"eps": %s}}' % number.encode()).status == 400


def test_half_a_character_in_a_word_is_a_word(live):
    assert live.post(b'{"text": "a \\ud800 film"}').status == 200


def test_headers_without_end(live):
    head = live.head().removesuffix(b"\r\n")
    assert live.raw(head, parts=[b"X-%d: %s\r\n" % (k, b"a" * 1000) for k in range(1000)]).status in (431, 0)
    assert live.raw(b"GET /" + b"a" * 1_000_000).status in (431, 0)
    assert live.raw(MEGABYTE).status in (431, 0)


def test_bytes_that_are_no_http(live):
    for content in (
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"\r\n\r\n",
    ):
        assert live.raw(content).status == 400


def test_an_internal_error_says_nothing_of_itself(live, monkeypatch, caplog):
    async def broken(question):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(live.server.worker, "ask", broken)
    found = live.post(GOOD)
    assert found.status == 500 and found.json == {"error": "internal error"}
    assert "secret of the house" in caplog.text
    monkeypatch.undo()


def test_a_question_that_takes_too_long_is_ended(live, limited, monkeypatch):
    """Many coalitions of a sentence: the process that computes is ended, and another one takes its place."""
    limited(compute=0.5)
    monkeypatch.setattr(live.server.worker, "progress", {"done": 1, "of": 1})  # or it would be given more time
    question = {"text": "a good film " * 7, "methods": ["shapley"], "options": {"players": 20}}
    before, start = live.server.worker.process.pid, time.monotonic()
    found = live.post(question)
    assert found.status == 503 and "took longer than 0.5 seconds" in found.json["error"]
    assert time.monotonic() - start < 60  # of the minutes that the answer would take
    limited()
    assert live.post(GOOD).status == 200 and live.server.worker.process.pid != before


def test_a_process_that_dies_is_started_again(live):
    live.server.worker.process.kill()
    assert live.post(GOOD).status in (200, 503)


# -- many at once --------------------------------------------------------------------------------------------


def at_once(live, content, count):
    """Statuses of so many requests that are sent at the same time; 0 for a connection that was closed."""

    async def one():
        try:
            reader, writer = await asyncio.open_connection(live.host, live.port)
            writer.write(content)
            line = await asyncio.wait_for(reader.readline(), 120)
            writer.close()
            return int(line.split()[1]) if line else 0
        except ConnectionError:
            return 0

    async def every():
        return await asyncio.gather(*(one() for _ in range(count)))

    return asyncio.run(every())


def test_1000_requests_at_once(live, limited):
    limited(rate=1.0)
    body = json.dumps(GOOD).encode()
    head = live.head("POST", "/explain", Content_Type="application/json", Content_Length=len(body))
    statuses = at_once(live, head + body, 1000)
    assert {*statuses} <= {200, 429, 503, 0} and statuses.count(200) >= 1
    assert statuses.count(200) <= 500
    limited()


def test_requests_that_come_too_fast(live, limited):
    limited(rate=0.01, burst=10)
    statuses = [live.get().status for _ in range(20)]
    assert statuses[:10] == [200] * 10 and statuses.count(429) >= 5
    limited()


def test_1000_requests_without_a_token_leave_the_rate_to_the_page(live, limited):
    limited()
    assert 200 not in at_once(live, live.head(token="wrong"), 1000)
    assert recovers(live)


def test_connections_that_never_end_give_up_their_place(live, limited):
    """200 heads without an end, and 200 connections without a word, which are all allowed to take an hour."""
    limited(patience=3600.0, strangers=128)
    with ExitStack() as stack:
        every = [stack.enter_context(live.connect()) for _ in range(400)]
        for one in every[::2]:
            with suppress(ConnectionError):  # for those beyond the limit there was no place from the beginning
                one.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert recovers(live)
        assert len(live.server.strangers) <= live.server.limits.strangers + 1
        with suppress(ConnectionResetError):
            assert every[0].recv(1) == b""  # the oldest had to go


def good_requests_in_a_flood(live, count):
    """The statuses of good requests while 300 connections without a token are opened again every 0.9 s."""
    over = threading.Event()

    def flood():
        while not over.is_set():
            with ExitStack() as stack:
                for _ in range(300):
                    with suppress(OSError):
                        stack.enter_context(live.connect())
                over.wait(0.9)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        time.sleep(0.5)
        statuses = []
        for _ in range(count):
            statuses.append(live.get().status)
            time.sleep(0.1)
    finally:
        over.set()
        thread.join()
    return statuses


def test_strangers_who_come_back_take_no_place_from_the_page(live, limited):
    limited()
    assert good_requests_in_a_flood(live, 20) == [200] * 20


def test_a_flood_where_few_files_may_be_open():
    """Connections that are accepted beyond the limit of the process would stop the server for seconds."""
    resource = pytest.importorskip("resource")
    command = [sys.executable, "-u", "-m", "lrpnumpy", "serve", "--port", "0"]
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (256, 256))
    environment = {**os.environ, "LRPNUMPY_COMPILE": "never"}
    options = {"env": environment, "preexec_fn": limit, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            address = next(line.strip() for line in process.stdout if "http://" in line)
            assert good_requests_in_a_flood(Live(address, None), 5) == [200] * 5
        finally:
            process.terminate()
        assert "Too many open files" not in process.stdout.read()


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_connection_that_is_cut_off(live, is_reset):
    """Right after the question, and in the middle of it."""
    body = json.dumps(GOOD).encode()
    head = live.head("POST", "/explain", Content_Type="application/json", Content_Length=len(body))
    for content in (head + body, head + body[:5], head[:20], live.head(token="wrong"), live.head("GET", "/")) * 4:
        with live.connect() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", is_reset, 0))
            one.sendall(content)


def test_an_answer_that_nobody_reads(live):
    with ExitStack() as stack:
        for _ in range(50):
            one = stack.enter_context(live.connect())
            one.sendall(live.head("GET", "/"))
        assert live.is_well()
