"""Sources of a corpus that are meant to hurt, and part files that were moved: an error of ours, and soon."""

import gzip
import io
import os
import shutil
import threading
import time
import zipfile

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.corpus import sources


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    table = lrp.Embedding(rng.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>")
    return lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)], embedding=table)


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    return lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)])


def npy(header, data=b"", magic=b"\x93NUMPY\x01\x00"):
    text = header.encode("latin-1").ljust(117) + b"\n"
    return magic + len(text).to_bytes(2, "little") + text + data


def npz(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(f"{name}.npy", content)


def saved(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"
ARCHIVES = {
    "no header": [("values", b"")],
    "a header that is cut": [("values", npy(GOOD % "1, 2")[:20])],
    "a header that is no Python": [("values", npy("{'descr': (((((((("))],
    "a header that nests": [("values", npy("(" * 5000))],
    "a header of another type": [("values", npy("[1, 2, 3]"))],
    "a header with a call": [("values", npy("__import__('os').abort()"))],
    "a version from the future": [("values", npy(GOOD % "1, 2", magic=b"\x93NUMPY\x09\x00"))],
    "a shape that is negative": [("values", npy(GOOD % "-1, 3"))],
    "a shape that is twice negative": [("values", npy(GOOD % "-2, -3", bytes(48)))],
    "a shape that is absurd": [("values", npy(GOOD % "99999999999999999999999, 3"))],
    "a shape of many rows of nothing": [("values", npy(GOOD % "1099511627776, 0, 3"))],
    "a shape of text": [("values", npy(GOOD % "'a', 3"))],
    "a shape with a float": [("values", npy(GOOD % "1.0, 3"))],
    "more rows than there are": [("values", npy(GOOD % "9, 2, 3", bytes(48)))],
    "fewer rows than there are": [("values", npy(GOOD % "1, 2, 3", bytes(480)))],
    "objects": [("values", saved(np.array([[[None, {}]]], object)))],
    "words": [("values", saved(np.array([["a", "b"]])))],
    "two arrays of one name": [("values", saved(np.ones((1, 2, 3)))), ("values", saved(np.ones((2, 2, 3))))],
    "no sequences": [("values", saved(np.ones((0, 2, 3))))],
    "offsets of no sequences": [("values", saved(np.ones((0, 3)))), ("offsets", saved(np.array([0])))],
    "offsets that fall": [("values", saved(np.ones((4, 3)))), ("offsets", saved(np.array([0, 3, 1, 4])))],
    "offsets that are huge": [("values", saved(np.ones((4, 3)))), ("offsets", saved(np.array([0, 2**63], np.uint64)))],
    "lengths of another number": [("values", saved(np.ones((2, 2, 3)))), ("lengths", saved(np.array([1])))],
}


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives(series, tmp_path, name):
    npz(tmp_path / "a.npz", *ARCHIVES[name])
    with pytest.raises(lrp.LrpError, match=r"a\.npz"):
        lrp.explain_corpus(series, tmp_path / "a.npz", out=tmp_path / "out")
    assert not (tmp_path / "out").exists() or not lrp.open_explanations(tmp_path / "out").complete


def test_archives_that_are_cut_or_flipped(series, tmp_path):
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "a.npz", values=rng.normal(size=(5, 4, 3)))
    whole, refused = (tmp_path / "a.npz").read_bytes(), 0
    for _ in range(60):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        (tmp_path / "a.npz").write_bytes(content[: rng.integers(1, len(content))] if rng.random() < 0.3 else content)
        try:
            source = sources.open_source(lrp.Corpus(tmp_path / "a.npz"))
            assert sum(len(chunk.records) for chunk in sources.chunks(source, 10)) == 5
        except lrp.LrpError as error:
            assert "a.npz" in str(error)
            refused += 1
    assert 30 < refused < 60


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO here")
@pytest.mark.parametrize("end", ["txt", "jsonl", "txt.gz", "npz", "h5"])
def test_what_is_no_file(words, tmp_path, end):
    os.mkfifo(tmp_path / f"fifo.{end}")
    (tmp_path / f"folder.{end}").mkdir()
    (tmp_path / f"zero.{end}").symlink_to("/dev/zero")
    (tmp_path / f"empty.{end}").touch()
    (tmp_path / f"loop.{end}").symlink_to(tmp_path / f"loop.{end}")
    for name in ("fifo", "folder", "zero", "empty", "loop", "missing"):
        began = time.monotonic()
        with pytest.raises(lrp.LrpError, match=rf"{name}\.{end}"):
            lrp.explain_corpus(words, tmp_path / f"{name}.{end}", out=tmp_path / "out")
        assert time.monotonic() - began < 60
    with pytest.raises(lrp.LrpError):
        lrp.open_explanations(tmp_path / f"folder.{end}")


def test_a_name_that_is_too_long_for_the_disk(words, tmp_path):
    """What pathlib asks of such a name, or of a folder that is locked, raises; what os.path asks does not."""
    name = "x" * 300
    found = lrp.explain_corpus(words, ["a b"], out=tmp_path / "a")
    for work in (
        lambda: lrp.explain_corpus(words, tmp_path / f"{name}.txt", out=tmp_path / "out"),
        lambda: lrp.explain_corpus(words, ["a b"], out=tmp_path / name),
        lambda: lrp.explain_corpus(words, ["a b"], out=lrp.Output(tmp_path / name, overwrite=True)),
        lambda: lrp.open_explanations(tmp_path / name),
        lambda: found.export(tmp_path / f"{name}.csv"),
        lambda: lrp.save(words, tmp_path / f"{name}.h5"),
        lambda: lrp.write_page(tmp_path / f"{name}.html", found),
    ):
        with pytest.raises(lrp.LrpError, match="File name too long"):
            work()


@pytest.mark.parametrize("content", [b"\0", b"\n", b"a\n"])
def test_a_packed_file_that_fills_the_disk(words, tmp_path, content):
    with gzip.open(tmp_path / "a.txt.gz", "wb") as file:
        for _ in range(64):
            file.write(content * (1 << 20))
    with pytest.raises(lrp.LrpError, match=r"a\.txt\.gz must unpack to at most 300 times its bytes"):
        lrp.explain_corpus(words, tmp_path / "a.txt.gz", out=tmp_path / "out")


def test_a_packed_file_of_a_text_is_read(words, tmp_path):
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("a b\n" * 1000)
    assert len(lrp.explain_corpus(words, tmp_path / "a.txt.gz", out=tmp_path / "out")) == 1000


def test_a_file_that_grows_while_it_is_read_ends(words, tmp_path):
    path, grown, stop = tmp_path / "a.txt", threading.Event(), threading.Event()
    path.write_text("a b\n" * 5000)

    def grow():
        with path.open("a") as file:
            while not stop.is_set():
                file.write("a b\n" * 1000)
                file.flush()
                grown.set()

    source = sources.open_source(lrp.Corpus(path))
    thread = threading.Thread(target=grow)
    thread.start()
    grown.wait()
    try:
        with pytest.raises(lrp.LrpError, match="must not change while it is read"):
            for _ in source.records():
                pass
    finally:
        stop.set()
        thread.join()


def test_a_file_that_changes_between_its_digest_and_its_reading(words, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b\n" * 10)
    source = sources.open_source(lrp.Corpus(path))
    path.write_text("a\n")
    with pytest.raises(lrp.LrpError, match="must not change while it is read"):
        list(source.records())


def test_part_files_that_were_swapped_or_come_from_elsewhere(words, tmp_path):
    texts, others = ["a b", "c", "b b", "a c a", "c c", "b a"], ["c b", "a", "b c", "b c a", "a c", "c a"]
    whole, out = lrp.Output(tmp_path / "whole", chunk=2), lrp.Output(tmp_path / "run", chunk=2)
    want = [e.relevance.tolist() for e in lrp.explain_corpus(words, texts, out=whole)]
    foreign = lrp.explain_corpus(words.astype("float32"), others, out=lrp.Output(tmp_path / "other", chunk=2))
    for damage in ("swapped", "foreign", "flipped"):
        shutil.rmtree(out.path, ignore_errors=True)
        shutil.copytree(whole.path, out.path)
        first, second, third = sorted(out.path.glob("part-*.npz"))
        if damage == "swapped":
            first.rename(tmp_path / "x")
            second.rename(first)
            (tmp_path / "x").rename(second)
        elif damage == "foreign":
            shutil.copy(foreign.path / second.name, second)
        else:
            content = bytearray(third.read_bytes())
            with np.load(third) as file:
                content[content.index(file["inputs/x/relevance"].tobytes()) + 3] ^= 255
            third.write_bytes(content)
        with pytest.raises(lrp.LrpError, match="is damaged"):
            list(lrp.open_explanations(out.path))
        found = lrp.explain_corpus(words, texts, out=out)  # makes again what is not its own
        assert [e.relevance.tolist() for e in found] == want
