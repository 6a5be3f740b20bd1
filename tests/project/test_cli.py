"""The command line as a person meets it, and the examples."""

import csv
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from docs import shown
from lrpnumpy.__main__ import main
from lrpnumpy.explain import COMPARED
from lrpnumpy.files import isolated, kinds

ROOT = Path(__file__).parents[2]


def test_explain_prints_a_sentence_and_a_table(capsys):
    assert main(["explain", "It isn't funny."]) == 0
    text = capsys.readouterr().out
    assert "It is n't funny ." in text and "ledger" in text and "\x1b" not in text
    assert text.count("\n") > 8 and "'negative'" in text


def test_explain_writes_files(tmp_path, capsys):
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("html", "json", "csv")}
    options = [part for kind, path in paths.items() for part in (f"--{kind}", str(path))]
    assert main(["explain", "not good", "--target", "positive", "--method", "gradient-x-input", *options]) == 0
    page = paths["html"].read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and '"positive"' in page and "supports this class" in page
    e = lrp.Explanation.from_json(paths["json"].read_text())
    assert e.method == "gradient-x-input" and e.target == 1 and e.classes == ("negative", "positive")
    rows = list(csv.DictReader(paths["csv"].open()))
    assert [row["token"] for row in rows] == ["not", "good"]
    assert [float(row["relevance"]) for row in rows] == [float(r) for r in e.relevance]


