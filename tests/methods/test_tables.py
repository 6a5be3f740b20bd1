"""Series as users have them: arrays of any kind, frames, tensors; their values, dates and units in the results."""

import warnings

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp

FEATURES = ("rain", "temp")
DATES = np.arange("2005-04-01", "2005-04-07", dtype="M8[D]")


def river(size=2, **settings):
    rng = np.random.default_rng(7)
    layers = (nets.lstm(rng, size, 3, size=0.5), nets.dense(rng, 3, 1))
    settings = {"classes": ("discharge",), "output_unit": "mm", **settings}
    return lrp.Model(layers, **settings)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(6, 2))


class Tensor:
    """What a tensor of torch has; one that needs a gradient refuses to be an array before it is detached."""

    def __init__(self, array, free=False):
        self.array, self.free = array, free

    def detach(self):
        return Tensor(self.array, True)

    def cpu(self):
        return self

    def __len__(self):
        return len(self.array)

    def __iter__(self):
        return (Tensor(row) for row in self.array)

    def numpy(self):
        if not self.free:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.array


def test_the_result_has_values_and_unit(x):
    e = lrp.explain(river(features=FEATURES), x)
    assert np.array_equal(e.values, x) and e.values is not x and e.labels is None and e.output_unit == "mm"
    assert lrp.explain(lrp.load("sentiment"), "a fine film").values is None
    padded = np.concatenate((np.full((2, 2), -9.0), x))
    e = lrp.explain(river(mask_value=-9.0), padded)
    assert np.array_equal(e.values, padded) and not e.relevance[:2].any()


@pytest.mark.parametrize(
    "form", [np.asfortranarray, np.float32, list, Tensor, lambda x: x[None], lambda x: Tensor(x[None])]
)
def test_forms_of_one_series(x, form):
    x = np.round(x * 4)  # float32 and integers hold it exactly
    model = river()
    expected = lrp.explain(model, x).relevance
    assert np.array_equal(lrp.explain(model, form(x)).relevance, expected)
    assert np.array_equal(lrp.explain(model, form(x.astype(int))).relevance, expected)


def test_forms_of_many_series(x):
    model = river()
    expected = lrp.explain_all(model, [x, -x]).relevance
    for form in (np.stack([x, -x]), Tensor(np.stack([x, -x])), [Tensor(x), Tensor(-x)], [x[None], -x[None]]):
        assert np.array_equal(lrp.explain_all(model, form).relevance, expected)


def test_a_series_of_one_variable(x):
    model = river(1)
    expected = lrp.explain(model, x[:, :1]).relevance
    assert np.array_equal(lrp.explain(model, x[:, 0]).relevance, expected)
    assert np.array_equal(lrp.explain(model, list(x[:, 0])).relevance, expected)
    assert lrp.explain(model, [1, 2, 3]).values.tolist() == [[1], [2], [3]]
    with pytest.raises(lrp.LrpError, match=r"must have shape \(T, 2\), got \(6,\); one step of 2 numbers is x\[None\]"):
        lrp.explain(river(), x[:, 0])


def test_a_frame_is_matched_by_name(x):
    pandas = pytest.importorskip("pandas")
    model = river(features=FEATURES)
    frame = pandas.DataFrame({"discharge": np.nan, "temp": x[:, 1], "rain": x[:, 0]}, index=pandas.to_datetime(DATES))
    e = lrp.explain(model, frame)
    assert np.array_equal(e.relevance, lrp.explain(model, x).relevance) and np.array_equal(e.values, x)
    assert e.labels.dtype.kind == "M" and e.step_names[2] == "2005-04-03" and e.top(1)[0].token.startswith("2005-04-")
    assert list(e.to_frame().columns)[:2] == ["position", "label"]
    with pytest.raises(
        lrp.LrpError, match=r"'temp', which the model takes, got 'discharge', 'temperature', 'rain'; is"
    ):
        lrp.explain(model, frame.rename(columns={"temp": "temperature"}))
    frame.iloc[3, 1] = np.nan
    with pytest.raises(lrp.LrpError, match="column 'temp' must be finite, got nan at 2005-04-04"):
        lrp.explain(model, frame)
    with pytest.raises(lrp.LrpError, match="column 'rain' must hold numbers"):
        lrp.explain(model, frame.astype({"rain": str}).assign(rain="much"))
    with pytest.raises(lrp.LrpError, match="got one table"):
        lrp.explain_all(model, frame)


def test_a_missing_column_is_looked_for_among_those_that_are_not_taken(x):
    pandas = pytest.importorskip("pandas")
    model, frame = river(features=("tmin_c", "tmax_c")), pandas.DataFrame(x, columns=["tmin_c", "tmax_c"])
    with pytest.raises(lrp.LrpError, match=r"'tmin_c', which the model takes, got 'tmax_c'\.$"):
        lrp.explain(model, frame[["tmax_c"]])
    with pytest.raises(lrp.LrpError, match=r"; is it 'tmin_c' for 'TMIN_C'\?$"):
        lrp.explain(model, frame.rename(columns={"tmin_c": "TMIN_C"}))


