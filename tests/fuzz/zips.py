"""Damage to zip archives: to what is inside a member, in an archive that is whole, or to what the archive says of it.

An archive is written here byte by byte, so that its two lists of members may contradict each other.
"""

import io
import struct
import zipfile
import zlib
from functools import lru_cache

from .numbers import blind, number

LOCAL, CENTRAL, END = "<4s5H3L2H", "<4s6H3L5H2L", "<4s4H2LH"
NUMBERS = ("crc", "packed", "size", "flags", "method", "offset", "name_length", "extra_length")
WIDTHS = {"crc": 4, "packed": 4, "size": 4, "flags": 2, "method": 2, "offset": 4, "name_length": 2, "extra_length": 2}
NAMES = (
    b"", b"../x", b"/etc/passwd", b"a\0b", b"\xff\xfe", b"x" * 70, b"x" * 60_000, b"data.pkl", b"model.weights.h5",
    b"config.json", b"archive/data.pkl", b"archive/data/0", b"metadata.json", b"C:\\x", b"a//b", b"a/",
    b".npy", b"weight_ih_l0.npy",
)  # fmt: skip


@lru_cache(200)
def members(content):
    """(name, method, bytes) of each member of an archive that is whole."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return tuple((one.filename.encode(), one.compress_type, archive.read(one)) for one in archive.infolist())


def damage_zip(rng, content, inside):
    """An archive with damage; `inside(rng, bytes)` damages the content of a member."""
    try:
        found = members(content)
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):
        return blind(rng, content)
    if rng.random() < 0.65:
        hurt = _weighted(rng, found)
        return archive([(n, m, inside(rng, data) if k == hurt else data) for k, (n, m, data) in enumerate(found)])
    return archive(found, rng)


def _weighted(rng, found):
    """A member that is not empty, most often one that says something about the others."""
    filled = [k for k, (_, _, data) in enumerate(found) if data]
    telling = [k for k in filled if found[k][0].endswith((b".pkl", b".json", b".h5"))]
    return rng.choice((telling if rng.random() < 0.7 else None) or filled or [0])


def _packed(method, data):
    if method != zipfile.ZIP_DEFLATED:
        return data
    squeezed = zlib.compressobj(6, zlib.DEFLATED, -15)
    return squeezed.compress(data) + squeezed.flush()


def archive(found, rng=None):
    """The bytes of an archive of (name, method, bytes); with `rng` one that lies."""
    found, lies = list(found), rng.randrange(9) if rng else -1
    if lies == 0:
        found.insert(rng.randint(0, len(found)), rng.choice(found))
    elif lies == 1:
        del found[rng.randrange(len(found))]
    elif lies == 2:
        k = rng.randrange(len(found))
        found[k] = (rng.choice((*NAMES, rng.choice(found)[0])), *found[k][1:])
    elif lies == 3:
        found += [(b"x%d" % k, 0, b"") for k in range(rng.choice((3, 300)))]
    out, central, hurt = bytearray(), [], rng.randrange(len(found)) if rng and found else -1
    for k, (name, method, data) in enumerate(found):
        packed = _packed(method, data)
        if lies == 4 and k == hurt:
            packed = blind(rng, packed)
        say = {"crc": zlib.crc32(data), "packed": len(packed), "size": len(data), "flags": 0, "method": method}
        say |= {"offset": len(out), "name_length": len(name), "extra_length": 0, "extra": b""}
        here, there = dict(say), dict(say)
        if lies in (5, 6) and k == hurt:
            for _ in range(rng.randint(1, 2)):
                what = rng.choice(NUMBERS)
                value = number(rng, say[what], WIDTHS[what])
                for side in rng.choice(((here,), (there,), (here, there))):
                    side[what] = value
        if lies == 7 and k == hurt:  # 64-bit sizes
            there["extra"] = struct.pack("<2H3Q", 1, 24, *(number(rng, len(data), 8) for _ in range(3)))
            there |= {"extra_length": 28} | dict.fromkeys(("packed", "size", "offset"), 2**32 - 1)
        if lies == 8 and k == hurt and central:  # two members of the same bytes
            there["offset"] = rng.choice(central)[1]["offset"] + rng.choice((0, 0, 1, 30))
        out += struct.pack(
            LOCAL, b"PK\3\4", 20, here["flags"], here["method"], 0, 33, here["crc"], here["packed"], here["size"],
            here["name_length"], here["extra_length"],
        )  # fmt: skip
        out += name + packed
        central.append((name, there))
    start = len(out)
    for name, there in central:
        out += struct.pack(
            CENTRAL, b"PK\1\2", 20, 20, there["flags"], there["method"], 0, 33, there["crc"],
            there["packed"], there["size"], there["name_length"], there["extra_length"], 0, 0, 0, 0, there["offset"],
        )  # fmt: skip
        out += name + there["extra"]
    end = [0, 0, len(central), len(central), len(out) - start, start, 0]
    if lies == 6 and rng.random() < 0.5:
        k = rng.randrange(7)
        end[k] = number(rng, end[k], 4 if k in (4, 5) else 2)
    out += struct.pack(END, b"PK\5\6", *(n % 65536 if k not in (4, 5) else n for k, n in enumerate(end)))
    return bytes(out)
