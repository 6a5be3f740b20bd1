"""Damage to ONNX files by the fields of their messages."""

from functools import lru_cache
from types import SimpleNamespace

from lrpnumpy.files.build.constants import FOLDED

from .numbers import EDGES, blind, number
from .texts import ODD_TEXTS

# Which fields of a message are messages: {kind of message: {field: its kind}}.
KINDS = {
    "model": {7: "graph", 8: "opset", 14: "pair"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {13: "pair"},
    "value": {2: "type"},
    "type": {1: "array"},
    "array": {2: "shape"},
    "shape": {1: "dimension"},
}
OPERATORS = (
    "LSTM", "GRU", "RNN", "Gemm", "Loop", "If", "Scan", "Xx", "Sum", "Conv", "Pad", "Softmax", "BatchNormalization",
    *FOLDED,
)  # fmt: skip


def varint(value):
    """A number as bytes of seven bits."""
    value, out = value % 2**64, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _parse(data, kind):
    """The fields of a message: number, wire type, and a number, bytes, or the fields inside."""
    fields, at = [], 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire == 2:
            length, at = _read_varint(data, at)
            value, at = data[at : at + length], at + length
            if inner := KINDS.get(kind, {}).get(field):
                value = _parse(value, inner)
        else:
            width = {1: 8, 5: 4}[wire]
            value, at = data[at : at + width], at + width
        fields.append((field, wire, value))
    return tuple(fields)


@lru_cache(200)
def parsed(content):
    """The fields of a whole file."""
    return _parse(content, "model")


def _written(fields):
    out = bytearray()
    for one in fields:
        if isinstance(one, bytes):  # damaged already
            out += one
            continue
        field, wire, value = one
        out += varint(field << 3 | wire)
        if wire == 0:
            out += varint(value)
        elif wire == 2:
            value = _written(value) if isinstance(value, tuple) else value
            out += varint(len(value)) + value
        else:
            out += value
    return bytes(out)


def damage_onnx(rng, content):
    """An ONNX file with one to three of its fields changed, at any depth."""
    try:
        fields = parsed(content)
    except (IndexError, KeyError):
        return blind(rng, content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        fields = _hurt(rng, fields)
    return _written(fields)


def _hurt(rng, fields):
    """The fields of a message with damage to one of them, or inside it."""
    if not fields:
        return (b"\x08\x01",)
    k = rng.randrange(len(fields))
    one = fields[k]
    if isinstance(one, bytes):
        return fields
    field, wire, value = one
    if isinstance(value, tuple) and rng.random() < 0.9:
        return (*fields[:k], (field, wire, _hurt(rng, value)), *fields[k + 1 :])
    return (
        *fields[:k],
        *_instead(rng, SimpleNamespace(field=field, wire=wire, value=value), one, fields),
        *fields[k + 1 :],
    )


def _instead(rng, it, one, fields):
    """What stands in the place of a field."""
    kind = rng.randrange(10)
    raw = _written([one])
    if kind == 0:
        return ()
    if kind == 1:
        return (one,) * rng.choice((2, 3, 1000 if len(raw) < 200 else 2))
    if kind == 2:
        return ((rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 20, 2**28)), it.wire, it.value),)
    if kind == 3:  # another wire type before the same bytes
        return (varint(it.field << 3 | rng.randrange(8)) + raw[1:],)
    if kind == 4:
        return (rng.choice(fields),)
    if kind == 5:
        return (raw[: rng.randint(0, len(raw))],)
    if it.wire == 0:
        if kind == 6:
            return (varint(it.field << 3) + b"\xff" * rng.choice((9, 10, 11, 400)) + b"\1",)
        return ((it.field, 0, number(rng, it.value, 8)),)
    if it.wire == 2:
        value = it.value if isinstance(it.value, bytes) else _written(it.value)
        if kind == 6:  # a length that is not so
            return (varint(it.field << 3 | 2) + varint(rng.choice((*EDGES, len(value) + 1, len(value) - 1))) + value,)
        if kind == 7:
            return ((it.field, 2, rng.choice((*ODD_TEXTS, *OPERATORS)).encode("utf-8", "surrogatepass")),)
        if kind == 8:
            for _ in range(rng.choice((1, 40, 400))):  # inside itself
                value = varint(it.field << 3 | 2) + varint(len(value)) + value
            return (value,)
        return ((it.field, 2, blind(rng, value)),)
    return ((it.field, it.wire, rng.choice((bytes(8), b"\xff" * 8, b"\0\0\x80\x7f\0\0\xf0\x7f"))[: len(it.value)]),)
