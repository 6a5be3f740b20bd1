"""The objects of an HDF5 file: where the first of them is, the header of one, and its named members.

A header is a list of messages (section IV.A.1; the superblock is II.A). Links of a group and attributes are among them
as long as they are few, and in a heap with a tree beside it when they are many (IV.A.2.c, IV.A.2.g, IV.A.2.m and
IV.A.2.v); groups of old files have a table of symbols (III.B, III.C).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.hdf5.heaps import Fractal, local
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, walked
from lrpnumpy.files.hdf5.trees import ATTRIBUTES, GROUP, LINKS, leaves, records

SIGNATURE = b"\x89HDF\r\n\x1a\n"

# The kinds of messages that are read, and the last one that the specification has.
SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT, FILTERS = 1, 2, 3, 6, 7, 8, 11
ATTRIBUTE, CONTINUED, SYMBOLS, ATTRIBUTE_INFO, LAST = 12, 16, 17, 21, 24

_ENTRY = np.dtype([("key", "<u8"), ("child", "<u8")])
SHARED = (
    "has an attribute that it shares with another object, which is not read; write the file without shared messages"
)
_OTHER = {1: "a soft link", 64: "a link to another file"}


class Message(NamedTuple):
    """A part of an object's header."""

    kind: int
    shared: bool  # it points to the real message
    data: bytes
    at: int = 0  # the address of the data

    def cursor(self) -> Cursor:
        """Its bytes, if they are here."""
        if self.shared:
            raise Refused("has a type or a shape that is stored in another object, which is not read")
        return Cursor(self.data)


Link = int | str  # the address of an object, or what else there is
Attribute = tuple[Message, Message, bytes]  # messages of its type and its shape, and its value, not yet looked at


class Object:
    """The header of an object, and its links and attributes, which are read once."""

    def __init__(self, file: Pieces, address: int) -> None:
        self._file, self.header = file, messages(file, address)
        self.is_group = any(one.kind in _LINKS for one in self.header)

    @cached_property
    def links(self) -> dict[bytes, Link]:
        """The names in a group, in their order."""
        return dict(sorted(self._named(_LINKS).items()))

    @cached_property
    def attributes(self) -> dict[bytes, Attribute]:
        """The attributes by their names."""
        return self._named(_ATTRIBUTES)

    def _named(self, readers: dict[int, Callable[[Pieces, Message], Iterable[Any]]]) -> dict[bytes, Any]:
        found = [pair for one in self.header if one.kind in readers for pair in readers[one.kind](self._file, one)]
        if len(by_name := dict(found)) < len(found):
            raise Refused("has two links or attributes of one name")
        return by_name


def root_of(file: Pieces) -> int:
    """The address of the root group; addresses count from the signature, which is at 0, 512, 1024, 2048, …"""
    start = 0
    while start + len(SIGNATURE) <= file.size and file.cut(start, len(SIGNATURE)) != SIGNATURE:
        start = start * 2 or 512
    if start + len(SIGNATURE) > file.size:
        raise Refused("is not an HDF5 file")
    file.base = start
    version = file.cut(len(SIGNATURE), 1)[0]
    if version > 3:
        raise Refused(f"has a superblock of version {version}, which is not read")
    if version >= 2:
        block, addresses = file.checked(0, 48, SIGNATURE, 1), "x4Q"
    else:
        block, addresses = file.cursor(0, 96 + 4 * version, SIGNATURE), f"{9 + 4 * version}x6Q"
        block.take(5)  # versions
    if block.take(2) != b"\x08\x08":
        raise Refused("has addresses or sizes of other than 8 bytes")
    base, _, end, *_, root = block.numbers(addresses)  # behind flags and sizes of nodes, which nodes say themselves
    if end - base > file.size - file.base:
        raise Refused(f"has {file.size - file.base:,} bytes instead of {end - base:,}, it is truncated")
    return root


