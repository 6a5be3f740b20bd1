"""Damage to texts: JSON by its values, text, CSV and YAML by their lines, the headers of .npy and safetensors."""

import json
import re

from .numbers import blind, number

ODD_NUMBERS = (
    "-1", "0", "1", "3", "1e999", "-1e999", "NaN", "-Infinity", "1e-320", "0.5", "9" * 50, "9" * 5000, "1" + "0" * 400,
    "true", str(2**31), str(2**53 + 1), str(2**63), str(-(2**63)), str(2**64), "-0.0", "1E400", "1e-400",
)  # fmt: skip
ODD_TEXTS = (
    "", " ", "\0", "\x1b[31m", "\u202e", "\ud800", "\udc80", "ÿ", "😀", "../../etc/passwd", "=cmd|' /C calc'!A0",
    "a" * 5000, "\\" * 3000, "nan", "all", "\n", "\u2028", "None", "<script>", "%s%n", "é" * 300, "/", "x" * 70,
    "<f8", "O", "M8[D]",
)  # fmt: skip
ODD_BYTES = (
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\x85", b"\xe2\x80\xa8", b"\\" * 4000,
    b"a" * 4000, b" " * 4000, b"'" * 500, b'"' * 500, b"&x", b"*x", b"- " * 300, b"[" * 2000, b"{" * 2000,
    b"!!python/object:x ", b"=1+1", b"1e999", b"nan", b"-", b"# ", b": ", b"\t", b"| ", b"> ", b"<<: ",
    b"\xf4\x90\x80\x80", b"9" * 5000,
)  # fmt: skip
RAW = "\ufdd0raw\ufdd0"  # stands where text that is not JSON is put in
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")


# ---------------------------------------------------------------------------------------------------------------- JSON


def damage_json(rng, content):
    """A JSON text with one to three of its values changed, left out, doubled, moved or nested."""
    try:
        whole = [json.loads(content)]
    except (ValueError, RecursionError):
        return blind(rng, content)
    raw, doubled = "null", None
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not whole:
            break
        holder, key = _somewhere(rng, whole)
        kind = rng.randrange(11)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            doubled = (key, holder[key])
        elif kind == 1:
            holder.insert(key, holder[key])
        elif kind == 2 and isinstance(holder, dict):
            holder[rng.choice((*ODD_TEXTS, *holder))] = holder.pop(key)
        elif kind in (2, 3):
            holder[key], raw = RAW, rng.choice(ODD_NUMBERS)
        elif kind == 4:
            holder[key] = rng.choice(ODD_TEXTS)
        elif kind == 5:
            holder[key] = rng.choice((None, True, False, [], {}, [[]], 0, "", {"": None}, [None], -1, 1.5, [1, 2, 3]))
        elif kind == 6:
            depth = rng.choice((2, 30, 100, 3000, 100_000))
            both = rng.choice((("[", "]"), ('{"a":', "}")))
            holder[key], raw = RAW, both[0] * depth + "1" + both[1] * depth
        elif kind == 7:
            other, at = _somewhere(rng, whole)
            holder[key] = json.loads(json.dumps(other[at]))
        elif kind == 8 and isinstance(holder[key], list) and holder[key]:
            holder[key] *= rng.choice((2, 3, 100, 1000)) if len(json.dumps(holder[key])) < 1000 else 2
        elif kind == 9 and isinstance(holder[key], (int, float)):
            holder[key] = holder[key] * rng.choice((-1, 2, 0.5, 1000)) + rng.choice((0, 1, -1))
        elif isinstance(holder[key], str):
            text = holder[key]
            at = rng.randint(0, len(text))
            holder[key] = text[:at] + rng.choice(ODD_TEXTS) + text[at + rng.randrange(3) :]
        else:
            holder[key] = [holder[key]]
    text = json.dumps(whole[0] if whole else None, ensure_ascii=rng.random() < 0.9)
    if doubled is not None and text.startswith("{"):
        text = "{" + json.dumps(doubled[0]) + ": " + json.dumps(doubled[1]) + ", " + text[1:]
    text = text.replace(json.dumps(RAW), raw).replace(json.dumps(RAW, ensure_ascii=False), raw)
    if rng.random() < 0.05:
        text = rng.choice(("\ufeff", " ", "[", "")) + text + rng.choice(("", ",", "}", "\0", "x"))
    return text.encode("utf-8", "surrogatepass")


