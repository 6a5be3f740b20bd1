"""Where an HDF5 file begins, and the header of each object in it: a list of messages, of both versions.

HDF5 File Format Specification, sections II.A (superblock) and IV.A.1 (object headers).
"""

from __future__ import annotations

from typing import NamedTuple

from lrpnumpy.files.hdf5.pieces import Cursor, Pieces, Refused, once

SIGNATURE = b"\x89HDF\r\n\x1a\n"

# The kinds of messages that are read.
SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT, FILTERS = 1, 2, 3, 6, 7, 8, 11
ATTRIBUTE, CONTINUED, SYMBOLS, ATTRIBUTE_INFO = 12, 16, 17, 21


class Message(NamedTuple):
    """A part of an object's header."""

    kind: int
    shared: bool  # it says where the message really is
    data: bytes

    def cursor(self) -> Cursor:
        """Its bytes, if they are here."""
        if self.shared:
            raise Refused("has a type or a shape that is stored in another object, which is not read")
        return Cursor(self.data)


def root_of(file: Pieces) -> int:
    """The address of the root group; addresses count from the signature, which is at 0, 512, 1024, 2048, …"""
    start = 0
    while file.cut(start, len(SIGNATURE)) != SIGNATURE:
        start = start * 2 or 512
    file.base = start
    version = file.cut(len(SIGNATURE), 1)[0]
    if version > 3:
        raise Refused(f"has a superblock of version {version}, which is not read")
    if version >= 2:
        block = file.checked(0, 48, SIGNATURE)
        _, *sizes, _ = block.numbers("BBBB")
        base, _, end, root = block.numbers("4Q")
    else:
        block = file.cursor(0, 96 + 4 * version, SIGNATURE)
        *_, offsets, lengths, _ = block.numbers("8B")
        block.take(8 + 4 * version)  # sizes of nodes, which the nodes say themselves
        base, _, end, _, _, root = block.numbers("6Q")
        sizes = [offsets, lengths]
    if sizes != [8, 8]:
        raise Refused("has addresses or sizes of other than 8 bytes")
    if end - base > file.size - file.base:
        raise Refused(f"says that it has {end - base:,} bytes and has {file.size - file.base:,}, it is truncated")
    return root


def messages(file: Pieces, address: int) -> list[Message]:
    """The messages in an object's header, which may go on elsewhere in the file."""
    found: list[Message] = []
    seen = {address}
    new = file.cut(address, 4) == b"OHDR"
    tracked = False  # whether messages have a number
    if new:
        version, flags = file.cut(address + 4, 2)
        tracked = bool(flags & 4)
        start = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        width = 1 << (flags & 3)
        length = int.from_bytes(file.cut(address + start, width), "little")
        first = file.checked(address, start + width + length + 4, b"OHDR")
        first.take(start + width - 4)
    else:
        version, _, _, _, length = file.cursor(address, 12).numbers("BBHII")
        first = file.cursor(address + 16, length)
    if version != 1 + new:
        raise Refused(f"has an object of version {version} at {address:,}, which is not read")
    blocks = [first]
    for block in blocks:  # grows while it is walked
        while block.left >= (4 + 2 * tracked if new else 8):
            file.budget.visit("")
            kind, size, flags = block.numbers("BHB" if new else "HHB")
            block.take(2 * tracked if new else 3)
            one = Message(kind, bool(flags & 2), block.take(size))
            if kind != CONTINUED:
                found.append(one)
                continue
            further, size = Cursor(one.data).numbers("QQ")
            once(further, seen)
            blocks.append(file.checked(further, size, b"OCHK") if new else file.cursor(further, size))
    return found
