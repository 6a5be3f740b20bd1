"""Arrays stored in chunks: read bit for bit as the HDF5 library reads them, refused where they are not what they say.

Hostile chunks are read in a process of their own: the filters of the HDF5 library crash on some of them, or fill the
array up with whatever lies in memory.
"""

import json
import struct
import subprocess
import sys
import zlib
from itertools import permutations
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t, h5z
from interop import zoo

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.corpus.arrays import LargeHdf5
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.hdf5 import filters as chunks

ROOT = Path(__file__).parents[2]
MATRIX, SHAPE = "layers/0/forward/U", (4, 3, 4)  # of the model below
WHOLE = 4 * 3 * 4 * 4  # its bytes


def read(path, name="a"):
    """A dataset as `load` reads it, and as a corpus does: a few rows at a time, forwards and backwards."""
    with h5py.File(path) as file:
        shape = file[name].shape
    with Hdf5(str(path), path.stat().st_size) as file:
        found = file.array(name, shape)
    if shape:
        with LargeHdf5(path) as table:
            large = table.large(name)
            assert large.shape == shape
            for step in (1, 3, 1000):
                starts = range(0, shape[0], step)
                forwards = [large.read(k, k + step) for k in starts]
                backwards = [large.read(k, k + step) for k in reversed(starts)][::-1]
                for rows in (forwards, backwards):
                    np.testing.assert_array_equal(np.concatenate(rows).astype(found.dtype), found)
    return found


def exact(path, data):
    """Read it, and see that it is `data` to the bit, NaN and the sign of 0 included."""
    found = read(path)
    assert found.dtype == np.result_type(data.dtype.newbyteorder("="), np.float32) and found.shape == data.shape
    assert found.tobytes() == data.astype(found.dtype).tobytes()


# ---------------------------------------------------------------------------------------------- what must stay right


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": True},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
        {"fletcher32": True},
        {"shuffle": True},
    ],
    ids=lambda options: "-".join(options) or "contiguous",
)
def test_arrays_are_read_bit_for_bit(tmp_path, rng, dtype, options):
    path = tmp_path / "a.h5"
    for shape, chunk in [((1,), (1,)), ((10,), (4,)), ((7, 5), (7, 5)), ((7, 5), (3, 2)), ((4, 3, 5), (2, 3, 4))]:
        data = rng.normal(size=shape).astype(dtype)
        data.flat[0] = -0.0
        with h5py.File(path, "w", userblock_size=512 if len(shape) == 1 else 0) as file:
            made = {**options, "chunks": chunk} if options else {}  # chunks at the edge reach beyond the array
            file.create_dataset("a", data=data, maxshape=(None,) * len(shape) if options else None, **made)
        exact(path, data)


def test_scalars_and_compact_arrays(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.float32(1.5)
    exact(path, np.array(1.5, np.float32))
    with h5py.File(path, "w") as file:
        settings = h5p.create(h5p.DATASET_CREATE)
        settings.set_layout(h5d.COMPACT)
        made = h5d.create(file.id, b"a", h5t.IEEE_F64BE, h5s.create_simple((2, 3)), settings)
        made.write(h5s.ALL, h5s.ALL, np.arange(6.0).reshape(2, 3))
    exact(path, np.arange(6.0).reshape(2, 3))


FILTERS = {
    h5z.FILTER_SHUFFLE: lambda settings: settings.set_shuffle(),
    h5z.FILTER_DEFLATE: lambda settings: settings.set_deflate(4),
    h5z.FILTER_FLETCHER32: lambda settings: settings.set_fletcher32(),
}


@pytest.mark.parametrize("order", [order for n in (1, 2, 3) for order in permutations(FILTERS, n)], ids=str)
def test_filters_in_any_order(tmp_path, rng, order):
    """Written by the library: a checksum before the shuffle leaves bytes over, gzip before it makes any length."""
    path, data = tmp_path / "a.h5", np.round(rng.normal(size=(9, 3)), 1)
    with h5py.File(path, "w") as file:
        settings = h5p.create(h5p.DATASET_CREATE)
        settings.set_chunk((5, 3))
        for code in order:
            FILTERS[code](settings)
        made = h5d.create(file.id, b"a", h5t.IEEE_F64LE, h5s.create_simple(data.shape), settings)
        made.write(h5s.ALL, h5s.ALL, data)
    exact(path, data)


def packed(data, skip=()):
    """A chunk as h5py's pipeline stores it (shuffle, gzip, fletcher32), without the filters of these numbers."""
    stored = data.tobytes()
    if 0 not in skip:
        stored = np.frombuffer(stored, np.uint8).reshape(-1, data.itemsize).T.tobytes()
    if 1 not in skip:
        stored = zlib.compress(stored)
    if 2 not in skip:
        stored += chunks.fletcher32(stored).to_bytes(4, "little")
    return stored


@pytest.mark.parametrize("mask", range(8))
def test_filters_that_a_chunk_was_stored_without(tmp_path, rng, mask):
    path, data = tmp_path / "a.h5", rng.normal(size=(4, 6))
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", (4, 6), "<f8", chunks=(2, 6), compression="gzip", shuffle=True, fletcher32=True)
        made[:2] = data[:2]  # by the library, with all filters
        stored = packed(data[2:], [k for k in range(3) if mask >> k & 1])
        made.id.write_direct_chunk((2, 0), stored, filter_mask=mask | 1 << 9)  # there is no tenth filter to leave out
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["a"][()], data)  # the chunk is a good one
    exact(path, data)