def _somewhere(rng, whole):
    """A list or an object inside `whole`, which is a list of one, and the place of one of its values."""
    holder, key = whole, 0
    while isinstance(holder[key], (list, dict)) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


# --------------------------------------------------------------------------------------------------------------- lines


def damage_lines(rng, content):
    """A text with some of its lines left out, doubled, moved, joined or with odd characters in them."""
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        k, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        line = lines[k]
        kind = rng.randrange(9)
        at = rng.randint(0, len(line))
        if kind == 0 and len(lines) > 1:
            del lines[k]
        elif kind == 1:
            lines.insert(other, line)
        elif kind == 2:
            lines[k], lines[other] = lines[other], line
        elif kind == 3:
            lines[k] = line[:at] + rng.choice(ODD_BYTES) + line[at:]
        elif kind == 4:
            lines[k] = (b" ", b"    ", b"\t", b"  - ")[rng.randrange(4)] * rng.choice((1, 1, 2, 50)) + line
        elif kind == 5 and (found := list(_NUMBER.finditer(line))):
            one = rng.choice(found)
            lines[k] = line[: one.start()] + rng.choice(ODD_NUMBERS).encode() + line[one.end() :]
        elif kind == 6 and line[:1] in (b"{", b"["):
            lines[k] = damage_json(rng, line)
        elif kind == 7:
            lines[k] = line[:at]
        else:
            lines[k] = blind(rng, line)
    return b"\n".join(lines)


# ------------------------------------------------------------------------------------------------------------- headers


def damage_npy(rng, content):
    """A .npy file whose header says something else: another shape, type or order, or another length of itself."""
    wide = 4 if content[6:7] != b"\x01" else 2
    start = 8 + wide
    length = int.from_bytes(content[8:start], "little")
    header, data = content[start : start + length], content[start + length :]
    kind = rng.randrange(6)
    if kind == 0 and (found := list(_NUMBER.finditer(header))):
        one = rng.choice(found)
        header = header[: one.start()] + rng.choice(ODD_NUMBERS).encode() + header[one.end() :]
    elif kind == 1:
        types = (
            b"|O",
            b">f4",
            b"<f2",
            b"<f16",
            b"<c8",
            b"|S0",
            b"|S2000000000",
            b"<U9",
            b"|V0",
            b"<M8[D]",
            b"|b1",
            b"<i8",
            b"x",
        )
        header = re.sub(rb"'[<>|=][a-zA-Z0-9]+'", b"'" + rng.choice(types) + b"'", header)
    elif kind == 2:
        shapes = (
            b"()",
            b"(0,)",
            b"(-1, 2)",
            b"(2,) * 9",
            b"(9223372036854775807, 2)",
            b"(1,)",
            b"(3, 0)",
            b"(1.5,)",
            b"[2, 2]",
            b"((2,),)",
        )
        header = re.sub(rb"\([0-9, ]*\)", rng.choice(shapes), header)
    elif kind == 3:
        header = header.replace(b"False", rng.choice((b"True", b"1", b"None", b"'x'", b"(" * 90)))
    elif kind == 4:
        header = damage_lines(rng, header)
    else:
        length = number(rng, length, wide)
        return content[:8] + length.to_bytes(wide, "little") + header + data
    magic = content[:6] + bytes([rng.choice((1, 2, 3, 9)), 0]) if rng.random() < 0.1 else content[:8]
    wide = 2 if magic[6] == 1 else 4
    return magic + (len(header) % 256**wide).to_bytes(wide, "little") + header + data


def damage_safetensors(rng, content):
    """A safetensors file whose list of arrays says something else, or another length of itself."""
    length = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + length], content[8 + length :]
    if rng.random() < 0.15:
        return number(rng, length, 8).to_bytes(8, "little") + header + data
    if rng.random() < 0.1:
        data = blind(rng, data)
    header = damage_json(rng, header)
    return len(header).to_bytes(8, "little") + header + data
