"""No traceback from the command line, whatever is typed and wherever it is shown."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.__main__ import main

COMMAND = [sys.executable, "-m", "lrpnumpy"]
PLAIN = {**os.environ, "LRPNUMPY_COMPILE": "never", "LRPNUMPY_TRACEBACK": ""}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small network of two features in a file."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("model") / "m.h5"
    lrp.save(lrp.Model([nets.lstm(rng, 2, 2), nets.dense(rng, 2, 1)], features=["a", "b"]), path)
    return str(path)


def run(*arguments, **settings):
    """The program as a person runs it."""
    environment = {**PLAIN, **settings.pop("env", {})}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, env=environment, timeout=300, **settings)
    assert b"Traceback" not in done.stderr, done.stderr
    return done


def said(capsys, *arguments):
    """The one line of an error."""
    assert main([*arguments]) == 2
    text = capsys.readouterr().err
    assert text.startswith("lrpnumpy: ") and text.count("\n") == 1
    return text


def test_terminals_of_ascii_and_latin_1(model, tmp_path):
    (tmp_path / "x.csv").write_text("étage,a,b\nélan,1,2\nœuf,3,4\n", encoding="utf-8")
    arguments = ("explain", "--model", model, "--input", str(tmp_path / "x.csv"))
    for env in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = run(*arguments, env=env)
        assert done.returncode == 0 and b"?lan" in done.stdout
    done = run(*arguments, "--csv", "-", env={"PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0 and "\xe9lan".encode("latin-1") in done.stdout and "œuf,".encode() in done.stdout


def test_bytes_that_are_no_utf_8_and_outputs_that_are_closed_or_full(tmp_path):
    done = run("explain", b"good \xff\xfe film", "--html", str(tmp_path / "o.html"), "--csv", str(tmp_path / "o.csv"))
    assert done.returncode == 0 and (tmp_path / "o.html").read_text("utf-8") and (tmp_path / "o.csv").read_text("utf-8")
    shell = " ".join([*COMMAND, "methods"])
    for end, code in ((">&-", 0), (">/dev/full", 2), ("| true", 0), ("--nope 2>/dev/full", 2), ("--nope 2>&-", 2)):
        if "/dev/full" in end and not os.path.exists("/dev/full"):
            continue
        done = subprocess.run(["bash", "-c", f"{shell} {end}"], capture_output=True, env=PLAIN, timeout=300)
        assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr and done.returncode == code


@pytest.mark.parametrize("target", ["²", "--5", "1" * 5000, "٣", "\ud800", "-1", "1.0", ""])
def test_targets_that_are_none(model, capsys, tmp_path, target):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    given = ("--model", model, "--input", str(tmp_path / "x.npy"), "--no-isolate")
    assert "target must" in said(capsys, "explain", *given, f"--target={target}")


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"
INPUTS = {
    "empty.npy": b"",
    "absurd.npy": HEADER % (b"<f8", b"10000000000000, 2") + b"\n",
    "negative.npy": HEADER % (b"<f8", b"-1, 2") + b"\n",
    "objects.npy": HEADER % (b"|O", b"1, 2") + b"\n",
    "no_text.npy": HEADER % (b"<U1", b"2,") + b"\n" + b"\xff" * 8,
    "cut.npz": b"PK\x03\x04",
    "deep.json": b"[" * 100_000,
    "wide.json": b"[" + b"[]," * 2_000_000 + b"[]]",  # four times as many took the processor three seconds
    "twice.json": b'{"x": [[1, 2]], "x": [[3, 4]]}',
    "many.json": b"{" + b",".join(b'"%d":1' % k for k in range(100_000)) + b"}",
    "half.json": b"[1, ",
    "empty.csv": b"",
    "header.csv": b"a,b\n",
    "ragged.csv": b"a,b\n1,2\n3\n",
    "words.csv": b"a,b\n1,two\n",
    "binary.csv": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_are_none(model, capsys, tmp_path, name):
    (tmp_path / name).write_bytes(INPUTS[name])
    began = time.process_time()
    text = said(capsys, "explain", "--model", model, "--input", str(tmp_path / name), "--no-isolate")
    assert (name in text or name == "many.json") and len(text) < 5000 and time.process_time() - began < 10


def test_inputs_that_are_no_files(model, capsys, tmp_path):
    os.mkfifo(tmp_path / "fifo.csv")
    for path in (tmp_path, tmp_path / "fifo.csv", "/dev/zero", tmp_path / "missing.npy"):
        given = ("--model", model, "--input", str(path), "--no-isolate")
        assert "pass a .npy file or a .csv file" in said(capsys, "explain", *given)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a,b\n1,2\n3,4\n", None),
        (",a,b\n0,1,2\n1,3,4\n", ["0", "1"]),
        ("date,a,b\n2020-01-01,1,2\n2020-01-02,3,4\n", ["2020-01-01", "2020-01-02"]),
        ("b,a\n2,1\n4,3\n", None),
        ("\ufeffname;a;b\nx;1;2\ny;3;4\n", ["x", "y"]),
        ("2020-01-01,1,2\n2020-01-02,3,4\n", ["2020-01-01", "2020-01-02"]),
        ("# a comment; and; more\n1,2\n\n3,4\n", None),
        ("t,a,b\nnow,1,2\ntoday,3,4\n", ["now", "today"]),
        ("t,a,b\nNaT,1,2\n2020-01-01,3,4\n", ["NaT", "2020-01-01"]),
        ("t,a,b\n99999999999999-01-01,1,2\n2020-02-31,3,4\n", ["99999999999999-01-01", "2020-02-31"]),
        (
            "t,a,b\n2020-01-01T10:00:00+01:00,1,2\n2020-01-01T10:00Z,3,4\n",
            ["2020-01-01T10:00:00+01:00", "2020-01-01T10:00Z"],
        ),
        ('t,a,b\n"x\ny",1,2\nz\x85z,3,4\n', ["x\ny", "z\x85z"]),
        ("a,b\r1,2\r3,4\r", None),
    ],
)
def test_a_csv_file_with_a_header_and_an_index(model, tmp_path, capsys, text, labels):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    given = ["--model", model, "--input", str(tmp_path / "x.csv"), "--no-isolate"]
    assert main(["explain", *given, "--json", str(tmp_path / "e")]) == 0
    found = lrp.Explanation.from_json((tmp_path / "e").read_text())
    want = lrp.explain(lrp.load(model), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert found.relevance.tolist() == want.relevance.tolist()
    assert [*found.step_names] == (labels or ["0", "1"])


WRONG = [
    ("nope", "invalid choice: 'nope' (choose from "),
    ("explain a b", "unrecognized arguments: b; see `lrpnumpy explain --help`."),
    ("explain good --metod lrp-all", "--metod lrp-all (did you mean --method?); see `lrpnumpy explain --help`."),
    ("corpus x.jsonl o.h5 --exprt=a.csv", "(did you mean --export?); see `lrpnumpy corpus --help`."),
    ("corpus x.jsonl o.h5 more", "unrecognized arguments: more; see `lrpnumpy corpus --help`."),
    ("explain ", "lrpnumpy: the sentence is empty; pass at least one word."),
    ("explain good --model river", "x must be a (T, 5) array, as the model has no vocabulary, got"),
    ("explain --input x.csv", "x must have the 60 columns that the model takes, got 2"),
    ("explain --input missing.csv", "lrpnumpy: missing.csv: no such file; pass a .npy file"),
    ("explain good --html .", "html must be a file, got ., which is a folder."),
    ("page x.jsonl o.html", "x.jsonl must be a folder that explain_corpus wrote, got: Not a directory"),
    ("corpus x.jsonl o --constant sr", "argument --constant: must be NAME=VALUE, such as sr=16000, got 'sr'"),
    ("explain good --eps ²", "argument --eps: invalid float value: '²'"),
    ("explain good --\x1b[31m", r"unrecognized arguments: --\x1b[31m"),
    ("explain good --html=", "html must not be empty"),
    ("explain good --model=", "model must not be empty"),
    ("evaluate toy x.jsonl --figure=", "figure must not be empty"),
    ("evaluate toy x.jsonl --label=", "label must not be empty"),
    ("corpus x.jsonl o.h5 --scheduler=", "scheduler must not be empty"),
    ("corpus x.jsonl o.csv --export o.csv --overwrite", "out and export must be different files, got o.csv"),
    ("explain good --json e.json --csv ./e.json", "json and csv must be different files, got ./e.json for both"),
    ("explain --input x.jsonl --html x.jsonl", "input and html must be different files, got x.jsonl for both"),
    ("evaluate toy x.jsonl --json o --figure o", "json and figure must be different files, got o for both"),
    ("explain good --model x.jsonl --html x.jsonl", "model and html must be different files"),
    ("page x.jsonl x.jsonl", "results and page must be different files, got x.jsonl for both"),
    ("corpus x.jsonl o.h5 --export a.csv --export a.csv", "export and export must be different files"),
    ("corpus x.jsonl o.h5 --export ./x.jsonl --overwrite", "source and export must be different files"),
    ("corpus x.jsonl o.h5 --export no/a.csv", "must be in a folder that exists"),
    ("corpus x.jsonl o.h5 --max-line 9223372036854775807", "max_line must be at most"),
    ("corpus x.jsonl o.h5", "none of the 1 records of x.jsonl can be explained"),
    ("convert toy fifo --overwrite", "path must be a file, got"),
    ("convert toy . --overwrite", "path must be a file, got"),
    ("corpus x.jsonl o.h5 --field a --export fifo.csv --overwrite", "path must be a file, got"),
    ("evaluate sentiment x.jsonl --field a --methods gradient --measures removal --quiet --figure o", "--figure must"),
    ("serve sentiment --port 99999", "port must be 0-65535.\n"),
    (f"serve sentiment --host {'a' * 100}", "--host and --port must be an address"),
    ("explain good --model \u202e\x1b\r\n.h5", r"\u202e\x1b\r\n.h5: no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "wanted"), WRONG, ids=[typed[:40] for typed, _ in WRONG])
def test_what_is_typed_wrongly_is_one_line_and_leaves_everything_as_it_was(
    typed, wanted, tmp_path, monkeypatch, capsys
):
    """An output that is a device was replaced by a file, for everybody on the machine."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.jsonl").write_text('{"a": "good"}\n')
    (tmp_path / "x.csv").write_text("rain,sun\n1,2\n3,4\n")
    for name in ("fifo", "fifo.csv"):
        os.mkfifo(tmp_path / name)
    assert wanted in said(capsys, *typed.split(" "))
    assert (tmp_path / "x.jsonl").read_text() == '{"a": "good"}\n'
    assert all((tmp_path / name).is_fifo() for name in ("fifo", "fifo.csv"))


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_program_that_cannot_be_loaded_says_so_in_one_line(tmp_path):
    (tmp_path / "numpy.py").write_text("raise MemoryError\n")
    where = os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(lrp.__file__))])
    done = run("methods", env={"PYTHONPATH": where})
    assert done.returncode == 2 and done.stderr == b"lrpnumpy: cannot be loaded: there is too little memory.\n"