def messages(file: Pieces, address: int) -> list[Message]:
    """The messages in an object's header, which may go on elsewhere in the file."""
    found: list[Message] = []
    new = file.cut(address, 4) == b"OHDR"
    if new:
        version, flags = file.cut(address + 4, 2)
        head = "BHB"  # of a message
        if flags & 4:
            head += "xx"  # its number
        start = 6 + 16 * bool(flags & 32) + 4 * bool(flags & 16)
        width = 1 << (flags & 3)
        length = int.from_bytes(file.cut(address + start, width), "little")
        blocks = [(address, file.checked(address, start + width + length + 4, b"OHDR", start + width - 4))]
    else:
        version, _, _, _, length = file.cursor(address, 12).numbers("BBHII")
        head = "HHBxxx"
        blocks = [(address + 16, file.cursor(address + 16, length))]
    if version != 1 + new:
        raise Refused(f"has an object of version {version} at {address:,}, which is not read")
    for place, block in walked(blocks):
        while block.left >= struct.calcsize(f"<{head}"):
            file.budget.visit("")
            kind, size, flags = block.numbers(head)
            one = Message(kind, bool(flags & 2), block.take(size), place + block.at - size)
            if kind > LAST and flags & 128:
                raise Refused(f"has a required message of kind {kind}, which is not supported")
            if kind != CONTINUED:
                found.append(one)
                continue
            further, size = Cursor(one.data).numbers("QQ")
            if new:
                blocks.append((further, file.checked(further, size, b"OCHK")))
            else:
                blocks.append((further, file.cursor(further, size)))
    return found


def _many(file: Pieces, info: bytes, width: int, kind: int, name: slice) -> Iterator[bytes]:
    """The messages in a heap; `name` is where each record of the tree beside it has the name of one."""
    said = Cursor(info)
    _, flags = said.numbers("BB")
    said.take(width * (flags & 1))
    heap, tree = said.numbers("QQ")
    if heap != UNDEFINED:
        objects = Fractal(file, heap)
        for row in records(file, tree, kind):
            if kind == ATTRIBUTES and row[8] & 2:
                raise Refused(SHARED)
            yield objects.object(row[name].tobytes())


def _symbols(file: Pieces, tree: int, heap: int) -> Iterator[tuple[bytes, Link]]:
    names = local(file, heap)
    for (node,) in walked(leaves(file, tree, GROUP, _ENTRY)[["child"]].tolist()):
        _, _, count = file.cursor(node, 8, b"SNOD").numbers("BBH")
        table = file.cursor(node + 8, 40 * count)
        for _ in range(count):
            file.budget.visit("")
            start, address, cached, _, _, _ = table.numbers("QQIIQQ")
            end = names.find(b"\0", start)
            if not 0 <= start < end:
                raise Refused("has a name outside the names of its group")
            file.budget.hold("", end - start)
            if cached == 2:
                yield names[start:end], _OTHER[1]
            else:
                yield names[start:end], address


def _link(data: bytes) -> tuple[bytes, Link]:
    said = Cursor(data)
    version, flags = said.numbers("BB")
    if version != 1:
        raise Refused(f"has a link of version {version}, which is not read")
    kind = said.number(bool(flags & 8))
    said.take(8 * bool(flags & 4) + bool(flags & 16))
    name = said.take(said.number(1 << (flags & 3)))
    if kind:
        return name, _OTHER.get(kind, "a link of a foreign kind")
    return name, said.number(8)


def _attribute(data: bytes, shared: bool = False) -> tuple[bytes, Attribute]:
    if shared:
        raise Refused(SHARED)
    said = Cursor(data)
    version, flags, *lengths = said.numbers("BBHHH")
    if version not in (1, 2, 3):
        raise Refused(f"has an attribute of version {version}, which is not read")
    said.take(version == 3)  # which characters its name has
    multiple = 1
    if version == 1:  # no flags, and parts are filled up to multiples of 8 bytes
        flags, multiple = 0, 8
    parts = []
    for length in lengths:
        parts.append(said.take(length))
        said.take(-length % multiple)
    name, kind, space = parts
    found = Message(TYPE, bool(flags & 1), kind), Message(SPACE, bool(flags & 2), space)
    return name.split(b"\0")[0], (*found, said.take(said.left))


# What a message has by name: pairs.
_LINKS: dict[int, Callable[[Pieces, Message], Iterable[tuple[bytes, Link]]]] = {
    SYMBOLS: lambda file, one: _symbols(file, *Cursor(one.data).numbers("QQ")),
    LINK: lambda file, one: [_link(one.data)],
    LINK_INFO: lambda file, one: map(_link, _many(file, one.data, 8, LINKS, slice(4, None))),
}
_ATTRIBUTES: dict[int, Callable[[Pieces, Message], Iterable[tuple[bytes, Attribute]]]] = {
    ATTRIBUTE: lambda file, one: [_attribute(one.data, one.shared)],
    ATTRIBUTE_INFO: lambda file, one: map(_attribute, _many(file, one.data, 2, ATTRIBUTES, slice(0, 8))),
}
