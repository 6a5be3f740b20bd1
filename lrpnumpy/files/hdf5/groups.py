"""What an object of an HDF5 file has by name: the links of a group, the attributes of any object.

Both are stored in the object's header as long as they are few, and in a heap with a tree beside it when they are many
(sections IV.A.2.c, IV.A.2.g, IV.A.2.m and IV.A.2.v); groups of old files have a table of symbols (III.B, III.C).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lrpnumpy.files.hdf5 import headers
from lrpnumpy.files.hdf5.headers import Message
from lrpnumpy.files.hdf5.heaps import Fractal, local
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, once
from lrpnumpy.files.hdf5.trees import ATTRIBUTES, GROUP, LINKS, leaves, records

_ENTRY = np.dtype([("key", "<u8"), ("child", "<u8")])
_OTHER = {1: "a soft link", 64: "a link to another file"}

Link = int | str  # the address of an object, or what else there is
Attribute = tuple[Message, Message, bytes]  # messages of its type and its shape, and its value, not yet looked at


def is_group(header: Sequence[Message]) -> bool:
    """Whether this is the header of a group."""
    return any(one.kind in (headers.SYMBOLS, headers.LINK_INFO, headers.LINK) for one in header)


def links(file: Pieces, header: Sequence[Message]) -> dict[bytes, Link]:
    """The names in a group, in their order."""
    found: dict[bytes, Link] = {}
    for one in header:
        if one.kind == headers.SYMBOLS:
            found |= _symbols(file, *Cursor(one.data).numbers("QQ"))
        elif one.kind == headers.LINK:
            found |= [_link(one.data)]
        elif one.kind == headers.LINK_INFO:
            found |= [_link(data) for data in _many(file, one.data, 8, LINKS, slice(4, None))]
    return dict(sorted(found.items()))


def attributes(file: Pieces, header: Sequence[Message]) -> dict[bytes, Attribute]:
    """The attributes of an object."""
    found: dict[bytes, Attribute] = {}
    for one in header:
        if one.kind == headers.ATTRIBUTE and not one.shared:
            found |= [_attribute(one.data)]
        elif one.kind == headers.ATTRIBUTE_INFO:
            found |= [_attribute(data) for data in _many(file, one.data, 2, ATTRIBUTES, slice(0, 8))]
    return found


def _many(file: Pieces, info: bytes, width: int, kind: int, name: slice) -> Iterator[bytes]:
    """The messages in a heap; `name` is where each record of the tree beside it has the name of one."""
    said = Cursor(info)
    _, flags = said.numbers("BB")
    said.take(width if flags & 1 else 0)
    heap, tree = said.numbers("QQ")
    if heap != UNDEFINED:
        objects = Fractal(file, heap)
        for row in records(file, tree, kind):
            yield objects.object(row[name].tobytes())


def _symbols(file: Pieces, tree: int, heap: int) -> Iterator[tuple[bytes, Link]]:
    names, seen = local(file, heap), set[int]()
    for node in leaves(file, tree, GROUP, _ENTRY)["child"].tolist():
        once(node, seen)
        _, _, count = file.cursor(node, 8, b"SNOD").numbers("BBH")
        table = file.cursor(node + 8, 40 * count)
        for _ in range(count):
            file.budget.visit("")
            start, address, cached, _, _, _ = table.numbers("QQIIQQ")
            end = names.find(b"\0", start)
            if not 0 <= start < end:
                raise Refused("has a name outside the names of its group")
            file.budget.hold("", end - start)
            yield names[start:end], _OTHER[1] if cached == 2 else address


def _link(data: bytes) -> tuple[bytes, Link]:
    said = Cursor(data)
    version, flags = said.numbers("BB")
    if version != 1:
        raise Refused(f"has a link of version {version}, which is not read")
    kind = said.number(1) if flags & 8 else 0
    said.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    name = said.take(said.number(1 << (flags & 3)))
    return name, _OTHER.get(kind, "a link of a foreign kind") if kind else said.number(8)


def _attribute(data: bytes) -> tuple[bytes, Attribute]:
    said = Cursor(data)
    version, flags, *lengths = said.numbers("BBHHH")
    if version not in (1, 2, 3):
        raise Refused(f"has an attribute of version {version}, which is not read")
    flags = flags if version > 1 else 0
    said.take(version == 3)  # which characters its name has
    parts = []
    for length in lengths:
        parts.append(said.take(length))
        said.take(-length % 8 if version == 1 else 0)
    name, kind, space = parts
    found = Message(headers.TYPE, bool(flags & 1), kind), Message(headers.SPACE, bool(flags & 2), space)
    return name.split(b"\0")[0], (*found, said.take(said.left))