def test_a_scheduler_that_does_not_answer(tmp_path, capsys):
    pytest.importorskip("distributed")
    (tmp_path / "a.txt").write_text("good\n")
    with socket.socket() as silent:  # takes the call, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for where in (address, "nonsense://x"):
            began = time.monotonic()
            out = str(tmp_path / "o.h5")
            text = said(capsys, "corpus", str(tmp_path / "a.txt"), out, "--quiet", "--scheduler", where)
            assert "--scheduler must be" in text and time.monotonic() - began < 60  # a loop that is busy closes late


def test_an_error_that_nobody_has_foreseen_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("lrpnumpy.commands.explain.lrp.explain", lambda *_, **__: {}["missing"])
    with pytest.raises(KeyError):
        main(["explain", "good"])
    monkeypatch.setenv("LRPNUMPY_TRACEBACK", "")
    assert main(["explain", "good"]) == 1
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and "KeyError: 'missing'" in text and "LRPNUMPY_TRACEBACK=1" in text


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_while_modules_are_imported(tmp_path):
    """A module that the program imports says that it is there, and waits."""
    (tmp_path / "numpy.py").write_text("import sys, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    where = os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(lrp.__file__))])
    with subprocess.Popen(
        [*COMMAND, "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**PLAIN, "PYTHONPATH": where}
    ) as process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130 and process.stderr.read() == b"lrpnumpy: interrupted\n"


def test_ctrl_c_while_a_file_is_read_by_a_child_leaves_no_clock(model, monkeypatch):
    """The program said that it was interrupted, and then waited two minutes for a clock that nobody had stopped."""
    start = threading.Timer.start

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Timer, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lrp.load(model, isolate=True)
    clocks = [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.finished.is_set()]
    assert not clocks


def test_ctrl_c_while_a_command_runs(monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lrpnumpy.commands.explain.lrp.explain", stopped)
    assert main(["explain", "good"]) == 130
    assert capsys.readouterr().err == "lrpnumpy: interrupted\n"