def test_a_frame_names_features_that_the_model_does_not(x):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=FEATURES)
    e = lrp.explain(river(), frame)
    assert e.features == FEATURES and e.labels is None
    assert lrp.explain(river(), pandas.DataFrame(x)).features is None
    dated = lrp.explain(river(), frame.assign(when=pandas.to_datetime(DATES)))
    assert np.array_equal(dated.values, x) and dated.step_names[0] == "2005-04-01"
    dated = lrp.explain(river(), frame.assign(when=pandas.to_datetime(DATES)).tail(3))  # numbered from 3
    assert dated.step_names[0] == "2005-04-04"
    named = frame.assign(when=pandas.to_datetime(DATES)).rename_axis("year").tail(3)
    assert lrp.explain(river(), named).step_names[0] == "3"
    with pytest.raises(lrp.LrpError, match=r"the 2 columns that the model takes, got 3: .*with_units\(features="):
        lrp.explain(river(), frame.assign(more=1.0))
    assert lrp.explain(river(), frame.iloc[2:]).step_names[0] == "2"


def test_times_and_zones(x):
    pandas = pytest.importorskip("pandas")
    hours = pandas.date_range("2005-04-01 22:00", periods=6, freq="h", tz="Europe/Berlin")
    assert lrp.explain(river(), pandas.DataFrame(x, hours)).step_names[0] == "2005-04-01 22:00"
    months = pandas.period_range("2005-04", periods=6, freq="M")
    assert lrp.explain(river(), pandas.DataFrame(x, months)).step_names[1] == "2005-05-01"
    assert lrp.explain(river(1), pandas.Series(x[:, 0], index=list("abcdef"))).step_names[3] == "d"


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("x", lambda table: lrp.explain(river(), table)),
        ("sequence 0", lambda table: lrp.explain_all(river(), [table, table])),
        ("series", lambda table: lrp.explain_windows(river(), table, length=2)),
    ],
)
def test_dates_that_do_not_increase_are_said_once(x, what, call):
    order = [0, 4, 1, 2, 3, 5]
    says = (
        f"{what}: the dates do not increase, 2005-04-02 comes after 2005-04-05; rows are taken in the order they have"
    )
    with pytest.warns(lrp.AssumptionWarning, match=says) as found:
        call(lrp.Table(x, DATES[order]))
    assert [one.filename for one in found] == [__file__]
    with pytest.warns(lrp.AssumptionWarning, match="2005-04-05 comes after 2005-04-06"):
        call(lrp.Table(x, DATES[::-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half_hours = np.datetime64("2005-10-30T01:30") + np.array([0, 30, 60, 30, 60, 90]).astype("m8[m]")
        for labels in (DATES, DATES.astype("M8[Y]"), half_hours, list("badcfe"), None):  # the clock goes back
            call(lrp.Table(x, labels))


def several():
    rng = np.random.default_rng(3)
    inputs = {"weather": lrp.Input(2, features=FEATURES), "basin": lrp.Input(2, False, ("area", "slope"))}
    nodes = (
        lrp.Node("lstm", nets.lstm(rng, 2, 3), ("weather",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "basin")),
        lrp.Node("out", nets.dense(rng, 5, 1), ("both",)),
    )
    return lrp.Model(nodes, inputs=inputs, output_unit="mm")


def test_several_inputs(x):
    pandas = pytest.importorskip("pandas")
    model = several()
    basins = pandas.DataFrame({"slope": [0.3, 0.7], "area": [2.0, 5.0]})
    frame = pandas.DataFrame(x, pandas.to_datetime(DATES), FEATURES)
    e = lrp.explain(model, {"weather": frame, "basin": basins.iloc[1]})
    assert e.inputs["basin"].values.tolist() == [[5.0, 0.7]] and np.array_equal(e.inputs["weather"].values, x)
    assert e.of_input("basin").values.tolist() == [[5.0], [0.7]] and e.of_input("weather").step_names[0] == "2005-04-01"
    many = lrp.explain_all(model, {"weather": np.stack([x, x]), "basin": basins})
    assert np.array_equal(many[1].relevance, e.relevance)


def test_json(x):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, pandas.to_datetime(DATES), FEATURES)
    for labels in (frame.index, [f"day {k}" for k in range(6)]):
        found = {"weather": frame.set_axis(labels), "basin": [2.0, 0.3]}
        e = lrp.explain(several(), found)
        back = lrp.Explanation.from_json(e.to_json())
        for name in ("weather", "basin"):
            for field in ("values", "labels"):
                one, other = (getattr(some.inputs[name], field) for some in (back, e))
                assert np.array_equal(one, other) if other is not None else one is None
        assert back.output_unit == "mm" and back.labels.dtype == e.labels.dtype


def test_files_hold_the_unit(tmp_path):
    lrp.save(river(), tmp_path / "a.h5")
    model = lrp.load(tmp_path / "a.h5")
    assert model.output_unit == "mm" and model.digest == river().digest != river(output_unit="m").digest
    with pytest.raises(lrp.LrpError, match="output_unit must be a string"):
        river(output_unit=3)
