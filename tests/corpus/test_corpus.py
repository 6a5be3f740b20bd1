"""Corpora: every source, what is stored, what is rejected, what may be resumed, and what hostile files get."""

import gzip
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import h5py
import networks as nets
import numpy as np
import pytest
from corpora import contents, parts, rejected, run

import lrpnumpy as lrp
from lrpnumpy.__main__ import main
from lrpnumpy.corpus import arrays, explain_partition, folder, sources, workers
from lrpnumpy.kernels import compile as kernels

WORDS = ("the", "film", "is", "not", "good", "naïve", "<unk>", "<pad>")


@pytest.fixture(scope="module")
def model():
    """Words, two directions, three classes; a padding token."""
    rng = np.random.default_rng(1)
    E = lrp.Embedding(rng.normal(size=(len(WORDS), 3)), WORDS, unknown="<unk>", mask=7)
    layers = [nets.two_way(rng, 3, 4), nets.dense(rng, 8, 3)]
    return lrp.Model(layers, embedding=E, classes=("bad", "fair", "good"), provenance={"by": "a test"})


@pytest.fixture(scope="module")
def series():
    """Numbers, predicted at every step."""
    rng = np.random.default_rng(2)
    return lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)], readout="every", features=("flow", "rain"))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """These networks are tiny, and neither rounding nor loss of power is what is tested here."""
    monkeypatch.setattr(kernels, "mode", "never")
    for one in kernels.KERNELS:  # what tests before these have compiled: worker processes do not have it
        monkeypatch.setattr(one, "compiled", {})
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def sentences(count, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS[:7], size=rng.integers(1, 9))) for _ in range(count)]


def same(a, b):
    """Two explanations, in everything they hold."""
    assert json.dumps(a.to_dict()) == json.dumps(b.to_dict())


# -- what is stored ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [None, "good", "all"])
@pytest.mark.parametrize(
    ("method", "unit"),
    [
        ("lrp-all", "step"),
        ("lrp-prop", "feature"),
        ("gradient", "feature"),
        ("cd", "step"),
        ("occlusion-p", "feature"),
    ],
)
def test_stored_is_what_explain_all_gives(model, tmp_path, method, unit, target):
    texts = [*sentences(11), "not <pad> good <pad>"]
    options = {"eps": 0.01} if method.startswith("lrp") else {}
    found = run(model, texts, tmp_path / "out", method, target, unit=unit, chunk=5, **options)
    assert (found.records, len(found), found.rejected, found.rejected_path) == (12, 12, 0, None)
    chunks = [texts[k : k + 5] for k in range(0, 12, 5)]
    wanted = [e for part in chunks for e in lrp.explain_all(model, part, method, target, unit=unit, **options)]
    assert type(found) is type(found[3:5]) is type(lrp.open_explanations(tmp_path / "out"))
    assert len(found) == 12 and "12 explanations" in repr(found) and found.complete
    for a, b in zip(found, wanted, strict=True):
        same(a, b)
    same(found[-1], wanted[-1])
    same(found[3:5][1], wanted[4])
    same(found[::-3][1], wanted[8])
    assert [e.scores.tolist() for e in found[4:][::2]] == found.scores[4::2].tolist()
    with pytest.raises(IndexError):
        found[12]
    assert found.run["model"] == model.digest and found.run["method"] == method
    assert found.run["options"]["unit"] == unit and found.run["versions"]["lrpnumpy"] == lrp.__version__
    names = [f"part-{k:08d}.npz" for k in range(3)]
    assert os.listdir(tmp_path) == ["out"] and sorted(os.listdir(tmp_path / "out")) == ["index.json", "lock", *names]


def test_numbers_at_every_step(series, tmp_path, rng):
    xs = [rng.normal(size=(T, 2)) for T in (3, 1, 5)]
    found = run(series, xs, tmp_path / "out", unit="feature", step=2)
    assert len(found) == 2 and rejected(found.path)[0]["record"] == 2
    assert found[0].tokens is None and found[0].features == ("flow", "rain")
    for number, e in found.numbered():
        nets.close(e.feature_relevance, lrp.explain(series, xs[number - 1], step=2).feature_relevance)


def test_the_protocol_of_results(series, tmp_path, rng):
    """What explanations in memory can do, those in a folder can do, and so can a slice of them."""
    xs = rng.normal(size=(7, 4, 2))
    for unit, target in (("step", None), ("feature", None), ("feature", "all")):
        wanted = lrp.explain_all(series, xs, unit=unit, target=target)
        found = run(series, xs, tmp_path / f"{unit} {target}", unit=unit, target=target, chunk=3)
        nets.close(found.stacked(), wanted.stacked())
        nets.close(found[1:6:2].stacked(), wanted.stacked()[..., 1:6:2, :, :] if target else wanted.stacked()[1:6:2])
        nets.close(found.relevance, wanted.relevance)
        nets.close(found.scores, wanted.scores)
        nets.close(found[2:5].scores, wanted.scores[2:5])
        assert np.array_equal(found.targets, wanted.targets)
        assert np.array_equal(found[2:5].targets, wanted.targets[..., 2:5])
        of = {"target": "predicted"} if target is None else {}
        few = lrp.explain_all(series, xs[:3], unit=unit, target=target)
        nets.close(found.summary(**of).mean, wanted.summary(**of).mean)
        nets.close(found[:3].summary(**of).mean, few.summary(**of).mean)
        found[2:].save(tmp_path / f"{unit} {target}.jsonl")
        assert (tmp_path / f"{unit} {target}.jsonl").read_text().count("\n") == 5
        found[2:].page(tmp_path / "page.html")
        if has("pandas") and target is None:
            frame = found[1:3].to_frame()
            assert frame["record"].tolist() == [2] * 4 + [3] * 4
            nets.close(frame["relevance"].to_numpy(), found[1:3].relevance)
        if has("xarray"):
            array = found[1:3].to_xarray()["relevance"]
            assert array.coords["record"].values.tolist() == [2, 3] and array.shape == found[1:3].stacked().shape
    ragged = run(series, [xs[0], xs[1][:2]], tmp_path / "ragged")
    with pytest.raises(lrp.LrpError, match="must have one length, got"):
        ragged.stacked()
    for what in ("stacked", "summary"):
        with pytest.raises(lrp.LrpError, match="there are no explanations"):
            getattr(ragged[:0], what)()
    with pytest.raises(lrp.LrpError, match="whole numbers"):
        ragged["a":]


def test_words_of_every_kind_come_back(model, tmp_path):
    words = [["naïve", "a b", "\0", ""], ["\ud800", "\u2028"], ["film"]]
    assert [list(e.tokens) for e in run(model, words, tmp_path / "out")] == words


