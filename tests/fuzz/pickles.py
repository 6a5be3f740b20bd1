"""Damage to pickles by their instructions."""

import pickletools
from functools import lru_cache

from .numbers import EDGES, blind

OPCODES = [one.code.encode("latin-1") for one in pickletools.opcodes]


@lru_cache(200)
def _instructions(content):
    """The instructions of the pickles that stand one behind the other in `content`, and where the last one ends."""
    parts, at = [], 0
    while at < len(content):
        try:
            places = [place for _, _, place in pickletools.genops(content[at:])]
        except (ValueError, UnicodeDecodeError):  # behind the last pickle
            break
        ends = [*places[1:], places[-1] + 1]
        parts += [content[at + a : at + b] for a, b in zip(places, ends, strict=True)]
        at += ends[-1]
    return tuple(parts), at


def damage_pickle(rng, content):
    """`content`, pickles one behind the other and perhaps more, with one to three instructions changed.

    An instruction is taken out, written twice, moved, replaced by another one, its number made large, or its text odd.
    """
    found, end = _instructions(content)
    if not found:
        return blind(rng, content)
    parts = list(found)
    for _ in range(rng.randint(1, 3)):
        k, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(8)
        if kind == 0:
            parts[k] = b""
        elif kind == 1:
            parts[k] *= 2
        elif kind == 2:
            parts[k], parts[other] = parts[other], parts[k]
        elif kind == 3:
            parts[k] = parts[other]
        elif kind == 4 and parts[k]:
            parts[k] = rng.choice(OPCODES) + parts[k][1:]
        elif kind == 5:
            parts[k] = b"\x8a\x09" + (rng.choice(EDGES) * rng.choice((1, -1))).to_bytes(9, "little", signed=True)
        elif kind == 6:
            parts[k] = blind(rng, parts[k])
        else:
            parts[k] *= rng.choice((100, 10_000))
    return b"".join(parts) + (blind(rng, content[end:]) if rng.random() < 0.1 else content[end:])
