"""Damage to HDF5 files by their structures: superblock, object headers and messages, B-trees, heaps, lists of chunks.

A structure of the newer formats ends with a checksum. It is computed again after the damage, so that a reader does not
stop there: `sealed` says which bytes a checksum covers. The layouts are those of the HDF5 file format specification.
"""

import json
import re
from functools import lru_cache
from typing import NamedTuple

from .numbers import blind, number
from .texts import damage_json

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Widths of the fields behind a signature; the rest of the structure is taken as numbers of the last width.
STRUCTURES = {
    b"TREE": (1, 1, 2, 8),  # type, level, entries, siblings, then keys and children
    b"SNOD": (1, 1, 2, 8, 8, 4, 4, 8),  # version, 0, entries, then name, address, kind and scratch of each
    b"HEAP": (1, 3, 8, 8, 8),
    b"GCOL": (1, 3, 8, 2, 2, 4, 8),  # version, 0, size, then index, references, 0 and size of the first object
    b"BTHD": (1, 1, 4, 2, 2, 1, 1, 8, 2, 8),
    b"BTIN": (1, 1, 1),
    b"BTLF": (1, 1, 1),
    b"FRHP": (1, 2, 2, 1, 4, *(8,) * 12, 2, 8, 8, 2, 2, 8, 2),
    b"FHDB": (1, 8, 4, 1),
    b"FHIB": (1, 8, 4, 8),
    b"FAHD": (1, 1, 1, 1, 8, 8),
    b"FADB": (1, 1, 8, 8),
    b"EAHD": (1, 1, 1, 1, 1, 1, 1, 1, *(8,) * 7),
    b"EAIB": (1, 1, 8, 8),
    b"EADB": (1, 1, 8, 8),
    b"EASB": (1, 1, 8, 8),
    b"FSHD": (1, 1, 8),
    b"FSSE": (1, 8, 1),
}
# The same of messages, by their number; the rest of a message is taken as bytes.
MESSAGES = {
    0x01: (1, 1, 1, 1, 4, 8, 8),  # dataspace: version, axes, flags, then lengths
    0x02: (1, 1, 8, 8),  # link info
    0x03: (1, 1, 1, 1, 4, 2, 2, 1, 1, 1, 1, 4),  # datatype: class and version, bits, size, properties
    0x05: (1, 1, 1, 1, 4),  # fill value
    0x06: (1, 1, 1, 1),  # link
    0x08: (1, 1, 1, 8, 4, 4, 4),  # layout: version, class, axes or address
    0x0A: (1, 1, 2, 2),  # group info
    0x0B: (1, 1, 6, 2, 2, 2, 2),  # filters: version, number, then each
    0x0C: (1, 1, 2, 2, 2),  # attribute: version, flags, sizes of name, type and space
    0x10: (8, 8),  # continuation
    0x11: (8, 8),  # symbol table
    0x15: (1, 1, 8, 8),  # attribute info
}
_SIGNATURES = re.compile(b"|".join((b"OHDR", b"OCHK", *STRUCTURES)))
_JSON = re.compile(rb'\{"[a-zA-Z_]+": ?["\[{0-9nft]')


class Message(NamedTuple):
    """A message of an object header: where its type, size and body are, and how wide the first two are."""

    at: int
    wide: int  # bytes of the type
    body: int
    size: int
    kind: int


class Parts(NamedTuple):
    """What is known of a file."""

    fields: tuple  # (place, width) of numbers
    messages: tuple
    sealed: tuple  # (start, stop, place of the checksum) of what a checksum covers
    addresses: tuple  # of structures
    texts: tuple  # (start, length) of JSON, with the spaces behind it


# -------------------------------------------------------------------------------------------------------- the checksum


