"""What sources yield: raw records, in chunks, and records that cannot be used."""

from __future__ import annotations

from typing import Any, NamedTuple


class Bad(NamedTuple):
    """A record that cannot be used, and why."""

    reason: str


class Chunk(NamedTuple):
    """Some records that follow one another; the first has the number `first`, counted from 1."""

    first: int
    records: list[Any]


def too_long(length: int, longest: int) -> str:
    """Why a sequence is rejected that would not fit the memory."""
    return f"a sequence must have at most longest = {longest:,} steps, got {length:,}"