def test_empty_and_hopeless_sources(model, tmp_path):
    for k, source in enumerate(([], ["", ""])):
        found = run(model, source, tmp_path / f"{k}")
        assert (found.records, len(found), found.rejected) == (len(source), 0, len(source))
        assert list(found) == [] and len(rejected(found.path)) == len([*found.rejections()]) == len(source)
        found.export(tmp_path / f"none{k}.csv")


def test_threads_and_chunks(model, tmp_path):
    """Bits do not depend on the number of threads; that of the records in a chunk changes rounding at most."""
    texts = sentences(60)
    one, four = (run(model, texts, tmp_path / f"{n}", chunk=7, threads=n).path for n in (1, 4))
    assert contents(one) == contents(four)
    for x, y in zip(run(model, texts, tmp_path / "whole"), lrp.open_explanations(one), strict=True):
        nets.close(x.relevance, y.relevance)


def test_processes(model, tmp_path, monkeypatch):
    """Processes give the same bits as threads; one that dies, and what cannot be sent to them, is an error of ours."""
    texts = sentences(60)
    for name in ("threads", "workers"):
        run(model, texts, tmp_path / name, chunk=7, **{name: 2})
    assert contents(tmp_path / "threads") == contents(tmp_path / "workers")
    with pytest.raises(lrp.LrpError, match=r"^pass either threads or workers"):
        run(model, texts, tmp_path / "a", threads=1, workers=1)
    with pytest.raises(lrp.LrpError, match=r"^workers: the rule or tokenizer cannot be pickled"):
        run(model, texts, tmp_path / "b", lrp.Rule("own", lambda g, s: (g, s)), workers=1)
    monkeypatch.setattr(workers, "_begin", os.abort)
    with pytest.raises(lrp.LrpError, match=r"^a worker process ended before its work was done"):
        run(model, texts, tmp_path / "c", workers=1)


ORPHANS = """if __name__ == "__main__":
    import sys, time
    import lrpnumpy as lrp

    def source():
        for _ in range(40):
            yield "good film"
        print("working", flush=True)
        time.sleep(600)

    lrp.explain_corpus(lrp.load("model.h5"), source(), out=lrp.Output("out", chunk=2), workers=2)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_worker_processes_end_when_their_parent_is_killed(model, tmp_path):
    lrp.save(model, tmp_path / "model.h5")
    (tmp_path / "job.py").write_text(ORPHANS)
    path = os.pathsep.join([os.path.dirname(os.path.dirname(lrp.__file__)), *sys.path])
    environment = os.environ | {"LRPNUMPY_COMPILE": "never", "PYTHONPATH": path, "ORPHANS": str(tmp_path)}
    with subprocess.Popen([sys.executable, "job.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as job:
        assert job.stdout.readline() == b"working\n"
        started = of_this_test(str(tmp_path)) - {job.pid}
        assert len(started) >= 2
        job.kill()
    until = time.monotonic() + 120
    while of_this_test(str(tmp_path)) and time.monotonic() < until:
        time.sleep(0.05)
    left = of_this_test(str(tmp_path))
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left
    assert len(run(model, ["good film"] * 40, tmp_path / "again", chunk=2)) == 40


def of_this_test(mark):
    """Processes that have this in their environment and run still."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ, open(f"/proc/{name}/stat") as stat:
                if f"ORPHANS={mark}".encode() in environ.read().split(b"\0") and stat.read().split()[2] != "Z":
                    found.add(int(name))
        except OSError:  # it is gone, or another user's
            pass
    return found


def test_mode_of_kernels(model, tmp_path, monkeypatch):
    """A run waits for compiled kernels, since plain ones round otherwise, and leaves the mode as it was."""
    seen = []
    monkeypatch.setattr(kernels, "mode", "background")
    ready = kernels.Kernel.ready
    monkeypatch.setattr(kernels.Kernel, "ready", lambda *given: seen.append(kernels.mode) or ready(*given))
    run(model, ["good film"], tmp_path / "out")
    assert set(seen) == {"wait"} and kernels.mode == "background"