def lookup3(data):
    """Bob Jenkins' hash of bytes, with which HDF5 seals its newer structures."""

    def turn(x, k):
        return (x << k | x >> 32 - k) & 0xFFFFFFFF

    a = b = c = 0xDEADBEEF + len(data) & 0xFFFFFFFF
    rest, at = len(data), 0
    while rest > 12:
        a = a + int.from_bytes(data[at : at + 4], "little") & 0xFFFFFFFF
        b = b + int.from_bytes(data[at + 4 : at + 8], "little") & 0xFFFFFFFF
        c = c + int.from_bytes(data[at + 8 : at + 12], "little") & 0xFFFFFFFF
        a = (a - c & 0xFFFFFFFF) ^ turn(c, 4)
        c = c + b & 0xFFFFFFFF
        b = (b - a & 0xFFFFFFFF) ^ turn(a, 6)
        a = a + c & 0xFFFFFFFF
        c = (c - b & 0xFFFFFFFF) ^ turn(b, 8)
        b = b + a & 0xFFFFFFFF
        a = (a - c & 0xFFFFFFFF) ^ turn(c, 16)
        c = c + b & 0xFFFFFFFF
        b = (b - a & 0xFFFFFFFF) ^ turn(a, 19)
        a = a + c & 0xFFFFFFFF
        c = (c - b & 0xFFFFFFFF) ^ turn(b, 4)
        b = b + a & 0xFFFFFFFF
        rest, at = rest - 12, at + 12
    if not rest:
        return c
    a = a + int.from_bytes(data[at : at + min(4, rest)], "little") & 0xFFFFFFFF
    b = b + int.from_bytes(data[at + 4 : at + min(8, max(4, rest))], "little") & 0xFFFFFFFF
    c = c + int.from_bytes(data[at + 8 : at + min(12, max(8, rest))], "little") & 0xFFFFFFFF
    c = (c ^ b) - turn(b, 14) & 0xFFFFFFFF
    a = (a ^ c) - turn(c, 11) & 0xFFFFFFFF
    b = (b ^ a) - turn(a, 25) & 0xFFFFFFFF
    c = (c ^ b) - turn(b, 16) & 0xFFFFFFFF
    a = (a ^ c) - turn(c, 4) & 0xFFFFFFFF
    b = (b ^ a) - turn(a, 14) & 0xFFFFFFFF
    return (c ^ b) - turn(b, 24) & 0xFFFFFFFF


# ----------------------------------------------------------------------------------------------------------- the parts


def _number(data, at, width):
    return int.from_bytes(data[at : at + width], "little")


def _sealed(data, start, stop):
    """Whether the four bytes at `stop` are the checksum of those from `start` to there."""
    return stop + 4 <= len(data) and _number(data, stop, 4) == lookup3(data[start:stop])


def _new_header(data, at):
    """Where the messages of an object header begin and end, and whether each has a number of its creation."""
    flags = data[at + 5]
    start = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    return start, start + width, start + width + _number(data, start, width), bool(flags & 4)


def _new_messages(data, at, stop, ordered):
    """The messages of the newer format from `at` to `stop`."""
    while at + 4 <= stop:
        size, body = _number(data, at + 1, 2), at + 4 + 2 * ordered
        if body + size > stop:
            return
        yield Message(at, 1, body, size, data[at])
        at = body + size


def _old_messages(data, at, stop):
    """The messages of the older format from `at` to `stop`."""
    while at + 8 <= stop:
        size = _number(data, at + 2, 2)
        if at + 8 + size > stop:
            return
        yield Message(at, 2, at + 8, size, _number(data, at, 2))
        at += 8 + size


def _fields(at, widths, stop):
    """(place, width) of numbers of these widths from `at` on, the last one again and again until `stop`."""
    k = 0
    while at < stop:
        width = widths[min(k, len(widths) - 1)]
        if at + width <= stop:
            yield at, width
        at, k = at + width, k + 1


def _seal_of(data, at, stop):
    """The range of the checksum of a structure that begins at `at` and ends before `stop`: found by trying."""
    if data[at : at + 4] == b"FHDB":  # it stands in the header of the block and covers the whole block, itself as 0
        for block in (512, 1024, 2048, 4096):
            for place in (at + 17, at + 18):
                whole = bytearray(data[at : at + block])
                whole[place - at : place - at + 4] = bytes(4)
                if len(whole) == block and _number(data, place, 4) == lookup3(whole):
                    return at, at + block, place
        return None
    for end in range(at + 6, min(stop, at + 500)):
        if _sealed(data, at, end):
            return at, end, end
    return None


