"""Who may come in: the head of an HTTP request, read strictly; everything that does not fit is a Refusal."""

from __future__ import annotations

import hmac
import ipaddress
import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

TOKEN = "x-lrpnumpy-token"  # the header that the page sends the token in
LOCAL = ("127.0.0.1", "localhost", "[::1]")
ROUTES = {"/": "GET", "/state": "GET", "/explain": "POST"}  # all there is; none of them names a file


class Refusal(Exception):
    """A request that is not answered: a status, and a sentence with the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True)
class Limits:
    """How much one page may ask for."""

    head: int = 16 << 10  # bytes of a request's first line and headers
    body: int = 1 << 20  # bytes
    patience: float = 5.0  # seconds until a request must have arrived
    compute: float = 10.0  # seconds that an answer may take; then its process is ended
    rate: float = 40.0  # requests a second, on average
    burst: int = 80  # requests at once
    waiting: int = 16  # requests that wait for an answer
    connections: int = 64  # that are open and have shown the token; few systems allow fewer than 256 files
    strangers: int = 96  # that are open and have not


class Head(NamedTuple):
    """The head of a request."""

    method: str
    path: str
    token: str  # of the address, or of the header
    headers: dict[str, str]  # names in lower case


def parsed(head: bytes) -> Head:
    """A head from its bytes, which end with an empty line."""
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        raise Refusal(400, "A request must have a first line of three words, all of it ASCII.") from None
    if version not in ("HTTP/1.1", "HTTP/1.0") or not target.startswith("/"):
        raise Refusal(400, "A request must be HTTP/1.1 for a path that begins with a slash.")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if (
            not colon
            or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
            or re.search(r"[\0-\x08\x0a-\x1f]", value)
        ):
            raise Refusal(400, "A header must be a name, a colon and a value.")
        if name.lower() in headers and name.lower() in ("host", "content-length", "origin", TOKEN):
            raise Refusal(400, f"{name.lower()} must occur once.")
        headers[name.lower()] = value.strip()
    try:
        parts = urlsplit(target)
        asked = parse_qs(parts.query, max_num_fields=8)
    except ValueError:
        raise Refusal(400, "The address must be a path and a query.") from None
    return Head(method, parts.path, headers.get(TOKEN) or asked.get("token", [""])[0], headers)


@dataclass(frozen=True)
class Door:
    """Which requests are let in."""

    token: str
    host: str  # where the server listens
    port: int

    def check(self, head: Head) -> None:
        """Raise unless a request is for this server, from its own page, and for something that there is."""
        host = head.headers.get("host", "")
        if not self._is_own(host):
            raise Refusal(403, "Host must be the address that the server was started with.")
        if head.path not in ROUTES:
            raise Refusal(404, "There is nothing here.")
        if head.method != ROUTES[head.path]:
            raise Refusal(405, f"The method must be {ROUTES[head.path]}.")
        if not hmac.compare_digest(head.token.encode(), self.token.encode()):
            raise Refusal(403, "The address must have the token that the server printed when it started.")
        origin = head.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise Refusal(403, "Origin must be the page of this server.")

    def _is_own(self, host: str) -> bool:
        """Whether a Host is ours. A name that leads here without our knowledge would be an attack by DNS."""
        name, _, port = host.lower().rpartition(":")
        if port != str(self.port):
            return host.lower() in LOCAL and self.port == 80
        if name in LOCAL or name == self.host.lower():
            return True
        return not is_local(self.host) and is_number(name)


def is_number(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_local(host: str) -> bool:
    """Whether a host is this machine's loopback, which no other machine reaches."""
    return host == "localhost" or (is_number(host) and ipaddress.ip_address(host.strip("[]")).is_loopback)


def body_size(head: Head, limits: Limits) -> int:
    """How many bytes of body are to be read: said in advance, and not too many."""
    if "transfer-encoding" in head.headers:
        raise Refusal(411, "The body must come in one piece, with its Content-Length.")
    if head.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "Content-Type must be application/json.")
    size = head.headers.get("content-length", "")
    if not re.fullmatch(r"[0-9]{1,12}", size):
        raise Refusal(411, "Content-Length must be a number.")
    if int(size) > limits.body:
        raise Refusal(413, f"The input must have at most {limits.body:,} bytes, got {int(size):,}.")
    return int(size)


class Bucket:
    """A rate: `burst` requests at once, and `rate` a second after that."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits, self.left, self.since = limits, float(limits.burst), now

    def take(self, now: float) -> None:
        """Count one request, or refuse it."""
        self.left = min(self.limits.burst, self.left + (now - self.since) * self.limits.rate)
        self.since = now
        if self.left < 1:
            raise Refusal(429, f"There must be at most {self.limits.rate:g} requests a second; try again in a moment.")
        self.left -= 1
