"""What the fuzzer and the faults have found, each once: an error of ours, or the work done again."""

import io
import json
import time
import zipfile
from pathlib import Path

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.commands.explain import read as read_input
from lrpnumpy.evaluate import rank_methods
from lrpnumpy.files.disk import write_whole


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    return lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)])


def ranked(model, state=None):
    x = np.arange(12.0).reshape(4, 3)
    names = ["gradient", "lrp-all"]
    return rank_methods(model, [x, -x], names, measures=["removal"], state=state, progress=False)


DEEP = "[" * 100_000 + "]" * 100_000


def measured(found):
    """What does not depend on how fast the machine is."""
    columns = json.loads(found.to_json())["columns"]
    return {name: column for name, column in columns.items() if name != "cost"}


def test_a_state_with_damaged_parts_is_computed_again(model, tmp_path):
    whole = measured(ranked(model, tmp_path / "state"))
    (part,) = (tmp_path / "state").iterdir()
    content = part.read_bytes()
    for damaged in (b"", content[:30], content[:-9], content.replace(b"0.", b"1."), DEEP.encode(), b"\xff\xfe\n{}\n[]"):
        part.write_bytes(damaged)
        assert measured(ranked(model, tmp_path / "state")) == whole
        assert part.read_bytes() != damaged
    assert measured(ranked(model, tmp_path / "state")) == whole
    with pytest.raises(lrp.LrpError, match="state must be a folder"):
        ranked(model, part)


def changed(path, member, change):
    """Rewrite one member of a zip archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def as_dates(data):
    stream = io.BytesIO()
    np.save(stream, np.load(io.BytesIO(data)).astype("M8[D]"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("inputs/x/relevance.npy", lambda data: data.replace(b"'<f8'", b"'<i8'")),
        ("target.npy", as_dates),
        ("text.npy", lambda data: data.replace(b'"count": 2', b'"count": 7')),
        ("text.npy", lambda data: data.replace(b'"rejected": []', b'"rejected": 77')),
        ("text.npy", lambda data: data.replace(b'"counts": [2, 2, 0, 0]', b'"counts": [2, 2, 0, x]')),
        ("text.npy", lambda data: data.replace(b'"part": 0', b'"part": 1')),
    ],
)
def test_parts_of_a_run_that_were_changed(model, tmp_path, member, change):
    """A part of another type of numbers was an exception of the HDF5 library; other numbers in a note were believed."""
    source, out = [np.ones((3, 3)) * k for k in range(4)], lrp.Output(tmp_path / "out", chunk=2)
    lrp.explain_corpus(model, source, out=out, threads=1)
    changed(tmp_path / "out" / "part-00000000.npz", member, change)
    try:
        found = lrp.explain_corpus(model, source, out=out, threads=1)
        assert found.doubtful == 0 and len(found) == 4
        np.testing.assert_array_equal(found[0].relevance, lrp.explain(model, source[0]).relevance)
    except lrp.LrpError as error:
        assert "part-00000000.npz is damaged" in str(error)


def test_a_run_that_is_nested_too_deep(model, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "index.json").write_text(DEEP)
    with pytest.raises(lrp.LrpError, match=r"index\.json is damaged"):
        lrp.explain_corpus(model, [np.ones((3, 3))], out=folder)


def test_a_page_is_replaced_whole_or_not_at_all(model, tmp_path, monkeypatch):
    """A full disk left half a page where a whole one had been."""
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    lrp.write_page(page, lrp.explain(model, np.ones((3, 3))))
    link.symlink_to(page)
    before = page.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(lrp.LrpError, match=r"cannot be written \(No space left on device\)"):
            lrp.write_page(link, lrp.explain(model, np.zeros((5, 3))))
    assert page.read_bytes() == before and sorted(tmp_path.iterdir()) == [link, page]
    write_whole(link, b"new")
    assert page.read_bytes() == b"new" and link.is_symlink()
    write_whole("/dev/null", b"x")  # a device is written to, and stays one
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("offsets", [[0], [], [0, 4, 8], [[0, 4]]])
def test_offsets_of_safetensors_are_two(tmp_path, offsets):
    """One offset was an error, but one that spoke of Python's unpacking."""
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": offsets} for name in ("weight_ih_l0", "b")}
    text = json.dumps(header).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(lrp.WeightFileError, match=r"weight_ih_l0: (must have two offsets|data_offsets must be a list)"):
        lrp.load(path)


def rewritten(part, **arrays):
    """Change arrays of a part."""
    with np.load(part) as file:
        kept = dict(file)
    with part.open("wb") as file:
        np.savez(file, **{**kept, **arrays})


def test_a_ledger_without_steps(model, tmp_path):
    """Shapes that leave an explanation by contextual decomposition no step: it could be read, but not be shown."""
    found = lrp.explain_corpus(model, [np.ones((3, 3)), np.ones((2, 3))], "cd", out=tmp_path / "out", threads=1)
    shapes = {f"ledger/{name}/shapes": np.array([[0], [5]]) for name in ("relevant", "irrelevant", "bias")}
    rewritten(found.path / "part-00000000.npz", **shapes)
    with pytest.raises(lrp.LrpError, match="an entry for every step"):
        str(lrp.open_explanations(tmp_path / "out")[0])


def test_a_summary_of_targets_that_are_no_classes(model, tmp_path):
    found = lrp.explain_corpus(model, [np.ones((3, 3)), np.ones((2, 3))], out=tmp_path / "a")
    rewritten(found.path / "part-00000000.npz", target=np.array([0, 99]))
    with pytest.raises(lrp.LrpError, match="target must be 'all' or a class from 0 to 1, got 99"):
        lrp.open_explanations(tmp_path / "a").summary("class")


def test_a_rival_class_that_there_is_not(model):
    """The options of an explanation that somebody else wrote down may name any class."""
    named = lrp.Model(model.nodes, classes=("bad", "good"))
    text = lrp.explain(named, np.ones((3, 3)), target=0, versus=1).to_json()
    assert "rather than 'good'" in str(lrp.Explanation.from_json(text))
    for rival in (-(2**63), 2, -1):
        with pytest.raises(lrp.LrpError, match="must be a class from 0 to 1"):
            lrp.Explanation.from_json(text.replace('"versus": 1', f'"versus": {rival}'))


def test_a_damaged_header_of_an_array_takes_no_time(tmp_path):
    """NumPy's reader of headers took 4 s for one of 4 kB with many blanks in it."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }" + b" " * 60 + b"\n  -" + b" " * 9000 + b"?"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48))
    start = time.process_time()
    with pytest.raises(lrp.LrpError, match="cannot be read"):
        read_input(str(path))
    assert time.process_time() - start < 2