@pytest.mark.parametrize("length", [1, 2, 3, 719, 720, 721, 2**17, 2**17 + 1, 300_001])
@pytest.mark.parametrize("fill", ["random", 0, 255])
def test_the_checksum_is_that_of_the_library(tmp_path, rng, length, fill):
    data = rng.integers(0, 256, length).astype(np.uint8) if fill == "random" else np.full(length, fill, np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("a", data=data, chunks=(length,), fletcher32=True)
        file.flush()
        stored = made.id.read_direct_chunk((0,))[1]
    assert chunks.fletcher32(stored[:-4]) == int.from_bytes(stored[-4:], "little")


@pytest.mark.parametrize("pad, stored", [(h5t.STR_NULLPAD, b"ab\0"), (h5t.STR_NULLTERM, b"ab\0"), (2, b"ab ")])
@pytest.mark.parametrize("chunk", [None, (2,)])
def test_strings_of_a_fixed_length(tmp_path, pad, stored, chunk):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        kind, settings = h5t.C_S1.copy(), h5p.create(h5p.DATASET_CREATE)
        kind.set_size(3)
        kind.set_strpad(pad)
        if chunk:
            settings.set_chunk(chunk)
            settings.set_deflate(1)
        made = h5d.create(file.id, b"a", kind, h5s.create_simple((3,)), settings)
        made.write(h5s.ALL, h5s.ALL, np.array([stored, b"", b"\xc3\xbc"], "S3"), kind)
    with Hdf5(str(path), path.stat().st_size) as file:
        assert file.strings("a", 3) == ["ab", "", "ü"]


def test_chunks_that_were_never_written_are_no_weights(tmp_path):
    """The library would give the fill value; a file that lacks half of its weights is not whole."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", (4, 6), "<f8", chunks=(2, 6), compression="gzip", fillvalue=3)
        made[:2] = 1
    with pytest.raises(lrp.WeightFileError, match=r"1 of its 2 chunks.*never written; write out"):
        read(path)


@pytest.mark.parametrize("name, make", [("lzf", {"compression": "lzf"}), ("scaleoffset", {"scaleoffset": 3})])
def test_other_filters_are_refused_by_name(tmp_path, name, make):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.ones((40, 6), "<f4"), **make)
    with pytest.raises(
        lrp.WeightFileError, match=rf"packed by {name} \(filter \d+\).*store it with compression='gzip'"
    ):
        read(path)


def test_numbers_of_a_corpus_are_those_that_numpy_has(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        narrow = h5t.STD_I16LE.copy()
        narrow.set_precision(12)  # the other four bits may be anything
        h5d.create(file.id, b"narrow", narrow, h5s.create_simple((3,)))
        file["words"] = np.array(["a", "b"], dtype=h5py.string_dtype())
    for name in ("narrow", "words"):
        with LargeHdf5(path) as table, pytest.raises(lrp.WeightFileError, match=f"{name}: must hold numbers"):
            table.large(name)


@pytest.mark.parametrize("layout", ["contiguous", "compact"])
@pytest.mark.parametrize("size", [0, 8, 47, 49, 56, 4096])
def test_arrays_in_one_piece_have_the_bytes_that_they_declare(tmp_path, layout, size):
    path, data = tmp_path / "a.h5", np.arange(6.0)
    with h5py.File(path, "w") as file:
        settings = h5p.create(h5p.DATASET_CREATE)
        settings.set_layout(h5d.COMPACT if layout == "compact" else h5d.CONTIGUOUS)
        made = h5d.create(file.id, b"a", h5t.IEEE_F64LE, h5s.create_simple((6,)), settings)
        made.write(h5s.ALL, h5s.ALL, data)
        # the layout in the header: version 3, class, then size and data, or address and size
        head = (
            struct.pack("<BBH", 3, 0, 48) if layout == "compact" else struct.pack("<BBQQ", 3, 1, made.get_offset(), 48)
        )
    exact(path, data)
    content, wrong = path.read_bytes(), size.to_bytes(2 if layout == "compact" else 8, "little")
    assert content.count(head) == 1
    path.write_bytes(content.replace(head, head[: -len(wrong)] + wrong))
    with (
        Hdf5(str(path), len(content)) as file,
        pytest.raises(lrp.WeightFileError, match=r"declares 48|needs (56|4,096) bytes|(49|56) bytes for what is 48"),
    ):
        file.array("a", (6,))


# --------------------------------------------------------------------------------------------------------- attacks

GOOD = np.linspace(-1, 1, WHOLE // 4, dtype="<f4").reshape(SHAPE)
SUM = chunks.fletcher32(GOOD.tobytes()).to_bytes(4, "little")
GZIP, SHUFFLE, FLETCHER = {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}

# name: the filters, the stored bytes, the filter mask
ATTACKS = {
    "gzip of nothing": (GZIP, zlib.compress(b""), 0),
    "gzip, one byte short": (GZIP, zlib.compress(GOOD.tobytes()[:-1]), 0),
    "gzip, half": (GZIP, zlib.compress(GOOD.tobytes()[: WHOLE // 2]), 0),
    "gzip, one byte long": (GZIP, zlib.compress(GOOD.tobytes() + b"x"), 0),
    "gzip, four bytes long": (GZIP, zlib.compress(GOOD.tobytes() + b"four"), 0),
    "gzip, a bomb": (GZIP, zlib.compress(bytes(2**20)), 0),
    "gzip that breaks off": (GZIP, zlib.compress(GOOD.tobytes())[:-5], 0),
    "gzip with bytes behind it": (GZIP, zlib.compress(GOOD.tobytes()) + b"x", 0),
    "gzip with a wrong checksum": (GZIP, zlib.compress(GOOD.tobytes())[:-1] + b"x", 0),
    "no gzip at all": (GZIP, b"x" * 20, 0),
    "far more bytes than needed": (GZIP, GOOD.tobytes() * 20, 0),
    "left out gzip, short": (GZIP, GOOD.tobytes()[:-4], 1),
    "left out gzip, long": (GZIP, GOOD.tobytes() + b"more", 1),
    "left out shuffle, short": ({**GZIP, **SHUFFLE}, zlib.compress(GOOD.tobytes()[:-4]), 1),
    "shuffle of uneven bytes": ({**GZIP, **SHUFFLE}, zlib.compress(GOOD.tobytes()[:-3]), 0),
    "shuffle alone, uneven": (SHUFFLE, GOOD.tobytes()[:-3] * 2, 0),
    "shuffle alone, two numbers": (SHUFFLE, b"x" * 8 + bytes(WHOLE), 0),
    "fletcher32 alone, wrong": (FLETCHER, GOOD.tobytes() + b"\0\0\0\0", 0),
    "fletcher32 alone, other data": (FLETCHER, GOOD[::-1].tobytes() + SUM, 0),
    "fletcher32 alone, short": (FLETCHER, GOOD.tobytes()[:-4] + b"\0\0\0\0", 0),
    "fletcher32 inside nothing": ({**GZIP, **FLETCHER}, b"\0\0\0\0", 0),
    "fletcher32 of a short gzip": ({**GZIP, **FLETCHER}, packed(GOOD[:2], [0]), 0),
    "fletcher32 left out, its bytes not": (FLETCHER, GOOD.tobytes() + SUM, 1),
    **{f"fletcher32 over {n} bytes": ({**GZIP, **FLETCHER}, b"x" * n, 0) for n in (1, 2, 3, 4, 5)},
    **{f"fletcher32 over {n} bytes, gzip left out": ({**GZIP, **FLETCHER}, b"x" * n, 1) for n in (1, 2, 3, 4, 5)},
}


def forge(path, filters, *stored, mask=0):
    """A model whose matrix has these bytes as its chunks, in a file without a digest that would tell."""
    lrp.save(zoo.NETWORKS["reference"].model(), path)
    chunk = (SHAPE[0] // len(stored), *SHAPE[1:])
    with h5py.File(path, "r+") as file:
        settings = json.loads(file.attrs["model"])
        del settings["sha256"]
        file.attrs["model"] = np.bytes_(json.dumps(settings))
        del file[MATRIX]
        made = file.create_dataset(MATRIX, SHAPE, "<f4", chunks=chunk, **filters)
        for k, data in enumerate(stored):
            made.id.write_direct_chunk((k * chunk[0], 0, 0), data, filter_mask=mask)
        if not filters and made.id.get_chunk_info(0).size != len(stored[0]):
            pytest.skip("before version 2 the HDF5 library writes a chunk without filters as if it were whole")


OPEN_ALL = """
import sys
import lrpnumpy as lrp
from lrpnumpy.__main__ import main

for path in sys.argv[1:]:
    print(path, end=" ", flush=True)
    for read in (lrp.load, lrp.inspect):
        try:
            read(path)
            print("read", flush=True)
        except lrp.WeightFileError as error:
            assert path in str(error) and "layers/0/forward/U" in str(error), error
    print("refused", main(["inspect", path, "--no-isolate"]), flush=True)
"""


def test_chunks_that_are_not_what_they_say_are_refused(tmp_path):
    paths = {name: tmp_path / f"{k}.h5" for k, name in enumerate(ATTACKS)}
    for name, path in paths.items():
        filters, stored, mask = ATTACKS[name]
        forge(path, filters, stored, mask=mask)
    done = subprocess.run(
        [sys.executable, "-c", OPEN_ALL, *map(str, paths.values())], capture_output=True, text=True, cwd=ROOT
    )
    told = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, dict(zip(paths, told, strict=False)), done.stderr[-500:])
    assert dict(zip(paths, told, strict=True)) == {name: f"{path} refused 2" for name, path in paths.items()}


def test_the_forger_can_make_good_files_too(tmp_path):
    """The refusals above are for what is in the chunk, not for how the file is made."""
    for k, (filters, stored, mask) in enumerate(
        [
            (GZIP, zlib.compress(GOOD.tobytes()), 0),
            (GZIP, zlib.compress(GOOD.tobytes(), 0), 0),  # longer than what it unpacks to
            (GZIP, GOOD.tobytes(), 1),
            ({**GZIP, **SHUFFLE, **FLETCHER}, packed(GOOD), 0),
            (FLETCHER, GOOD.tobytes() + SUM, 0),
        ]
    ):
        forge(tmp_path / f"{k}.h5", filters, stored, mask=mask)
        np.testing.assert_array_equal(files.load(tmp_path / f"{k}.h5").layers[0].forward.U, GOOD)


@pytest.mark.parametrize("filters", [FLETCHER, SHUFFLE, {}], ids=str)
def test_a_short_chunk_beside_a_long_one(tmp_path, filters):
    """Together they have the bytes that are declared. The library crashes on the checksum of the short one."""
    paths = [tmp_path / f"{length}.h5" for length in (1, 2, 3)]
    for length, path in enumerate(paths, 1):
        forge(path, filters, b"x" * length, b"x" * WHOLE)
    done = subprocess.run([sys.executable, "-c", OPEN_ALL, *map(str, paths)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-500:])
    assert done.stdout.splitlines() == [f"{path} refused 2" for path in paths]


def test_a_checksum_alone_on_few_bytes(tmp_path):
    for length in (1, 2, 3):
        forge(tmp_path / f"{length}.h5", FLETCHER, b"x" * length)
        with pytest.raises(lrp.WeightFileError, match=f"declares 192 bytes, the file has {length} for them"):
            files.load(tmp_path / f"{length}.h5")


def test_chunks_beyond_the_limit(tmp_path):
    """A chunk may reach far beyond its array, and is unpacked whole: it counts against the limit."""
    path, side = tmp_path / "model.h5", 2**13
    lrp.save(zoo.NETWORKS["reference"].model(), path)
    with h5py.File(path, "r+") as file:
        del file[MATRIX]
        made = file.create_dataset(
            MATRIX, SHAPE, "<f4", chunks=(4, 3 * side, side // 4), maxshape=(None,) * 3, compression="gzip"
        )
        made.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(4 * 4 * 3 * side * side // 4), 1))
    with pytest.raises(lrp.WeightFileError, match=r"has chunks of \(4, 24576, 2048\), together over"):
        files.load(path, max_bytes=2**20)


def test_sources_of_a_corpus_are_read_through_the_same_checks(tmp_path):
    """`explain_corpus` on chunks that unpack to too little, in a process of its own."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("values", (6, 5, 4), "<f4", chunks=(2, 5, 4), **GZIP, **FLETCHER)
        made[:] = 1
        made.id.write_direct_chunk((2, 0, 0), b"xyz")
    model = zoo.NETWORKS["maximum"].model()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        made = file.create_dataset("values", (6, 5, model.input_size), "<f4", chunks=(2, 5, model.input_size), **GZIP)
        made[:] = 1
        made.id.write_direct_chunk((2, 0, 0), zlib.compress(b"short"))
    lrp.save(model, tmp_path / "model.h5")
    code = """if True:
        import sys
        import lrpnumpy as lrp
        model = lrp.load("model.h5")
        for name in ("a", "b"):
            try:
                lrp.explain_corpus(model, f"{name}.h5", out=lrp.Output(f"{name}.out", chunk=1))
            except lrp.LrpError as error:
                print(error)
    """
    environment = {"PYTHONPATH": str(ROOT), "LRPNUMPY_COMPILE": "never", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    told = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-500:]
    assert "values: has a chunk whose checksum" in told[0] and "values: has a chunk that is not" in told[1]
