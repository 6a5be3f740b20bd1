"""Damage to content of any kind: what it is made of is recognized, and hurt where it hurts."""

import gzip
import zlib

from .hdf5 import SIGNATURE, damage_hdf5
from .numbers import blind
from .pickles import damage_pickle
from .protobuf import damage_onnx
from .texts import damage_json, damage_lines, damage_npy, damage_safetensors
from .zips import damage_zip


def damaged(rng, content):
    """`content` with some damage, most often to its structure."""
    return blind(rng, content) if rng.random() < 0.2 else _structure(content)(rng, content)


def _structure(content):
    """What damages content of this kind."""
    if content.startswith(b"PK\3\4"):
        return lambda rng, content: damage_zip(rng, content, damaged)
    if content.startswith(b"\x93NUMPY"):
        return damage_npy
    if content.startswith(b"\x1f\x8b"):
        return _damage_gzip
    if content.startswith((*(b"\x80%c" % k for k in range(2, 6)), b"(dp", b"(lp")):
        return damage_pickle
    if SIGNATURE in content[:4096]:
        return damage_hdf5
    if content[8:10] == b'{"':
        return damage_safetensors
    if content.startswith(b"\x08"):
        return damage_onnx
    if content[:1] in (b"{", b"[") and b"\n{" not in content[:2000]:
        return damage_json
    return damage_lines if content.isascii() or b"\n" in content[:200] else blind


def _damage_gzip(rng, content):
    """What is packed is damaged, and packed again, whole or not."""
    try:
        inside = gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return blind(rng, content)
    packed = gzip.compress(damaged(rng, inside), 1, mtime=0)
    kind = rng.randrange(6)
    if kind == 0:
        return packed + rng.choice((packed, packed[: len(packed) // 2], b"\0" * 20, b"x"))
    return blind(rng, packed) if kind == 1 else packed
