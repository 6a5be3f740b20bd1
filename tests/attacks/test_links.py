"""Links that somebody else has put where we write: nothing goes through them, and nothing is left behind."""

import os
import secrets

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.files import disk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")


@pytest.fixture
def precious(tmp_path):
    """A file of the user's, which an attacker would like to see overwritten."""
    path = tmp_path / "precious"
    path.write_text("do not touch")
    yield path
    assert path.read_text() == "do not touch"


def test_a_temporary_file_is_made_anew_under_a_name_that_nobody_can_guess(tmp_path, precious, monkeypatch):
    names = set()
    for _ in range(5):
        with disk.written(tmp_path / "out") as file:
            file.write(b"1")
            names |= {path.name for path in tmp_path.glob(".out.*.tmp")}
    assert len(names) == 5 and all(len(name) >= 32 for name in names)
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".new.guessed.tmp").symlink_to(precious)
    with pytest.raises(lrp.LrpError, match="cannot be written"), disk.written(tmp_path / "new") as file:
        file.write(b"1")
    assert not (tmp_path / "new").exists()


def test_the_target_itself_may_be_a_link_and_is_replaced(tmp_path, precious):
    (tmp_path / "out").symlink_to(precious)
    with disk.written(tmp_path / "out") as file:
        file.write(b"1")
    assert not (tmp_path / "out").is_symlink() and (tmp_path / "out").read_bytes() == b"1"


def test_a_file_that_fails_is_removed(tmp_path):
    with pytest.raises(ZeroDivisionError), disk.written(tmp_path / "out"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["lock", "index.json", "part-00000001.npz", "rejected.jsonl"])
def test_a_run_writes_through_no_link(name, tmp_path, precious):
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 2, 2), nets.dense(rng, 2, 2)])
    records = [np.ones((3, 2)), np.ones((3, 2)), "bad"]
    out = lrp.Output(tmp_path / "out", chunk=1)
    lrp.explain_corpus(model, records, out=out)
    for begun in (True, False):  # a run that goes on, and one that begins
        for path in out.path.iterdir():
            if not begun or path.name in (name, "part-00000002.npz"):
                path.unlink()
        (out.path / name).symlink_to(precious)
        try:
            lrp.explain_corpus(model, records, out=out)
        except lrp.LrpError as error:
            assert str(out.path) in str(error)


def test_a_model_is_saved_through_no_link(tmp_path, precious, monkeypatch):
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 2, 2), nets.dense(rng, 2, 2)])
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".m.h5.guessed.tmp").symlink_to(precious)
    with pytest.raises(lrp.LrpError, match="cannot be written"):
        lrp.save(model, tmp_path / "m.h5")
    monkeypatch.undo()
    (tmp_path / "m.h5").symlink_to(precious)
    with pytest.raises(lrp.LrpError):
        lrp.save(model, tmp_path / "m.h5")