def test_explain_all_methods(tmp_path, capsys):
    assert (
        main(
            [
                "explain",
                "not good",
                "--all-methods",
                "--eps",
                "0.2",
                "--json",
                str(tmp_path / "a.json"),
                "--color",
                "truecolor",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    usual = [*COMPARED]
    assert all(name in text for name in usual) and "\x1b[48;2;" in text
    assert [e["method"] for e in json.loads((tmp_path / "a.json").read_text())] == usual


def test_explain_numbers(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lrp.save(
        lrp.Model(
            [lrp.LSTM(rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 2, 2))), lrp.Dense(rng.normal(size=(1, 2)))]
        ),
        tmp_path / "m.h5",
    )
    x = rng.normal(size=(3, 2))
    np.save(tmp_path / "x.npy", x)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",")
    outputs = []
    for name in ("x.npy", "x.csv"):
        given = ["--model", str(tmp_path / "m.h5"), "--input", str(tmp_path / name), "--no-isolate"]
        assert main(["explain", *given, "--csv", "-"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and "deeplift,0,2,2," in outputs[0]


def test_methods_with_a_reference(tmp_path, capsys):
    rng = np.random.default_rng(0)
    words = lrp.Embedding(rng.normal(size=(4, 2)), ["<unk>", "a", "b", "c"], "<unk>")
    cell = lrp.LSTM(rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 2, 2)))
    lrp.save(lrp.Model([cell, lrp.Dense(rng.normal(size=(1, 2)))], embedding=words), tmp_path / "m.h5")
    given = ("--model", str(tmp_path / "m.h5"), "--no-isolate")
    for method, flags in (
        ("deeplift", ["--reference", "unknown"]),
        ("integrated-gradients", ["--reference", "c", "--nodes", "9"]),
        ("shapley", ["--players", "2"]),
        ("lrp-all", ["--gamma", "0.5"]),
    ):
        assert main(["explain", "a b c", *given, "--method", method, *flags]) == 0
        text = capsys.readouterr().out
        assert ("reference" in text and "gap" in text) == (method != "lrp-all")
    assert main(["explain", "a b", *given, "--method", "deeplift", "--reference", "mean"]) == 2
    assert "must come with data" in capsys.readouterr().err


def test_several_inputs_from_a_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    lrp.save(nets.three_inputs(rng), tmp_path / "m.h5")
    x = nets.three_values(rng)
    np.savez(tmp_path / "x.npz", **x)
    (tmp_path / "x.json").write_text(json.dumps({k: v if isinstance(v, str) else v.tolist() for k, v in x.items()}))
    outputs = []
    for name in ("x.npz", "x.json"):
        given = ["--model", str(tmp_path / "m.h5"), "--input", str(tmp_path / name), "--no-isolate"]
        assert main(["explain", *given, "--csv", "-"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and ",notes,1,dry," in outputs[0] and ",basin,0," in outputs[0]
    (tmp_path / "x.npz").write_bytes(b"PK\3\4 broken")
    assert main(["explain", "--input", str(tmp_path / "x.npz")]) == 2
    assert "or for several inputs a .npz or .json file" in capsys.readouterr().err


def test_methods(capsys):
    assert main(["methods"]) == 0
    text = capsys.readouterr().out
    assert all(method.name in text and method.paper in text for method in lrp.methods())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "neither a sentence nor --input FILE was given"),
        (["explain", "good", "--target", "great"], "target must be one of 'negative'"),
        (["explain", "good", "--model", "nonsense"], "sentiment"),
        (["explain", "good", "--model", "no/such.h5"], "no/such.h5"),
        (
            ["explain", "good", "--html", "no/such/folder.html"],
            "no/such/folder.html: cannot be written",
        ),
        (["explain", "--input", "no.csv"], "no such file; pass a .npy file or a .csv file of numbers"),
        (["inspect", "no/such.h5"], "no/such.h5"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("lrpnumpy: ") and message in error and error.count("\n") == 1


def test_help_and_version(capsys):
    for arguments in (["--help"], ["explain", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 0
    assert lrp.__version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", ["explain", "evaluate", "corpus", "inspect"])
def test_help_names_nothing_that_cannot_be_typed(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert not [word for word in ("None", "False", "of yours", " dict ", "`data`", "also write figure") if word in text]


def test_a_closed_pipe_is_no_error(tmp_path):
    code = "import sys; from lrpnumpy.__main__ import main; sys.exit(main(['methods']))"
    command = f'"{sys.executable}" -c "{code}" | head -1'
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.stderr == "" and done.stdout.startswith("method")


PICTURES = {
    "time_series": {"series.png", "map.png"},
    "river": {"river-map.png", "river-waterfall.png", "river-memory.png"},
    "vowels": {"vowels-map.png", "vowels-bars.png"},
    "parts": {"parts-river.png", "parts-vowels.png"},
    "units": {"units-snow.png", "units-flood.png"},
    "interactions": {"interactions-words.png", "interactions-river.png"},
}


@pytest.mark.parametrize(
    "example", ["explain_sentence", "own_rule", "by_hand", "anomaly", "encoder_decoder", *PICTURES]
)
def test_example(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{example}.py"])
    shown.watch(monkeypatch.setattr)
    runpy.run_path(str(ROOT / "examples" / f"{example}.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert len(output) > 100 and not shown.NAN.search(output)
    assert {path.name for path in tmp_path.iterdir()} == PICTURES.get(example, set())


def test_files_of_strangers_are_read_in_a_process_of_their_own(tmp_path, monkeypatch, capsys):
    """By every command that takes a model; shipped models are ours, and --no-isolate switches it off."""
    path, read, asked = tmp_path / "model.h5", isolated.read, []
    lrp.save(lrp.load("sentiment"), path)
    monkeypatch.setattr(isolated, "read", lambda path, hints: asked.append(path) or kinds.read(path, hints))
    reviews = tmp_path / "reviews.txt"
    reviews.write_text("It isn't funny.\n", "utf-8")
    for command in (
        ["explain", "It isn't funny.", "--model", str(path)],
        ["inspect", str(path)],
        ["convert", str(path), str(tmp_path / "other.h5")],
        ["corpus", str(reviews), str(tmp_path / "out"), "--model", str(path), "--quiet"],
        ["evaluate", str(path), str(reviews), "--methods", "random", "--measures", "deletion", "--quiet"],
    ):
        asked.clear()
        main(command)
        assert asked == [path], (command, capsys.readouterr())
    asked.clear()
    assert main(["inspect", str(path), "--no-isolate"]) == 0 and main(["inspect", "sentiment"]) == 0 and not asked
    monkeypatch.setattr(isolated, "read", read)
    capsys.readouterr()
    assert main(["inspect", str(path)]) == 0
    alone = capsys.readouterr().out
    assert main(["inspect", str(path), "--no-isolate"]) == 0 and capsys.readouterr().out == alone
