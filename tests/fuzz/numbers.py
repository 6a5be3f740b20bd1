"""Numbers that parsers stumble over, and blind damage to bytes: what every other kind of damage falls back on."""

EDGES = (0, 1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40)
EDGES += (2**47, 2**63 - 1, 2**63, 2**64 - 1)
BYTES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
LETTERS = b'0123456789abcxyz{}[]",:-.e \n\\/'


def number(rng, old, width, others=()):
    """Another value for a number of `width` bytes: at an edge, near the old one, or one of `others`."""
    kind = rng.randrange(6 if others else 5)
    if kind == 0:
        new = rng.choice(EDGES)
    elif kind == 1:
        new = old + rng.choice((-8, -1, 1, 2, 8))
    elif kind == 2:
        new = rng.choice((old * 2, old // 2, old << 8, ~old))
    elif kind == 3:
        new = old ^ 1 << rng.randrange(8 * width)
    elif kind == 4:
        new = rng.randrange(33)
    else:
        new = rng.choice(others)
    return new % 256**width


def blind(rng, content):
    """`content` with one of several kinds of damage, whatever it is."""
    data = bytearray(content)
    if not data:
        return rng.randbytes(rng.randrange(9))
    spots = [rng.randrange(len(data)) for _ in range(rng.randint(1, 8))]
    first, last = spots[0], spots[-1]
    kind = rng.randrange(9)
    if kind == 0:
        for spot in spots:
            data[spot] ^= 1 << rng.randrange(8)
    elif kind == 1:
        for spot in spots:
            data[spot] = rng.choice((*BYTES, rng.randrange(256)))
    elif kind == 2:
        del data[first:]
    elif kind == 3:  # sizes, counts and addresses are little-endian numbers of 2 to 8 bytes
        for spot in spots[:2]:
            width = min(rng.choice((1, 2, 4, 8)), len(data) - spot)
            old = int.from_bytes(data[spot : spot + width], "little")
            data[spot : spot + width] = number(rng, old, width).to_bytes(width, "little")
    elif kind == 4:
        length = rng.randint(1, 512)
        data[first : first + length] = bytes([rng.choice((0, 0xFF))]) * length
    elif kind == 5:
        length = rng.randint(1, 512)
        data[first : first + length] = data[last : last + length]
    elif kind == 6:
        del data[first : first + rng.randint(1, 64)]
    elif kind == 7:
        data[first:first] = data[last : last + rng.randint(1, 64)] or b"\0"
    else:  # digits and letters of a text
        for _ in range(3):
            spot = rng.randrange(len(data))
            if 32 <= data[spot] < 127:
                data[spot] = rng.choice(LETTERS)
    return bytes(data)
