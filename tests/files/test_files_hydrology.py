"""Runs of neuralhydrology, written by the library itself: scores in units are its own, and YAML is plain data."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch import yamls

pytest.importorskip("yaml")
FIXTURES = Path(__file__).parents[1] / "fixtures" / "neuralhydrology"
ROWS = json.loads((FIXTURES / "expected.json").read_text())


def inputs(name):
    x = {port: np.array(values) for port, values in ROWS[name]["x"].items()}
    return x if len(x) > 1 else x["x_d"]


@pytest.fixture
def run(tmp_path):
    """A copy of a run, with changes to its files."""

    def copied(name="lstm_embedded", **changes):
        folder = tmp_path / "my_run"
        shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True)
        config = parse((folder / "config.yml").read_text())
        (folder / "config.yml").write_text(json.dumps(config | changes))  # JSON is YAML, too
        return folder

    return copied


@pytest.mark.parametrize("name", ROWS)
def test_scores_in_units_are_those_of_neuralhydrology(name, tmp_path):
    model = files.load(FIXTURES / name)
    scores = np.array(ROWS[name]["scores"])
    close(lrp.predict(model, inputs(name)), scores, tol=1e-5)
    assert model.classes == ("discharge",) and model.features == ("rain", "temperature") and model.output == "linear"
    assert model.every == (name == "gru_every") and model.output_scaler is not None
    files.convert(FIXTURES / name, tmp_path / "model.h5")
    close(lrp.predict(files.load(tmp_path / "model.h5"), inputs(name)), scores, tol=1e-5)


def test_static_inputs_are_in_alphabetical_order_then_basins():
    names = files.load(FIXTURES / "lstm_embedded").inputs["x_s"].features
    assert names[:2] == ("area", "slope") and sorted(names[2:]) == ["basin north", "basin south"]
    assert "x_s" not in files.load(FIXTURES / "lstm").inputs


def test_the_relevance_adds_up_to_the_discharge():
    found = lrp.explain(files.load(FIXTURES / "lstm_static"), inputs("lstm_static"))
    assert abs(found.ledger.total - found.scores[0]) < 1e-5 * abs(found.scores[0])


def test_an_epoch_can_be_chosen(run):
    folder = run()
    shutil.copy(folder / "model_epoch002.pt", folder / "model_epoch010.pt")
    assert "model_epoch010.pt" in str(files.inspect(folder))
    for which in ("2", "model_epoch002", "model_epoch002.pt"):
        assert "model_epoch002.pt" in str(files.inspect(folder, which=which))
    with pytest.raises(lrp.WeightFileError, match=r"which must be one of its epochs, .*, got '3'"):
        files.load(folder, which="3")


def test_the_readout_is_that_of_the_configuration_or_said(run):
    assert files.load(run(predict_last_n=5)).every
    assert not files.load(run(predict_last_n=5), readout="last").every
    with pytest.raises(lrp.WeightFileError, match="readout must be 'last' or 'every' for a run of neuralhydrology"):
        files.load(run(), readout="mean")
    with pytest.raises(lrp.WeightFileError, match="leave activations out"):
        files.load(run(), activations=["relu"])


def test_other_networks_are_refused_by_name(run):
    for name in ("mamba", "mtslstm", "arlstm", "transformer"):
        with pytest.raises(lrp.WeightFileError, match=f"has the network '{name}', which is not supported"):
            files.load(run(model=name))


def test_an_entity_aware_lstm(run):
    """The folder holds the input gate of the static inputs beside the others; tests/interop compares the scores."""
    model = files.load(FIXTURES / "ealstm")
    assert [type(node.layer).__name__ for node in model.nodes][:2] == ["EALSTM", "Dense"]
    assert model.nodes[0].inputs == ("x_d", "x_s") and model.inputs["x_s"].features == ("area", "slope")
    with pytest.raises(lrp.WeightFileError, match="an EA-LSTM has none without them"):
        files.load(run("ealstm", static_attributes=[]))


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"head": "gmm"}, "has the head 'gmm'"),
        ({"nan_handling_method": "attention"}, "nan_handling_method is not supported"),
        ({"mass_inputs": ["rain"]}, "mass_inputs is not supported"),
        ({"dynamic_inputs": ["rain", "wind"]}, "train_data_scaler.yml: wind must be a finite number"),
        ({"dynamic_inputs": {"1D": ["rain"]}}, "dynamic_inputs must be a list"),
        ({"dynamic_inputs": [["rain"], ["temperature"]]}, "dynamic_inputs must be a list of strings"),
        ({"dynamic_inputs": ["rain"]}, "must"),
        ({"static_attributes": ["slope"]}, "must"),
        ({"model": "gru"}, "gru.weight_ih_l0"),
        ({"dynamics_embedding": {"activation": "swish"}}, "dynamics_embedding must have an activation of"),
    ],
)
def test_what_does_not_go_together_is_refused(run, change, reason):
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(run(**change))
    assert reason in str(caught.value) and "my_run" in str(caught.value)


def test_a_scaler_that_is_missing_or_zero(run):
    folder = run("lstm")
    scaler = folder / "train_data" / "train_data_scaler.yml"
    scaler.write_text(scaler.read_text().replace("data: 3.", "data: .nan # "))
    with pytest.raises(lrp.WeightFileError, match="must be a finite number"):
        files.load(folder)
    scaler.unlink()
    with pytest.raises(lrp.WeightFileError, match=r"train_data_scaler\.yml: cannot be read"):
        files.load(folder)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
@pytest.mark.parametrize("name", ["config.yml", "model_epoch002.pt", "train_data/train_data_scaler.yml"])
def test_links_and_pipes_in_a_run_are_refused(run, name, tmp_path):
    folder = run()
    shutil.move(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(lrp.WeightFileError, match="is a link"):
        files.load(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(lrp.WeightFileError, match="regular file"):
        files.load(folder)


def parse(text):
    return yamls.parse(Source("x"), "config.yml", text.encode())


def test_yaml_is_plain_data():
    text = "a: 1\nb: [1.5, 1e-05, -.5, yes, 'true', \"2\", null, ~]\nc:\n- {d: false, 3: x}\n- |\n  long\n  text\ne:\n"
    expected = {"a": 1, "b": [1.5, 1e-05, -0.5, "yes", "true", "2", None, None]}
    assert parse(text) == {**expected, "c": [{"d": False, 3: "x"}, "long\ntext\n"], "e": None}
    assert parse("n: 9" + "9" * 60) == {"n": "9" * 61}


@pytest.mark.parametrize(
    "text, reason",
    [
        ("a: !!python/object/apply:os.system ['touch owned']", "a tag"),
        ("!!set {a, b}", "a tag"),
        ("a: &x [1]\nb: *x", "an anchor"),
        ("a: 1\na: 2", "occurs twice"),
        ("? [1, 2]\n: 3", "not a string or number"),
        ("[" * 100 + "]" * 100, "levels deep"),
        ("a: 1\n---\nb: 2", "one document"),
        ("a: [", "is not YAML"),
        ("\x00", "is not YAML"),
        ("", "has no document"),
        ("a: " + "x" * 2**19, "over the limit"),
    ],
)
def test_what_is_more_than_data_is_refused(text, reason):
    with pytest.raises(lrp.WeightFileError, match=reason):
        parse(text)


def test_files_of_a_run_may_have_a_second_name(run, tmp_path):
    """As in backups and caches that store what is the same once."""
    folder = run()
    expected = lrp.load(folder).digest
    for path in [one for one in folder.rglob("*") if one.is_file()]:
        os.link(path, tmp_path / f"second-{path.name}")
    assert lrp.load(folder).digest == expected