@lru_cache(400)
def parts(data):
    """What is known of a file that is whole."""
    base = data.find(SIGNATURE)
    fields, messages, sealed, old = [], [], [], []
    version = data[base + 8]
    if version < 2:
        widths = (1,) * 8 + (2, 2, 4) + ((2, 2) if version else ()) + (8, 8, 8, 8, 8, 8, 4, 4, 8, 8)
        fields += _fields(base + 8, widths, base + 8 + sum(widths))
        old.append(_number(data, base + 8 + sum(widths) - 32, 8) + base)
    else:
        fields += _fields(base + 8, (1, 1, 1, 1, 8, 8, 8, 8), base + 44)
        sealed.append((base, base + 44, base + 44))
    places = [found.start() for found in _SIGNATURES.finditer(data, base)]
    waiting = []  # pieces of headers: start, stop, whether they have signatures, whether each message has an order
    for at, stop in zip(places, [*places[1:], len(data)], strict=True):
        sign = data[at : at + 4]
        if sign == b"OHDR":
            size, first, last, ordered = _new_header(data, at)
            fields += [(at + 4, 1), (at + 5, 1), (size, first - size)]
            waiting.append((first, last, True, ordered))
            if _sealed(data, at, last):
                sealed.append((at, last, last))
        elif sign != b"OCHK":
            fields += _fields(at + 4, STRUCTURES[sign], min(stop, at + 200))
            if sign not in (b"TREE", b"SNOD", b"HEAP", b"GCOL") and (range_ := _seal_of(data, at, stop)):
                sealed.append(range_)
        if sign == b"SNOD":
            old += [base + _number(data, at + 16 + 40 * k, 8) for k in range(min(64, _number(data, at + 6, 2)))]
    for at in dict.fromkeys(old):
        if data[at : at + 2] == b"\1\0" and at + 16 <= len(data):
            fields += [(at, 1), (at + 2, 2), (at + 4, 4), (at + 8, 4)]
            waiting.append((at + 16, at + 16 + _number(data, at + 8, 4), False, False))
    for start, stop, new, ordered in waiting:  # which grows
        for one in list(_new_messages(data, start, stop, ordered) if new else _old_messages(data, start, stop)):
            messages.append(one)
            fields += [(one.at, one.wide), (one.at + one.wide, 2), (one.at + one.wide + 2, 1)]
            fields += _fields(one.body, (*MESSAGES.get(one.kind, (1,)), 1), one.body + min(one.size, 64))
            if one.kind == 0x10 and one.size >= 16:
                more, length = base + _number(data, one.body, 8), _number(data, one.body + 8, 8)
                if new and data[more : more + 4] == b"OCHK" and _sealed(data, more, more + length - 4):
                    sealed.append((more, more + length - 4, more + length - 4))
                    waiting.append((more + 4, more + length - 4, True, ordered))
                elif not new and len(waiting) < 1000:
                    waiting.append((more, more + length, False, False))
    addresses = [*(at - base for at in (*places, *dict.fromkeys(old))), len(data), 2**64 - 1]
    return Parts(tuple(fields), tuple(messages), tuple(sealed), tuple(addresses), tuple(_texts(data)))


def _texts(data):
    at = 0
    while found := _JSON.search(data, at):
        text = data[found.start() : found.start() + 100_000].decode("utf-8", "ignore")
        at = found.end()
        try:
            _, length = json.JSONDecoder().raw_decode(text)
        except ValueError:
            continue
        room = length + len(text[length:]) - len(text[length:].lstrip(" "))
        if length > 20 and text[:room].isascii():
            yield found.start(), room
        at = found.start() + length


# ---------------------------------------------------------------------------------------------------------- the damage


def damage_hdf5(rng, content):
    """An HDF5 file with damage to one to four of its structures, whose checksums are right nevertheless."""
    try:
        known = parts(content)
    except (IndexError, ValueError):
        return blind(rng, content)
    data, touched = bytearray(content), []
    if known.texts and rng.random() < 0.3:
        start, room = rng.choice(known.texts)
        text = damage_json(rng, content[start : start + room].rstrip(b" "))[:room]
        data[start : start + room] = text.ljust(room)
        touched.append(start)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            touched.append(_hurt(rng, data, known))
    if rng.random() < 0.9:
        for start, stop, place in known.sealed:
            if any(start <= at < stop for at in touched):
                data[place : place + 4] = bytes(4)
                data[place : place + 4] = lookup3(data[start:stop]).to_bytes(4, "little")
    return bytes(data)


def _hurt(rng, data, known):
    """Damage one structure; the place where it was."""
    kind = rng.randrange(8)
    if kind < 5 or not known.messages:
        at, width = rng.choice(known.fields)
        value = number(rng, _number(data, at, width), width, known.addresses)
        data[at : at + width] = value.to_bytes(width, "little")
        return at
    one, other = rng.choice(known.messages), rng.choice(known.messages)
    if kind == 5:  # another type
        data[one.at] = rng.choice((0, rng.randrange(0x19), other.kind & 0xFF, 0xFF))
    elif kind == 6:  # the content of another message
        size = min(one.size, other.size)
        data[one.body : one.body + size] = data[other.body : other.body + size]
        if rng.random() < 0.5:
            data[one.at] = other.kind & 0xFF
    elif one.size:  # any number in it
        width = min(rng.choice((1, 1, 2, 4, 8)), one.size)
        at = one.body + rng.randint(0, one.size - width)
        data[at : at + width] = number(rng, _number(data, at, width), width, known.addresses).to_bytes(width, "little")
    return one.at