def test_threads_of_blas(tmp_path, rng):
    """A matrix product on two threads rounds otherwise than on one; what was computed before a run does not matter."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    E = lrp.Embedding(rng.normal(size=(400, 300)))
    wide = lrp.Model([nets.lstm(rng, 300, 8), nets.dense(rng, 8, 2)], embedding=E).astype("f4")
    ids = [rng.integers(400, size=12) for _ in range(40)]  # more words than the vocabulary has: it is projected
    for n in (1, 2):
        with threadpoolctl.threadpool_limits(n, "blas"):
            one = pickle.loads(pickle.dumps(wide))
            lrp.explain_all(one, ids, unit="step")
            run(one, ids, tmp_path / f"{n}")
            blas = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
            assert set(blas) <= {n}
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_doubtful_relevance_is_one_warning(tmp_path, rng):
    wild = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)])
    xs = [rng.normal(size=(9, 2)) for _ in range(20)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lrp.explain_all(wild, xs, "lrp-prop", eps=0)
    if not caught:
        pytest.skip("nothing wild about this network")
    with pytest.warns(lrp.RelevanceWarning, match=r"for \d+ of 20 explanations") as caught:
        found = run(wild, xs, tmp_path / "out", "lrp-prop", eps=0, chunk=3)
    assert len(caught) == 1 and found.doubtful > 0


# -- sources -----------------------------------------------------------------------------------------------------


def tokens(model, source, tmp_path, **options):
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    return [" ".join(e.tokens) for e in run(model, source, tmp_path / "out", **options)]


def test_text(model, tmp_path):
    texts = sentences(9)
    for name, data in (
        ("a.txt", "\n".join(texts).encode()),
        ("b.TXT", b"\xef\xbb\xbf" + "\r\n".join([*texts, ""]).encode()),
        (
            "c.txt.gz",
            gzip.compress("\n".join([*texts[:4], ""]).encode()) + gzip.compress("\n".join(texts[4:]).encode()),
        ),
    ):
        (tmp_path / name).write_bytes(data)
        assert tokens(model, tmp_path / name, tmp_path) == texts
    (tmp_path / "log").write_text("film")
    with pytest.raises(lrp.LrpError, match="format be given, got 'log'"):
        tokens(model, tmp_path / "log", tmp_path)
    assert tokens(model, str(tmp_path / "log"), tmp_path, format="text") == ["film"]


def test_json_lines(model, tmp_path):
    lines = ['{"x": "good film"}', '{"x": ["good", "a film"], "y": 1}', '{"x": [4, 1]}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert tokens(model, tmp_path / "a.jsonl", tmp_path, field="x") == ["good film", "good a film", "good film"]
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'"good film"\n[1, 2]\n'))
    assert tokens(model, tmp_path / "b.jsonl.gz", tmp_path) == ["good film", "film is"]


def test_json_lines_of_numbers(series, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"x": [[1, 2.5], [0, -1]]}\n{"x": [[1, NaN]]}\n{"x": [[1, 2], [3]]}\n{"x": [1.5]}\n'
    )
    found = run(series, tmp_path / "a.jsonl", tmp_path / "out", field="x")
    assert len(found) == 1
    reasons = [entry["reason"] for entry in rejected(found.path)]
    assert "finite" in reasons[0] and "ragged" in reasons[1] and "(T, 2)" in reasons[2]


def save_h5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **({"compression": "gzip"} if array.ndim > 1 else {}))


@pytest.mark.parametrize(("end", "save"), [(".h5", save_h5), (".npz", np.savez), (".npz", np.savez_compressed)])
def test_arrays(series, model, tmp_path, rng, end, save, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 64)  # a few rows at once
    xs = [rng.normal(size=(T, 2)).astype("f4") for T in (3, 0, 7, 1, 20)]
    offsets = np.cumsum([0, *map(len, xs)])
    padded = np.full((5, 20, 2), np.nan, ">f4")
    for k, x in enumerate(xs):
        padded[k, : len(x)] = x
    save(tmp_path / f"ragged{end}", values=np.concatenate(xs), offsets=offsets)
    save(tmp_path / f"padded{end}", values=padded, lengths=np.diff(offsets).astype("u2"))
    save(tmp_path / f"full{end}", other=np.stack([xs[4]] * 3).astype("f2"))
    save(tmp_path / f"ids{end}", values=np.array([4, 1, 9, 0]), offsets=np.array([0, 2, 3, 4]))
    for name in ("ragged", "padded"):
        found = run(series, tmp_path / (name + end), tmp_path / f"{name}.out", longest=10)
        for (number, e), k in zip(found.numbered(), (0, 2, 3), strict=True):
            assert number == k + 1
            nets.close(e.relevance, lrp.explain(series, xs[k]).relevance)
        assert [(r["record"], r["reason"][:20]) for r in rejected(found.path)] == [
            (2, "a record must have a"),
            (5, "a sequence must have"),
        ]
    assert len(run(series, tmp_path / f"full{end}", tmp_path / "full.out", field="other")) == 3
    found = run(model, tmp_path / f"ids{end}", tmp_path / "ids.out")
    assert len(found) == 2 and "from 0 to 7, got 9" in rejected(found.path)[0]["reason"]


def test_an_iterable_is_read_once_and_as_needed(model, tmp_path):
    """Not more is held than the chunks under way."""
    read = []

    def source():
        for text in sentences(200):
            read.append(threading.get_ident())
            yield text

    found = run(model, source(), tmp_path / "out", chunk=10)
    assert len(found) == len(read) == 200 and set(read) == {threading.get_ident()}


def test_chunks_end_where_bytes_do(monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 10)
    source = sources.open_source(lrp.Corpus(["abcd"] * 3 + ["a" * 30, "b", "c"]))
    assert [(c.first, len(c.records)) for c in sources.chunks(source, 4)] == [(1, 3), (4, 1), (5, 2)]
    assert [len(c.records) for c in sources.chunks(source, 2)] == [2, 2, 2]


# -- hostile sources ---------------------------------------------------------------------------------------------


def test_bad_lines_are_listed(model, tmp_path):
    lines = [b"good film", b"", b"\xff\xfe", b"x" * 10_000_001, b"   ", b"a\0b", "naïve".encode()[:3], b"film"]
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    found = run(model, tmp_path / "a.txt", tmp_path / "out", longest=50)
    assert len(found) == 2
    found = rejected(found.path)
    assert [entry["record"] for entry in found] == [2, 3, 4, 5, 6, 7]
    assert [re.search("empty|UTF-8|max_line|NUL", entry["reason"])[0] for entry in found] == [
        "empty", "UTF-8", "max_line", "empty", "NUL", "UTF-8",
    ]  # fmt: skip
    assert "10,000,00" in found[2]["reason"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [7, 8, 9, 10, 11, 17, 18, 40])
def test_lines_at_the_limit(size, end):
    from lrpnumpy.corpus.lines import read_lines

    for after in [b"", b"next"] if end else [b""]:
        found = list(read_lines(io.BytesIO(b"x" * size + end + after), 8))
        assert len(found) == 1 + bool(after) and (not after or found[1] == b"next")
        assert found[0] == b"x" * size if size <= 8 else "max_line" in found[0].reason


def test_long_lines_are_not_kept(model, tmp_path):
    """A gzip bomb: a gigabyte in one line costs time, not memory."""

    class Endless(io.RawIOBase):
        left, most = 1 << 28, 0

        def readline(self, size):
            self.most = max(self.most, size)
            got, self.left = min(size, self.left), self.left - min(size, self.left)
            return b"x" * got

    from lrpnumpy.corpus.lines import read_lines

    file = Endless()
    (bad,) = read_lines(file, 1 << 20)
    assert f"{1 << 28:,}" in bad.reason and file.most <= (1 << 20) + 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("9" * 5000, "must be JSON"),
        ("7", "got 7"),
        ("null", "null"),
        ("[1, 2]", "a list"),
        ("{}", "an object with nothing"),
        ('{"y": 1}', "an object with 'y'"),
        ('{"x": {"a": 1}}', "an object with 'a'"),
        ('{"x": true}', "got true"),
        ('{"x": []}', "empty"),
        ('{"x": ""}', "empty"),
        ('{"x": [[]]}', "shape"),
        ('{"x": [null]}', "token ids"),
        ('{"x": [{}]}', "token ids"),
        ('{"x": ["a", 1]}', "not both, got 1"),
        ('{"x": [1, true, 1e999]}', "shape"),
        ('{"x": [-1]}', "from 0 to 7, got -1"),
        ('{"x": [8]}', "from 0 to 7, got 8"),
        ('{"x": [123456789012345678901234567890]}', "token ids"),
        ('{"x": [[[[1]]]]}', "token ids"),
        ('{"x": [7, 7]}', "not padding"),
        (b'{"x": "\xff"}', "UTF-8"),
    ],
)
def test_wrong_json_is_a_rejected_record(model, tmp_path, line, reason):
    data = line if isinstance(line, bytes) else line.encode()
    (tmp_path / "a.jsonl").write_bytes(b'{"x": "good"}\n' + data + b'\n{"x": "film"}\n')
    found = run(model, tmp_path / "a.jsonl", tmp_path / "out", field="x")
    (entry,) = rejected(found.path)
    assert entry["record"] == 2 and reason in entry["reason"] and len(found) == 2


def test_records_of_an_iterable_that_are_no_sequences(model, tmp_path):
    class Odd:
        def __len__(self):
            raise TypeError("odd")

    wrong = [None, 3, 2.5, b"bytes", {"a": 1}, object(), [object()], np.array("x"), np.float32, [[1], [2, 3]], Odd()]
    found = run(model, [*wrong, "good"], tmp_path / "out")
    assert [entry["record"] for entry in rejected(found.path)] == list(range(1, len(wrong) + 1))


@pytest.mark.parametrize("damage", ["cut", "flipped", "trailing", "empty"])
def test_broken_gzip(model, tmp_path, damage):
    whole = gzip.compress("\n".join(sentences(500)).encode())
    data = {
        "cut": whole[:-30],
        "flipped": whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:],
        "trailing": whole + b"rubbish",
        "empty": whole[:5],
    }[damage]
    (tmp_path / "a.txt.gz").write_bytes(data)
    with pytest.raises(lrp.LrpError, match=r"a\.txt\.gz: cannot be read after record \d+; is it damaged"):
        run(model, tmp_path / "a.txt.gz", tmp_path / "out", chunk=50)
    assert not (tmp_path / "out").exists() or not lrp.open_explanations(tmp_path / "out").complete


@pytest.mark.parametrize("end", [".h5", ".npz"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "must have an array 'values'"),
        ({"values": [1.0]}, "must have offsets or lengths"),
        ({"values": [[1.0]], "offsets": [0, 1], "lengths": [1]}, "either offsets"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [0, 2, 1]}, "must rise from 0 to 3, the rows of the values, got"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [0, 2]}, "must rise from 0 to 3"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [1, 3]}, "must rise from 0"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [0, 4]}, "must rise from 0 to 3"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [-1, 3]}, "must rise from 0 to 3, .*-1"),
        ({"values": [[1.0, 1.0]] * 3, "offsets": [0.0, 3.0]}, "whole numbers"),
        ({"values": [[1.0, 1.0]] * 3, "lengths": [1, 1]}, "one for each of 3"),
        ({"values": [[[[1.0]]]]}, "1 to 3 axes"),
        ({"values": [b"text"]}, "numbers"),
        ({"values": [[1j]]}, "numbers"),
    ],
)
def test_arrays_that_do_not_fit_together(series, tmp_path, end, given, message):
    path = tmp_path / f"a{end}"
    given = {name: np.array(value) for name, value in given.items()}
    if end == ".npz":
        np.savez(path, **given)
    else:
        with h5py.File(path, "w") as file:
            for name, value in given.items():
                file[name] = value
    with pytest.raises(lrp.LrpError, match=message):
        run(series, path, tmp_path / "out")


def test_lengths_of_padded_arrays(series, tmp_path):
    np.savez(tmp_path / "a.npz", values=np.ones((3, 2, 2)), lengths=[2, 3, -1])
    found = run(series, tmp_path / "a.npz", tmp_path / "out")
    assert len(found) == 1 and all("from 0 to 2" in entry["reason"] for entry in rejected(found.path))


@pytest.mark.parametrize("name", ["a.h5", "a.npz", "a.txt.gz"])
def test_damaged_files(series, tmp_path, name, rng):
    """Bytes changed anywhere: a clear error, a rejected record, or nothing wrong at all."""
    x, path = rng.normal(size=(40, 2)), tmp_path / name
    if name == "a.h5":
        save_h5(path, values=x, offsets=np.arange(0, 41, 4))
    elif name == "a.npz":
        np.savez_compressed(path, values=x, offsets=np.arange(0, 41, 4))
    else:
        path.write_bytes(gzip.compress(b"1 2\n" * 50))
    good, refused = path.read_bytes(), 0
    for k in range(40):
        data = bytearray(good)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data[: rng.integers(1, len(data))] if k % 4 == 0 else data)
        try:
            run(series, path, tmp_path / f"{k}.out")
        except lrp.LrpError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused >= 10  # each that is cut short, at least


def test_arrays_that_declare_too_much(series, tmp_path):
    """Nothing is allocated for what a file only claims to hold."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"
    import zipfile

    for shape, message in ((b"1, 1000000000000", "declares"), (b"1000000000000, 2", "declares")):
        text = header % shape
        text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("values.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        with pytest.raises(lrp.LrpError, match=message):
            run(series, tmp_path / "a.npz", tmp_path / "out")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("values", (10**9, 10, 2), "f8", chunks=(1000, 10, 2))
    with pytest.raises(lrp.LrpError, match="declares"):
        run(series, tmp_path / "a.h5", tmp_path / "b")


def test_links_are_not_followed(series, tmp_path):
    save_h5(tmp_path / "secret.h5", values=np.ones((3, 2, 2)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "values")
    with pytest.raises(lrp.LrpError, match="never followed"):
        run(series, tmp_path / "a.h5", tmp_path / "out")


def test_a_source_that_changes_while_it_is_read(model, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(sentences(5)))
    lines = sources.open_source(lrp.Corpus(path)).records()
    next(lines)
    with path.open("a") as file:
        file.write("\nmore")
    with pytest.raises(lrp.LrpError, match="must not change"):
        list(lines)


# -- resuming ----------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def interrupted(model, texts, out, after, **options):
    """A run whose source fails after some records."""

    def source():
        yield from texts[:after]
        raise Stop

    with pytest.raises(Stop):
        run(model, source(), out, threads=1, **options)


def test_resume(model, tmp_path):
    texts, out = sentences(50), tmp_path / "out"
    texts[3] = texts[33] = ""
    run(model, texts, tmp_path / "whole", chunk=4)
    interrupted(model, texts, out, 42, chunk=4)
    done = len(parts(out))
    assert 5 < done < 11
    so_far = lrp.open_explanations(out)  # what is there can be read
    assert not so_far.complete and so_far.records == 4 * done and so_far.rejected_path is None
    for a, b in zip(so_far, lrp.open_explanations(tmp_path / "whole"), strict=False):
        same(a, b)
    before = {name: (out / name).stat().st_mtime_ns for name in parts(out)}
    found = run(model, texts, out, chunk=4)
    assert contents(out) == contents(tmp_path / "whole")
    assert len(rejected(out)) == 2 and found.complete
    assert before.items() <= {name: (out / name).stat().st_mtime_ns for name in parts(out)}.items()  # not made again
    times = {path: path.stat().st_mtime_ns for path in out.iterdir() if path.name != "lock"}
    assert len(run(model, texts, out, chunk=4)) == len(found)
    assert times == {path: path.stat().st_mtime_ns for path in out.iterdir() if path.name != "lock"}
    (out / parts(out)[3]).unlink()  # any part that is missing is made again, and no other
    run(model, texts, out, chunk=4)
    assert contents(out) == contents(tmp_path / "whole")


def test_begin_again(model, tmp_path):
    out = tmp_path / "out"
    run(model, sentences(30), out, chunk=4)
    with pytest.raises(lrp.LrpError, match=r"has another run: method was .*; choose another folder, or Output"):
        run(model, sentences(10), out, "gradient", chunk=4)
    assert len(run(model, sentences(10), out, "gradient", chunk=4, overwrite=True)) == 10
    run(model, sentences(10), tmp_path / "whole", "gradient", chunk=4)
    assert contents(out) == contents(tmp_path / "whole")


def test_what_may_not_change(model, tmp_path):
    """A run is resumed as it was begun, and is told what differs; before it is finished and after."""
    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_text("\n".join(sentences(20)))
    other = lrp.Model(model.layers, embedding=model.embedding, readout="mean", classes=model.classes)

    def split(gate, signal, eps):
        return gate * 0 + 0.5, signal * 0 + 0.5

    mine, newer = lrp.Rule("mine", split), lrp.Rule("mine", split, version=2)
    write = folder.Folder.write
    for method in ("lrp-all", mine):
        for finished in (False, True):
            begun = {"chunk": 4, "method": method}
            if not finished:

                def once(self, *args):
                    write(self, *args)
                    raise Stop

                with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
                    patch.setattr(folder.Folder, "write", once)
                    run(model, path, out, **begun)
            text = path.read_text()
            changes = [
                ({"model": other}, "model was"),
                ({"method": "lrp-half"}, 'method was "'),
                ({"method": newer}, "custom mine was 1 and is now 2" if method is mine else "method was"),
                ({"target": "good"}, "target was null and is now 2"),
                ({"eps": 0.1}, r"options eps was 0\.001 and is now 0\.1"),
                ({"unit": "feature"}, "options unit was"),
                ({"versus": 1}, "options versus was null and is now 1"),
                ({"chunk": 5}, "limits chunk was 4 and is now 5"),
                ({"longest": 5}, "limits longest"),
                ({"columns": {"a": [*range(20)]}}, "columns a was null"),
                ({"source": list(sentences(20))}, 'source kind was "text" and is now "iterable"'),
                ({"text": text + "\nmore"}, "source bytes was"),
                ({"text": text.replace("film", "good")}, "source sha256 was"),
            ]
            for change, message in changes:
                options = {"model": model, "source": path, **begun, **change}
                path.write_text(options.pop("text", text))
                with pytest.raises(lrp.LrpError, match=message):
                    run(options.pop("model"), options.pop("source"), out, **options)
            path.write_text(text)
            assert len(run(model, path, out, **begun)) == 20
        shutil.rmtree(out)


def test_a_tokenizer_has_a_version(tmp_path, rng):
    class Cut:
        version = 1

        def __call__(self, text):
            return text.split()

    def network():
        E = lrp.Embedding(np.ones((len(WORDS), 3)), WORDS, unknown="<unk>", tokenizer=Cut())
        return lrp.Model([nets.lstm(np.random.default_rng(0), 3, 2)], embedding=E)

    run(network(), sentences(3), tmp_path / "out")
    run(network(), sentences(3), tmp_path / "out")
    Cut.version = "2024-05"
    with pytest.raises(lrp.LrpError, match=r'Cut was 1 and is now "2024-05"'):
        run(network(), sentences(3), tmp_path / "out")


def test_a_custom_layer_has_a_version(tmp_path):
    class Scale(lrp.layers.Affine):
        """A custom layer: its class is not one of the package."""

    def network():
        rng = np.random.default_rng(0)
        E = lrp.Embedding(rng.normal(size=(len(WORDS), 3)), WORDS, unknown="<unk>")
        return lrp.Model([nets.lstm(rng, 3, 2), Scale(np.ones(2))], embedding=E)

    run(network(), sentences(3), tmp_path / "out")
    Scale.version = 2
    with pytest.raises(lrp.LrpError, match=r"model was .* and is now"):
        run(network(), sentences(3), tmp_path / "out")


def test_a_rule_that_fails_stops_the_run(model, tmp_path):
    """Not one record after the other is rejected: no record is to blame."""
    rule = lrp.Rule("mine", lambda gate, signal: (gate, signal))  # eps is missing
    with pytest.raises(lrp.LrpError, match="takes 2 positional arguments"):
        run(model, sentences(3), tmp_path / "out", rule)


@pytest.mark.parametrize("name", ["lrp-half", "occlusion-p"])
def test_a_rule_with_the_name_of_a_method_is_not_that_method(model, tmp_path, name):
    rule = lrp.Rule(name, lambda gate, signal, eps: (gate * 0 + 0.5, signal * 0 + 0.5))
    for begun, then in ((rule, name), (name, rule)):
        out = tmp_path / type(begun).__name__
        interrupted(model, sentences(20), out, 18, method=begun, chunk=4)
        for _ in range(2):  # in the middle, and when it is finished
            with pytest.raises(lrp.LrpError, match=f"custom {name} was|method was"):
                run(model, sentences(20), out, then, chunk=4)
            run(model, sentences(20), out, begun, chunk=4)
    assert f"(custom: {name})" in repr(lrp.open_explanations(tmp_path / "Rule"))


def test_versions_may_not_change(model, tmp_path, monkeypatch):
    interrupted(model, sentences(30), tmp_path / "out", 25, chunk=4)
    monkeypatch.setattr(lrp, "__version__", "9.9")
    with pytest.raises(lrp.LrpError, match=r'versions lrpnumpy was ".*" and is now "9\.9"'):
        run(model, sentences(30), tmp_path / "out", chunk=4)


def test_an_iterable_must_yield_the_same_again(model, tmp_path):
    texts = sentences(30)
    interrupted(model, texts, tmp_path / "out", 25, chunk=4)
    changed = [*texts[:5], "another", *texts[6:]]
    for _ in range(2):  # in the middle, and once it is finished
        for source, message in ((changed, "a record from 5 to 8 differs"), (texts[:8], "fewer records")):
            with pytest.raises(lrp.LrpError, match=message):
                run(model, source, tmp_path / "out", chunk=4)
        assert len(run(model, texts, tmp_path / "out", chunk=4)) == 30


def test_fingerprints_see_every_value():
    big = np.zeros(5000)
    other = big.copy()
    other[2500] = 1
    prints = {
        sources.fingerprint([record])
        for record in (
            "a",
            b"a",
            ["a"],
            ["a", "b"],
            ["a b"],
            big,
            other,
            [big],
            [other],
            [[1.0] * 3000],
            big[:, None],
            1,
            None,
        )
    }
    assert len(prints) == 13


def test_strict(model, tmp_path):
    texts = sentences(30)
    texts[13] = ""
    with pytest.raises(lrp.LrpError, match=r"record 14 cannot be explained: .* empty"):
        run(model, texts, tmp_path / "out", chunk=4, strict=True)
    interrupted(model, texts, tmp_path / "b", 30, chunk=4)
    with pytest.raises(lrp.LrpError, match="record 14 cannot be explained"):
        run(model, texts, tmp_path / "b", chunk=4, strict=True)


def test_a_full_disk(model, tmp_path, monkeypatch):
    """Wherever it fills up, what is finished is kept, and the run goes on when there is room."""
    texts = sentences(8)
    run(model, texts, tmp_path / "whole", chunk=4)
    left = 0

    def fsync(handle):
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    stops = 0
    for room in range(1, 12):
        left = room
        try:
            found = run(model, texts, tmp_path / "out", chunk=4)
        except lrp.LrpError as error:
            stops += 1
            assert "No space left on device" in str(error) and "make room and run it again" in str(error)
            assert not list(tmp_path.glob("**/.*.tmp"))
            found = run(model, texts, tmp_path / "out", chunk=4)
        assert contents(found.path) == contents(tmp_path / "whole")
        shutil.rmtree(found.path)
    assert stops > 6


def test_a_part_that_the_disk_has_lost(model, tmp_path):
    texts, out = sentences(30), tmp_path / "out"
    run(model, texts, tmp_path / "whole", chunk=4)
    for damage in ("cut", "flipped"):
        interrupted(model, texts, out, 29, chunk=4)
        path = out / "part-00000001.npz"
        data = bytearray(path.read_bytes())
        if damage == "flipped":
            with np.load(path) as file:
                data[data.index(file["inputs/x/relevance"].tobytes()) + 5] ^= 255
        path.write_bytes(data[:-50] if damage == "cut" else data)
        with pytest.raises(
            lrp.LrpError, match=r"part-00000001\.npz is damaged .* remove it and run explain_corpus again"
        ):
            folder.Folder(out).read(1)
        found = run(model, texts, out, chunk=4)
        assert contents(found.path) == contents(tmp_path / "whole")
        path.write_bytes(data[:-50] if damage == "cut" else data)  # once it is finished
        with pytest.raises(lrp.LrpError, match=r"part-00000001\.npz is damaged"):
            list(lrp.open_explanations(out))
        shutil.rmtree(out)


def test_parts_of_another_run_are_not_taken(model, tmp_path):
    run(model, sentences(8), tmp_path / "a", chunk=4)
    run(model, sentences(8, 1), tmp_path / "b", "gradient", chunk=4)
    for source, k in (("a", 0), ("b", 1)):
        moved = tmp_path / source / f"part-{1 - k:08d}.npz"
        shutil.copy(tmp_path / "b" / f"part-{k:08d}.npz", moved)
        with pytest.raises(lrp.LrpError, match="it is another part, or of another run"):
            list(lrp.open_explanations(tmp_path / source))


def test_two_runs_into_one_folder(model, tmp_path):
    pytest.importorskip("fcntl")

    def source():
        yield from sentences(3)
        with pytest.raises(lrp.LrpError, match=rf"is being written by another run \(process {os.getpid()}\)"):
            run(model, sentences(3), tmp_path / "out")
        with pytest.raises(lrp.LrpError, match="is being written by another run"):
            run(model, sentences(3), tmp_path / "out", overwrite=True)

    assert len(run(model, source(), tmp_path / "out")) == 3
    (tmp_path / "out" / "lock").write_text("1\n")  # of a process that was killed: nobody holds it
    assert len(run(model, sentences(3), tmp_path / "out")) == 3


def test_other_folders_are_left_alone(model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(lrp.LrpError, match=r"out must be a new folder, or that of a run, .* 'thesis.txt'"):
            run(model, ["good"], out, overwrite=overwrite)
    with pytest.raises(lrp.LrpError, match=r"out must be a folder, got .*, which is a file"):
        run(model, ["good"], out / "thesis.txt")
    assert os.listdir(out) == ["thesis.txt"]
    run(model, ["good"], tmp_path / "b")
    (tmp_path / "b" / "thesis.txt").write_text("years of work")
    run(model, ["film"], tmp_path / "b", overwrite=True)
    assert (tmp_path / "b" / "thesis.txt").exists()


# -- the door ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 3}, "from 0 to 2"),
        ({"target": [0, 1]}, "for the whole corpus"),
        ({"target": 1, "versus": "fair"}, "another class"),
        ({"method": "magic"}, "unknown method .magic."),
        ({"unit": "letter"}, "unit must be one of"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1"),
        ({"threads": 0}, "threads must be a number from 1 to 256"),
        ({"longest": 2.5}, "longest must be a whole number"),
        ({"format": "xml"}, "format must be one of"),
        ({"field": "x"}, "format and field are for files"),
        ({"source": 7}, "a path or an iterable"),
        ({"source": b"text"}, "a path or an iterable"),
        ({"source": "missing.txt"}, "cannot be read"),
        ({"source": __file__}, "format be given"),
        ({"source": "-", "format": "hdf5"}, "for standard input"),
        ({"out": "no/such/folder/out"}, "in a folder that exists"),
        ({"out": 5}, "out must be the path of a folder"),
        ({"out": ""}, "out must be the path of a folder"),
        ({"out": b"bytes"}, "out must be the path of a folder"),
        ({"columns": np.array(["a", "b"])}, "columns must be a dict of names to values, or a list of names"),
        ({"columns": 0}, "columns must be a dict of names to values, or a list of names"),
        ({"overwrite": 1}, "overwrite must be True or False"),
        ({"strict": "no"}, "strict must be one of True, False"),
        ({"workers": 0}, "workers, unless it is a dask.distributed.Client, must be a number from 1 to 256"),
        ({"workers": "many"}, "workers, unless it is a dask.distributed.Client, must be a number from 1 to 256"),
    ],
)
def test_what_is_asked_for_is_checked_first(model, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    given = {"source": ["good"], "out": "out", **options}
    with pytest.raises(lrp.LrpError, match=message):
        run(model, given.pop("source"), given.pop("out"), **given)
    assert os.listdir(tmp_path) == []


def test_opening_something_else(model, tmp_path):
    lrp.save(model, tmp_path / "model.h5")
    (tmp_path / "empty").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "index.json").write_text('{"format": "lrpnumpy explanations", "version": 1}')
    for name in ("empty", "old", "model.h5", "none"):
        with pytest.raises(lrp.LrpError, match=name):
            lrp.open_explanations(tmp_path / name)


def test_a_damaged_folder_of_explanations(model, tmp_path, rng):
    """Whatever was changed: an error that names the folder, or explanations."""
    out = run(model, sentences(5), tmp_path / "out").path
    for name, least in (("part-00000000.npz", 30), ("index.json", 5)):
        path = out / name
        good, refused = path.read_bytes(), 0
        for k in range(60):
            data = bytearray(good)
            for _ in range(1 + k % 3):
                data[rng.integers(len(data))] ^= 1 << rng.integers(8)
            path.write_bytes(data)
            try:
                list(lrp.open_explanations(out))
            except lrp.LrpError as error:
                assert str(out) in str(error)
                refused += 1
        assert least < refused
        path.write_bytes(good)
    with np.load(out / "part-00000000.npz") as file:
        arrays = dict(file)
    for name in arrays:
        with (out / "part-00000000.npz").open("wb") as file:
            np.savez(file, **{**arrays, name: arrays[name][:-1]})
        with pytest.raises(lrp.LrpError, match=str(out)):
            list(lrp.open_explanations(out))


@pytest.mark.parametrize(
    ("steps", "options", "words"),
    [
        (3, {"step": 3}, "step must lie from -3 to 2"),
        (
            5,
            {"method": "deeplift", "reference": {"y": np.zeros((4, 2))}},
            "reference of 'y' must be a vector or have at least",
        ),
        (3, {"join": True}, "steps"),
    ],
)
def test_a_record_without_the_steps_that_are_needed_is_rejected(rng, tmp_path, steps, options, words):
    """Two series: what is wrong with the second one is only seen when the network runs, and stops no run."""
    options = dict(options)
    join = [lrp.Node("sum", lrp.layers.Add(), ("lstm", "gru"))] if options.pop("join", False) else []
    nodes = [
        lrp.Node("lstm", nets.lstm(rng, 2, 3), ("x",)),
        lrp.Node("gru", nets.gru(rng, 2, 3), ("y",)),
        *join,
        lrp.Node("head", nets.dense(rng, 3, 2), ("sum" if join else "gru",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(2), "y": lrp.Input(2)})
    records = [{"x": rng.normal(size=(4, 2)), "y": rng.normal(size=(T, 2))} for T in (4, steps, 4, 20)]
    found = run(model, records, tmp_path / "a", longest=10, **options)
    told = [json.loads(line) for line in found.rejected_path.read_text().splitlines()]
    assert [one["record"] for one in told] == [2, 4]
    assert words in told[0]["reason"] and "at most longest = 10 steps, got 20" in told[1]["reason"]
    for e, alone in zip(found, lrp.explain_all(model, records[::2], **options), strict=True):
        nets.close(e.inputs["y"].relevance, alone.inputs["y"].relevance, 1e-12, 1)


def test_records_of_several_inputs_are_known_again(rng, tmp_path):
    """By every number of every input: an array prints itself shortened and rounded."""
    model = nets.three_inputs(rng)
    records = [nets.three_values(rng, 500) for _ in range(2)]
    run(model, records, tmp_path / "a")
    reordered = [dict(reversed(one.items())) for one in records]
    assert len(run(model, reordered, tmp_path / "a")) == 2
    records[1]["weather"][250, 1] += 1e-12
    with pytest.raises(lrp.LrpError, match="a record from 1 to 2 differs"):
        run(model, records, tmp_path / "a")
    assert sources._size(records[0]) > records[0]["weather"].nbytes


# -- exports -----------------------------------------------------------------------------------------------------


def ends():
    return ("csv", "jsonl", "h5", *(["parquet"] if has("pyarrow") else []))


@pytest.mark.parametrize(("target", "unit"), [(None, "step"), ("all", "feature")])
def test_exports(model, tmp_path, target, unit):
    texts = ["the naïve film", "", 'good, "not"']
    found = run(model, texts, tmp_path / "out", target=target, unit=unit, columns={"../a": [1, "b", {"c": None}]})
    for end in ends():
        found.export(tmp_path / f"out.{end}")
    every = list(found)
    with pytest.raises(lrp.LrpError, match=r"\.h5, \.csv, \.jsonl, \.parquet, got 'a\.xls'"):
        found.export("a.xls")
    with pytest.raises(lrp.LrpError, match=r"export: path must be a file that does not exist yet, got .*out\.csv"):
        found.export(tmp_path / "out.csv")
    found.export(tmp_path / "out.csv", overwrite=True)
    with h5py.File(tmp_path / "out.h5") as file:
        for name, wanted in (("relevance", [e.relevance for e in every]), ("marks", [e.marks for e in every])):
            for a, b in zip(ragged(file, f"inputs/x/{name}"), wanted, strict=True):
                np.testing.assert_array_equal(a, b)
        assert file["record/values"][:].tolist() == [1, 3]
        assert [json.loads(text.tobytes()) for text in ragged(file, "inputs/x/words")] == [[*e.tokens] for e in every]
        assert [json.loads(text.tobytes())["../a"] for text in ragged(file, "columns")] == [1, {"c": None}]
        assert json.loads(file.attrs["run"]) == found.run
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in lines] == [1, 3]
    for line, e in zip(lines, every, strict=True):
        same(lrp.Explanation.from_json(line), e)
    import csv

    rows = list(csv.DictReader((tmp_path / "out.csv").open(encoding="utf-8", newline="")))
    one = [e.for_class(c) for e in every for c in range(3)] if target == "all" else every
    assert [float(row["relevance"]) for row in rows] == [float(r) for e in one for r in e.relevance]
    assert [row["token"] for row in rows] == [word for e in one for word in e.tokens]
    assert ("x2" in rows[0]) == (unit == "feature")
    if has("pyarrow"):
        from pyarrow import parquet

        table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["record"] for row in table] == [1, 3] and table[1]["tokens"] == list(every[1].tokens)
        assert table[0]["relevance"] == every[0].relevance.tolist()
        assert table[0]["ledger_inputs"] == np.asarray(every[0].ledger.inputs).tolist()


def test_exports_have_every_input(rng, tmp_path):
    """A series, words and a vector: each step of each has its row in CSV, and its place in the lists of Parquet."""
    model = nets.three_inputs(rng)
    records = [nets.three_values(rng, T, words) for T, words in ((1, "the wet lake"), (4, "unseen"), (2, "dry"))]
    found = run(model, records, tmp_path / "out", unit="feature", chunk=1)
    for end in ends():
        found.export(tmp_path / f"out.{end}")
    every = list(found)
    with h5py.File(tmp_path / "out.h5") as file:
        for a, e in zip(ragged(file, "inputs/basin/feature_relevance"), every, strict=True):
            np.testing.assert_array_equal(a, e.inputs["basin"].feature_relevance)
        marks = [None if e.inputs["notes"].marks is None else e.inputs["notes"].marks.tolist() for e in every]
        found = [None if one is None else one.tolist() for one in ragged(file, "inputs/notes/marks")]
        assert found == [*marks[:2], None][: len(found)] and marks == [None, [1], None]
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    for line, e in zip(lines, every, strict=True):
        same(lrp.Explanation.from_json(line), e)
    import csv

    rows = list(csv.DictReader((tmp_path / "out.csv").open(encoding="utf-8", newline="")))
    parts = [(name, part) for e in every for name, part in e.inputs.items()]
    assert [row["input"] for row in rows] == [name for name, part in parts for _ in part.relevance]
    assert [float(row["relevance"]) for row in rows] == [float(R) for _, part in parts for R in part.relevance]
    assert [row["token"] for row in rows if row["input"] == "notes"] == ["the", "wet", "lake", "unseen", "dry"]
    for name, part in every[1].inputs.items():
        own = [row for row in rows if (row["record"], row["input"]) == ("2", name)]
        columns = part.features or ["x0", "x1"]
        assert [[float(row[key]) for key in columns] for row in own] == part.feature_relevance.tolist()
        assert all(row["area"] == "" for row in own) == (name != "basin")
    if has("pyarrow"):
        from pyarrow import parquet

        table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        for row, e in zip(table, every, strict=True):
            assert row["tokens_of_notes"] == list(e.inputs["notes"].tokens)
            assert row["relevance"] == e.relevance.tolist()
            assert row["feature_relevance_of_basin"] == e.inputs["basin"].feature_relevance.tolist()
        assert [row["marks_of_notes"] for row in table] == [[0, 0, 0], [1], [0]]


def ragged(file, name):
    """The arrays of a field of an HDF5 export, as docs/corpora.md says."""
    shapes, values = file[name]["shapes"][:], file[name]["values"][:]
    sizes = np.where(shapes[:, 0] < 0, 0, shapes.prod(axis=1))
    cut = np.split(values, np.cumsum(sizes)[:-1])
    return [None if shape[0] < 0 else part.reshape(shape) for part, shape in zip(cut, shapes, strict=True)]


def test_what_a_spreadsheet_would_compute_is_text_in_csv(model, tmp_path):
    hostile = [["=1+1", "@SUM(A1)", "+cmd|'/C'!A0", "-2+3", "film"], ["good;=1", "-", "-0.5", "\t=1"]]
    found = run(model, hostile, tmp_path / "out")
    found.export(tmp_path / "safe.csv")
    found.export(tmp_path / "plain.csv", formulas=True)
    import csv

    def tokens(name):
        return [row["token"] for row in csv.DictReader((tmp_path / name).open(encoding="utf-8", newline=""))]

    assert tokens("plain.csv") == [word for words in hostile for word in words]
    assert tokens("safe.csv") == [
        "'=1+1", "'@SUM(A1)", "'+cmd|'/C'!A0", "'-2+3", "film", "good;'=1", "-", "-0.5", "'\t'=1",
    ]  # fmt: skip


def has(module):
    from importlib.util import find_spec

    return find_spec(module) is not None


# -- command line, pickles, partitions ---------------------------------------------------------------------------


def test_command_line(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lrp.save(model, "model.h5")
    (tmp_path / "a.txt").write_text("good film\n\nnot good\n")
    begin = ["corpus", "a.txt", "out", "--model", "model.h5", "--target", "good"]
    assert main([*begin, "--export", "a.csv", "--quiet"]) == 0
    told = capsys.readouterr().err
    assert "2 of 3 records explained" in told and "rejected.jsonl: why 1" in told and "wrote a.csv" in told
    assert (tmp_path / "a.csv").read_text().count("\n") == 5
    assert main([*begin, "--export", "a.csv"]) == 2
    assert "export: path must be a file that does not exist" in capsys.readouterr().err
    assert main([*begin, "--export", "a.csv", "--overwrite"]) == 0
    assert main(begin) == 0
    assert main([*begin, "--target", "bad"]) == 2
    assert "target was 2 and is now 0" in capsys.readouterr().err
    assert main([*begin, "--target", "bad", "--restart"]) == 0
    assert main(["corpus", "a.txt", "b", "--model", "model.h5", "--strict"]) == 2
    assert "record 2 cannot be explained" in capsys.readouterr().err


def test_standard_input(model, tmp_path):
    lrp.save(model, tmp_path / "model.h5")
    command = [sys.executable, "-m", "lrpnumpy", "corpus", "-", "out", "--model", "model.h5"]
    path = os.pathsep.join([os.path.dirname(os.path.dirname(lrp.__file__)), *sys.path])
    environment = os.environ | {"LRPNUMPY_COMPILE": "never", "PYTHONPATH": path}
    done = subprocess.run(command, input=b"good film\nnot\n", cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [e.tokens for e in lrp.open_explanations(tmp_path / "out")] == [("good", "film"), ("not",)]


def test_progress(model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n".join(sentences(30)))
    run(model, tmp_path / "a.txt", tmp_path / "out", chunk=4, progress=True)
    assert "30/30" in capsys.readouterr().err


def test_models_can_be_pickled(model, series):
    for one in (model, series):
        again = pickle.loads(pickle.dumps(one))
        assert again.digest == one.digest and again.provenance == one.provenance
        arrays = [array for node in again.nodes for _, array in node.layer.all_arrays()]
        assert arrays and not any(array.flags.writeable for array in arrays)


def test_partitions(model):
    texts = sentences(10)
    for a, b in zip(
        explain_partition(iter(texts), model, unit="step"), lrp.explain_all(model, texts, unit="step"), strict=True
    ):
        same(a, b)
    found = explain_partition(["good", "", None, "film"], model, bad="none")
    assert [e and e.tokens for e in found] == [("good",), None, None, ("film",)]
    with pytest.raises(lrp.LrpError, match="record 1 of the partition cannot be explained"):
        explain_partition(["good", ""], model)
    with pytest.raises(lrp.LrpError, match="bad must be one of"):
        explain_partition([], model, bad="skip")
