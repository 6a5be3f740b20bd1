"""What reading one file may cost: one object that counts bytes, objects, nesting and time.

Every reader works through the budget of its file, and so does every reader inside it (the HDF5 file in a `.keras`
archive, the pickle in a `.pt`). A reader asks before it takes, so that a file of a few hundred bytes can neither keep
the processor busy nor fill the memory. The promise: 1 s and 1 s more for every 100 MB of the file, and memory of
200 MB and twice the declared sizes of the arrays. These stay within `max_bytes`, and a small file cannot declare
large arrays (compressed zeros, one array under many names).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lrpnumpy.checks import WeightFileError

MAX_BYTES = 2 * 2**30  # all arrays of one model together, by default
MAX_UNPACKED = 64 * 2**20  # all arrays together, besides EXPANSION times the file's size
EXPANSION = 8  # trained weights do not compress nearly as well
MAX_NUMBERS = 2**22  # widths of values and arrays made from them, besides one number per byte of the file
MAX_HELD = 64 * 2**20  # texts, headers and members unpacked, besides what the file's own size allows
MAX_OBJECTS = 1_000_000  # values of a pickle or a JSON text, members, groups, links, chunks, messages
MAX_DEPTH = 32  # groups inside groups, modules inside modules
MAX_LAYERS = 1000  # of one network: each is checked against its neighbors, several times

# Of the processor's time, not the clock's: a slow disk is nobody's attack. A little less than is promised, since some
# time passes between two looks.
SECONDS = 0.8
SECONDS_PER_BYTE = 0.8e-8
_CLOCK = 64  # objects between two looks at the clock
_LARGE = 4096  # bytes that are worth a look


class Budget:
    """The limits of one file, and what has been used of them; `limited=False` is for trusted files."""

    def __init__(self, file: str, size: int, max_bytes: int = MAX_BYTES, *, limited: bool = True) -> None:
        self.file, self.max_bytes = file, max_bytes
        self._most_held = MAX_HELD + 2 * size
        self._most_bytes = MAX_UNPACKED + EXPANSION * size
        self._most_numbers = MAX_NUMBERS + size
        self._most_objects = MAX_OBJECTS if limited else float("inf")
        self._seconds = SECONDS + size * SECONDS_PER_BYTE if limited else float("inf")
        self._limited = limited
        self.restart()

    def restart(self) -> None:
        """Begin anew: for a file that is asked one question after the other."""
        self._bytes = self._held = self._objects = 0
        self._began = time.thread_time()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of something that is not about the file, such as the import of its reader."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._began += time.thread_time() - began

    def grow(self, size: int) -> None:
        """Allow for another file of this size, which belongs to this one."""
        self._most_held += 2 * size
        self._most_bytes += EXPANSION * size
        self._most_numbers += size
        self._seconds += size * SECONDS_PER_BYTE

    def refuse(self, where: str, reason: str) -> WeightFileError:
        """The error about a place in the file: file, place, reason."""
        return refusal(self.file, where, reason)

    def arrays(self, where: str, nbytes: int) -> None:
        """Count the declared size of an array, before it is read."""
        self.tick(where)
        if self._limited:
            self._bytes += nbytes
        if max(self._bytes, nbytes) > self.max_bytes:
            over = f"takes {nbytes:,} bytes, with what came before over the limit of {self.max_bytes:,}"
            raise self.refuse(where, f"{over}; pass a larger max_bytes if the file is trusted")
        if self._bytes > self._most_bytes and self.max_bytes <= MAX_BYTES:
            over = f"takes {nbytes:,} bytes, with the arrays before it more than {EXPANSION} times the file"
            raise self.refuse(where, f"{over}; pass max_bytes over {MAX_BYTES:,} if the file is trusted")

    def numbers(self, where: str, total: int) -> None:
        """Check how many numbers the widths of a network require in total, before arrays are created."""
        self.tick(where)
        if total > self._most_numbers:
            over = f"has values and arrays of {total:,} numbers together, over the limit of {self._most_numbers:,}"
            raise self.refuse(where, f"{over} for what the file declares but does not store")

    def hold(self, where: str, nbytes: int) -> None:
        """Count bytes that are unpacked or kept besides the arrays, before they are read."""
        if nbytes >= _LARGE:
            self.tick(where)
        if self._limited:
            self._held += nbytes
        if max(self._held, nbytes) > self._most_held:
            over = f"has {nbytes:,} bytes besides its arrays, with what came before over {self._most_held:,}"
            raise self.refuse(where, over)

    def visit(self, where: str, count: int = 1) -> None:
        """Count objects that are looked at; a look at the clock costs more than most of them, so not at every one."""
        before, self._objects = self._objects, self._objects + count
        if before // _CLOCK < self._objects // _CLOCK:
            self.tick(where)
        if self._objects > self._most_objects:
            raise self.refuse(where, f"has more than {MAX_OBJECTS:,} parts to look at; it is damaged or hostile")

    def level(self, where: str, depth: int) -> None:
        """See that something inside something else is not too deep down."""
        if depth > MAX_DEPTH:
            raise self.refuse(where, f"is more than {MAX_DEPTH} levels deep")

    def layers(self, count: int) -> None:
        """See that a network does not have too many layers, before it is made of them."""
        if count > MAX_LAYERS:
            raise self.refuse("", f"has a network of more than {MAX_LAYERS:,} layers")

    def tick(self, where: str = "") -> None:
        """Look at the clock."""
        if (used := time.thread_time() - self._began) > self._seconds:
            over = f"has kept the processor for {used:.1f} s, over the limit for its size"
            raise self.refuse(where, f"{over}; it is damaged or hostile")


def refusal(file: str, where: str, reason: str) -> WeightFileError:
    """The one way to refuse: file, place in it, reason."""
    parts = (file, where[:200], reason[:2000])  # the file may have names of any length
    return WeightFileError(": ".join(part for part in parts if part) + ".")
