"""The reader of HDF5 files against the HDF5 library: random files that h5py writes, read bit for bit alike."""

import io
import struct
import subprocess
import sys
from pathlib import Path

import h5py
import networks as nets
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t
from hypothesis import given
from hypothesis import strategies as st

import lrpnumpy as lrp
from lrpnumpy.corpus.arrays import LargeHdf5
from lrpnumpy.files.budget import Budget
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.hdf5.pieces import lookup3

ROOT = Path(__file__).parents[2]
VERSIONS = ["earliest", ("v108", "v108"), ("v110", "v110"), ("latest", "latest")]
NUMBERS = [f"{order}{kind}" for order in "<>" for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u8")]


def opened(stream):
    return Hdf5("written", len(stream.getvalue()), stream, Budget("written", 10**9))  # time enough for any machine


def same(stream):
    """See that our reader finds in a file what h5py does: names, shapes, values of numbers and strings, attributes."""
    with h5py.File(stream, "r") as theirs, opened(stream) as ours:
        datasets, groups = [], [""]
        theirs.visititems(lambda name, one: (datasets if isinstance(one, h5py.Dataset) else groups).append(name))
        assert sorted(ours.names()) == sorted(datasets)
        for name in groups:
            assert ours.is_group(name)
            assert ours.children(name) == sorted(theirs[name or "/"].keys(), key=str.encode)
        for name in [*groups, *datasets]:
            for key, value in theirs[name or "/"].attrs.items():
                assert ours.attribute(name, key) == plain(value), (name, key)
            assert ours.attribute(name, "not there") is None
        for name in datasets:
            compare(ours, name, theirs[name])


def plain(value):
    if isinstance(value, h5py.Empty):
        return []
    if isinstance(value, np.ndarray):
        return [one.decode() if isinstance(one, bytes) else one for one in value.tolist()]
    return value.decode() if isinstance(value, bytes) else int(value) if isinstance(value, np.integer) else value


def compare(ours, name, theirs):
    if theirs.shape is None:
        with pytest.raises(lrp.WeightFileError, match="null dataspace"):
            ours.shape(name)
        return
    assert ours.shape(name) == theirs.shape
    if theirs.dtype.kind == "O":
        return  # strings of variable length are read in attributes only
    dataset = ours._dataset(name)
    assert dataset.kind.dtype == theirs.dtype
    if theirs.size:
        dataset.check(2**40)
        assert (
            dataset.whole().tobytes() == np.asarray(theirs[()], theirs.dtype).tobytes()
        )  # scalars come in native order
    if theirs.shape:
        for start, stop in ((0, 1), (1, 3), (0, theirs.shape[0]), (2, 10**6)):
            assert dataset.rows(start, stop).tobytes() == theirs[start:stop].tobytes()


@st.composite
def arrays(draw):
    """Arguments of create_dataset: any layout that is read, with all values written."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank)))
    dtype = np.dtype(draw(st.sampled_from([*NUMBERS, "S5"])))
    seed = draw(st.integers(0, 2**32 - 1))
    content = np.random.default_rng(seed).integers(1, 128, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    made = {"data": content.view(dtype).reshape(shape)}
    if rank and draw(st.booleans()):
        made["chunks"] = tuple(draw(st.integers(1, n + 2 if draw(st.booleans()) else n)) for n in shape)
        made["maxshape"] = tuple(draw(st.sampled_from([n, n + 5, None])) for n in shape)
        made["chunks"] = tuple(
            min(c, n) if most is not None else c
            for c, n, most in zip(made["chunks"], shape, made["maxshape"], strict=True)
        )
        made["compression"] = draw(st.sampled_from([None, "gzip"]))
        made["shuffle"], made["fletcher32"] = draw(st.booleans()), draw(st.booleans())
    return made


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 2**8 - 1).map(np.uint8),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=40),
    st.binary(min_size=1, max_size=9).map(lambda b: np.bytes_(b.hex())),
    st.lists(st.text("abcü", max_size=9), min_size=1, max_size=5).map(
        lambda words: np.array(words, h5py.string_dtype())
    ),
    st.just(h5py.Empty("f4")),
    st.sampled_from([5000, 70_000]).map(lambda n: np.bytes_(b"x" * n)),
)
NAMES = st.text(st.characters(blacklist_characters="\0/.", blacklist_categories=["Cs"]), min_size=1, max_size=12)


@nets.examples(30)
@given(
    st.dictionaries(NAMES, arrays(), max_size=6),
    st.dictionaries(NAMES, VALUES, max_size=12),
    st.sampled_from(VERSIONS),
    st.booleans(),
    st.sampled_from([0, 512, 1024]),
)
def test_random_files_are_read_as_the_library_reads_them(datasets, attributes, version, ordered, block):
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver=version, track_order=ordered, userblock_size=block) as file:
        group = file.create_group("a/b", track_order=ordered)
        for name, made in datasets.items():
            if version in VERSIONS[2:] and None in made.get("maxshape", ()):  # listed in a way that is not read
                del made["maxshape"], made["chunks"]
            group.create_dataset(name, **made)
        for holder in (file, group):
            for name, value in attributes.items():
                if not (version == "earliest" and getattr(value, "nbytes", 0) > 60_000):
                    holder.attrs[name] = value
    same(stream)


@pytest.mark.parametrize("version", VERSIONS[::3], ids=str)
def test_groups_and_objects_with_many_members(version):
    """A thousand links and attributes are stored in trees and heaps; some of the latter outside the heap."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver=version) as file:
        group = file.create_group("many")
        for k in range(1000):
            group[f"member {k}" + "x" * (k % 50)] = np.float32(k)
        for k in range(400):
            group.attrs[f"attribute {k}"] = k if k % 3 else "a word " * (k % 7 + 1)
        if version != "earliest":
            group.attrs["long"] = np.bytes_(b"y" * 200_000)
        file["empty"], file["none"] = np.zeros((0, 3), "f4"), h5py.Empty("f4")
        for _ in range(25):
            group = group.create_group("deeper")
    same(stream)


def lists(file, kind):
    """A dataset whose chunks are listed in this way, where the version of the file has it."""
    data = np.arange(1240, dtype="<i4").reshape(620, 2)
    if kind == "implicit":
        settings = h5p.create(h5p.DATASET_CREATE)
        settings.set_chunk((7, 2))
        settings.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        made = h5d.create(file.id, b"a", h5t.STD_I32LE, h5s.create_simple(data.shape), settings)
        made.write(h5s.ALL, h5s.ALL, data)
        return
    most = {
        "tree": (None, None),
        "extensible": (None, 2),
        "grows": (900, None),
        "room to grow": (900, 40),
    }.get(kind)
    chunk = (620, 2) if kind == "single" else (1, 1)
    for packed in ({}, {"compression": "gzip", "fletcher32": True}):
        file.create_dataset(f"{len(packed)}", data=data, maxshape=most, chunks=chunk, **packed)


@pytest.mark.parametrize("kind", ["single", "implicit", "fixed", "extensible", "grows", "room to grow", "tree"])
@pytest.mark.parametrize("version", [VERSIONS[0], *VERSIONS[2:]], ids=str)
def test_every_list_of_chunks(kind, version):
    """The lists of arrays that grow, which only libver="latest" writes, are refused with what to do."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver=version) as file:
        lists(file, kind)
    if version != "earliest" and kind not in ("single", "fixed", "room to grow"):
        with pytest.raises(lrp.WeightFileError, match="without libver='latest'"):
            same(stream)
        return
    assert (b"FADB" in stream.getvalue()) == (version != "earliest" and kind != "single")
    same(stream)


def test_long_lists_of_chunks(tmp_path):
    """Over 1,024 chunks a list has pages. Most of these were never written."""
    path, count = tmp_path / "a.h5", 140_000
    with h5py.File(path, "w", libver="latest") as file:
        made = file.create_dataset("a", (count,), "u1", chunks=(1,))
        for k in (0, 3, 1023, 1024, 133_000, 139_999):
            made.id.write_direct_chunk((k,), b"x")
    assert b"FADB" in path.read_bytes()
    with (
        LargeHdf5(path) as ours,
        pytest.raises(lrp.WeightFileError, match="a: declares 140,000 bytes, the file has 6 "),
    ):
        ours.large("a")


# ---------------------------------------------------------------------------------------------------- what is refused


def test_checksums_are_those_of_the_library_and_are_looked_at():
    """A bit that is turned in what describes the file is noticed wherever it is."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver="latest") as file:
        file.create_dataset("a", data=np.ones((9, 2), "f4"), chunks=(1, 1))
        for k in range(20):
            file.attrs[f"attribute {k}"] = k
    for signature in (b"OHDR", b"BTHD", b"BTLF", b"FRHP", b"FHDB", b"\x89HDF"):
        content = bytearray(stream.getvalue())
        content[content.index(signature) + 12] ^= 4
        with (
            pytest.raises(lrp.WeightFileError, match=r"checksum|version|truncated|outside"),
            opened(io.BytesIO(content)) as file,
        ):
            file.attribute("", "attribute 3")
            file.array("a", (9, 2))
    assert lookup3(b"", Budget("", 0)) == 0xDEADBEEF


def test_loops_come_to_an_end():
    """A header that goes on in itself, a node that is its own child, a group of groups: refused, not followed."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for k in range(40):
            file[f"a{k:02d}"] = np.float32(k)
        for k in range(30):
            file.attrs[f"attribute {k}"] = "x" * 40
    content = bytearray(stream.getvalue())
    tree = content.index(b"TREE")
    content[tree + 5] = 1  # the leaves are now said to be trees: the first of them is this one
    struct.pack_into("<Q", content, tree + 32, tree)
    with pytest.raises(lrp.WeightFileError, match=r"two places|another tree"), opened(io.BytesIO(content)) as file:
        file.names()
    content = bytearray(stream.getvalue())
    start = next(k for k in range(0, len(content), 8) if content[k : k + 4] == b"\x10\0\x10\0")  # a header goes on
    further = struct.unpack_from("<Q", content, start + 8)[0]
    content[further : further + 24] = content[start : start + 24]
    with pytest.raises(lrp.WeightFileError, match="two places"), opened(io.BytesIO(content)):
        pass


def test_versions_and_sizes_that_are_not_read():
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["a"] = np.ones(3)
    for at, value, reason in ((8, 9, "superblock of version 9"), (13, 4, "other than 8 bytes")):
        content = bytearray(stream.getvalue())
        content[at] = value
        with pytest.raises(lrp.WeightFileError, match=reason):
            opened(io.BytesIO(content))
    with pytest.raises(lrp.WeightFileError, match="truncated"):
        opened(io.BytesIO(stream.getvalue()[:-1]))
    with pytest.raises(lrp.WeightFileError, match="cannot be opened as HDF5"):
        opened(io.BytesIO(b"nothing of the kind"))


@pytest.mark.parametrize("many", [False, True])
def test_attributes_that_objects_share_are_refused(tmp_path, many):
    """Such an attribute is stored elsewhere in the file. Without it the model would be another one."""
    path = tmp_path / "model.h5"
    path.write_bytes((ROOT / "tests" / "fixtures" / "tf_keras" / "stack.h5").read_bytes())
    lrp.load(path)
    if many:  # in a tree of records: the flags are behind the address in the heap
        stream = io.BytesIO()
        with h5py.File(path, "r") as old, h5py.File(stream, "w", libver="latest") as new:
            old.copy("model_weights", new)
            for name, value in [*old.attrs.items(), *((f"more {k}", k) for k in range(20))]:
                new.attrs[name] = value
        content = bytearray(stream.getvalue())
        version, kind = 0, 8
        leaf = content.index(b"BTLF" + bytes([version, kind]))
        count = 20 + len(h5py.File(path, "r").attrs)
        for k in range(count):
            content[leaf + 6 + 17 * k + 8] |= 2
        end = leaf + 6 + 17 * count
        struct.pack_into("<I", content, end, lookup3(bytes(content[leaf:end]), Budget("", 10**6)))
    else:  # in the header of the object: kind, size and flags of the message, then the attribute up to its name
        content = bytearray(path.read_bytes())
        content[content.index(b"keras_version\0") - 16 + 4] |= 2
    path.write_bytes(content)
    with pytest.raises(lrp.WeightFileError, match="shares with another object"):
        lrp.load(path)


def test_nothing_is_read_by_the_library():
    """Weight files are read without h5py, whatever kind of HDF5 they are."""
    fixtures = ROOT / "tests" / "fixtures"
    paths = [fixtures / "keras3" / "stack.keras", fixtures / "tf_keras" / "stack.h5", "sentiment"]
    code = "import sys; sys.modules['h5py'] = None; import lrpnumpy as lrp; "
    code += "print(*(lrp.load(path).outputs for path in sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == [str(lrp.load(path).outputs) for path in paths], done.stderr[-500:]
