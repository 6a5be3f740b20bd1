"""Values that nobody expects, as arguments of public functions: `odd_calls.py` draws from them."""

import collections
import datetime
import decimal
import fractions
import io
import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

try:
    import pandas
except ImportError:
    pandas = None


class Word(str):
    """A string of one's own."""


class Whole(int):
    """A number of one's own."""


class Lazy:
    """Something with a length and no entries."""

    def __len__(self):
        return 3


class Broken(np.ndarray):
    """An array of one's own."""


class Sulky:
    """Something of the user's own, of which one function raises an error of its own."""

    def __init__(self, which):
        self.which = which

    def _raise(self, which):
        if which == self.which:
            raise KeyError(f"{which} of the user's own")

    def __len__(self):
        self._raise("len")
        return 3

    def __iter__(self):
        self._raise("iter")
        return iter([1.0, 2.0, 3.0])

    def __getitem__(self, key):
        self._raise("getitem")
        return [1.0, 2.0, 3.0][key]

    def __array__(self, dtype=None, copy=None):
        self._raise("array")
        return np.ones((4, 3))

    def __repr__(self):
        self._raise("repr")
        return "Sulky"

    def __eq__(self, other):
        self._raise("eq")
        return self is other

    def __bool__(self):
        self._raise("bool")
        return True

    def __hash__(self):
        self._raise("hash")
        return 1

    def __index__(self):
        self._raise("index")
        return 1

    def __float__(self):
        self._raise("float")
        return 1.0

    def __str__(self):
        self._raise("str")
        return "a"

    def __fspath__(self):
        self._raise("fspath")
        return "x"

    def __call__(self, *args, **kwargs):
        self._raise("call")
        return self


SULKY = ("len", "iter", "getitem", "array", "repr", "eq", "bool", "hash", "index", "float", "str", "fspath", "call", "")


class Secretive:
    """Something that has no attribute, and says so by an error of its own."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


def fails(*_, **__):
    """A function of the user's own that fails."""
    raise RuntimeError("a fault of the user's own")


def frames():
    """Tables of pandas that are unusual."""
    if pandas is None:
        return []
    numbers = np.arange(15.0).reshape(5, 3)
    made = pandas.DataFrame(numbers, columns=["a", "b", "c"])
    days = pandas.date_range("2020-01-01", periods=5, freq="D")
    return [
        made,
        made[["c", "a", "b"]],
        made.assign(d=1.0),
        made.drop(columns="c"),
        made.iloc[:0],
        pandas.DataFrame(),
        pandas.DataFrame(numbers, columns=["a", "a", "b"]),
        pandas.DataFrame(numbers, columns=[1, "a", None]),
        pandas.DataFrame(numbers, columns=pandas.MultiIndex.from_product([["a"], ["x", "y", "z"]])),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=days.tz_localize("Europe/Berlin")),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=[*days[:4], pandas.NaT]),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=pandas.MultiIndex.from_product([range(5), ["x"]])),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=days.to_period("M")),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=days - days[0]),
        pandas.DataFrame(numbers, columns=["a", "b", "c"], index=[1, 1, "x", None, 2.5]),
        made.astype("Int64"),
        made.astype("Float64").mask(made == 4),
        made.astype("category"),
        made.astype(object),
        made.astype(complex),
        made.astype(bool),
        made.astype(str),
        made.astype("float16"),
        made.astype("Sparse[float]") if hasattr(pandas, "SparseDtype") else made,
        made.assign(a=days),
        made.assign(a=days.tz_localize("UTC")),
        made.assign(a=days - days[0]),
        made.assign(a=[1, "x", None, 2.0, object()]),
        made.assign(a=[[1], [2], [3], [4], [5]]),
        made["a"],
        made["a"].astype("Int64"),
        pandas.Series([1.0, None, 3.0]),
        pandas.Series(["a", "b"]),
        pandas.Series([1.0, 2.0, 3.0], index=["a", "b", "c"]),
        pandas.Series([1.0, 2.0, 3.0], index=["a", "a", "b"]),
        pandas.Series([], dtype=float),
        pandas.Series(days),
        made.index,
        days,
        pandas.NaT,
        pandas.NA,
        pandas.Timestamp("2020-01-01", tz="UTC"),
        pandas.Timedelta(1, "D"),
        pandas.Categorical(["a", "b"]),
        made.groupby("a"),
        [made, made],
        {"x": made},
    ]


def odd_values(model, e):
    """Functions that make odd values: some of them can be used once only."""
    circle = []
    circle.append(circle)
    ones, X = np.ones((4, 3)), np.random.default_rng(1).normal(size=(5, 3))
    values = [
        None, True, False, 0, 1, -1, 2, 7, 10**400, -(10**400), 2**31, 2**63, -(2**63), 0.5, -0.0, 1e308, 1e-320,
        float("nan"), float("inf"), -float("inf"), 1 + 2j, complex("nan"), "", "x", "1", "all", "a b", "²", "\ud800",
        "\0", "nan", b"", b"x", bytearray(b"ab"), memoryview(b"ab"), Word("a"), Whole(1), (), [], [[]], [[], []], {},
        set(), {1}, {"a"}, frozenset(), {"a": 1}, {"x": ones}, {1: 2}, [None], [1], [1.5], ["a"], ["a", 1],
        ["a b", "b a"],
        [b"a"], [[1, 2, 3]], [[1.0, 2.0], [3.0]], [[[1.0]]], [10**400], [float("nan")] * 3, [1j], [[None] * 3], [{}],
        [set()], [object()], circle, range(3), range(0), slice(1), Ellipsis, NotImplemented, object, object(), len,
        lambda *_: 1, np.array(1), np.array(1.5), np.array("a"), np.array(None), np.array([]), np.zeros((0, 3)),
        np.zeros((3, 0)), np.zeros((2, 2, 2, 2)), np.array([1, 2]), np.array([True, False]), np.array(["a", "b"]),
        np.array([b"a"]), np.array([None, 1], object), np.array([[1.0, None, 2.0]], object), np.array([1 + 1j]),
        np.array([[np.nan] * 3]), np.array([[np.inf] * 3]), np.full((2, 3), 1e308), np.ones((4, 3), np.float16),
        np.ones((4, 3), np.longdouble), np.ones((4, 3), ">f8"), ones[::-1], ones.T, np.ones((2, 3), int),
        np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", float)]), np.ma.masked_array(ones, ones > 0),
        np.ma.masked_array(ones, ones < 0), np.matrix(ones), np.zeros((4, 3)).view(Broken), np.float32(1), np.int8(1),
        np.uint64(2**64 - 1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.datetime64("2020"), np.timedelta64(1),
        np.dtype(float), np.random.default_rng(0), decimal.Decimal("1.5"), decimal.Decimal("nan"),
        fractions.Fraction(1, 3),
        Path("x"), Path(), Lazy(), collections.deque([1]), collections.OrderedDict(a=1), collections.Counter("ab"),
        lrp.Table(ones), lrp.Table(None), lrp.Table([[1, 2], [3]], [1]), lrp.Table(ones, ["a"]), model, e,
        [e], [model], type(e), lrp,
        Exception("x"), io.StringIO("x"), sys, "a" * 10_000, [0] * 10_000, ["a"] * 5, [(0, 2)],
        [(2, 1)], [(0, 99)], (0, 1),
        *map(Sulky, SULKY), Secretive(), fails, [Sulky("repr")], [Sulky("len")], {"x": Sulky("array")}, {Sulky(""): 1},
        Word("x"), Word("lrp-all"), Word("\ud800"), Whole(10**30), datetime.date(2020, 1, 1),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(1), [datetime.date(2020, 1, 1)],
        np.float64("nan"), np.float16(1.5), np.longdouble(1), np.longdouble("inf"), np.complex64(1), np.int64(-1),
        np.uint8(255), np.datetime64("NaT"), np.timedelta64("NaT"), np.void(b"ab"), np.array(np.nan), np.array(-1),
        np.array(True), np.array([[1]]), np.array([0]), np.array([np.nan, 1]), np.array(["NaT"], "M8[s]"),
        np.array([1, 2], "m8[D]"), np.array(["a", None], object), np.array([[1], [1, 2]], object), np.array([], object),
        np.array([ones, None], object), np.broadcast_to(1.0, (4, 3)), np.broadcast_to(np.ones(3), (1000, 3)),
        np.asfortranarray(ones), np.ones((8, 6))[::2, ::2], ones[:, ::-1], np.ones((4, 3), ">f4"),
        np.ones((4, 3), ">i2"),
        np.ones((4, 3), bool), np.ones(4, bool), np.ones((4, 3), "U3"), np.ones((1, 4, 3)), np.ones((2, 4, 3)),
        np.ones((1, 1, 4, 3)), np.ones(3), np.ones(4), np.ones((3, 4)), np.ones((4, 2)), np.full((4, 3), 1e39),
        np.full((4, 3), 1e-310), np.full((4, 3), -0.0), np.zeros((4, 3), [("a", float), ("b", int)]),
        np.zeros(4, np.dtype([("a", float), ("b", float), ("c", float)])), np.rec.array([(1.0, 2.0)], names="a,b"),
        np.ma.masked, np.ma.masked_array([1, 2, 3], [0, 1, 0]), np.ma.masked_array(1.0, True),
        np.array(["a b", "b"]), np.array(["a", "\ud800"]), np.array(["a\0b"]), np.str_("x"), np.str_("all"),
        "/", ".", "..", "/nowhere/x.h5", "x" * 5000, "x" * 5000 + ".h5",
        "x.h5", "x.html", "m.h5", "e.h5", "\0.h5", "a\nb.h5", "\ud800.h5", "~", "http://localhost/x.h5", b"x.h5",
        Path("/"), Path("x" * 5000), Path("m.h5"), Path("m.h5/x"), "toy", "sentiment", "-1", "1e400", "None", "0x10",
        "\N{RIGHT-TO-LEFT OVERRIDE}a", "a\nb", "\x1b[31m", "=1+1", "class", "year", "month", "lrp-all", "random",
        "last", "every", "relevance", "absolute", "feature", "x:last", "zero", "omit", "tanh", "softmax", "same",
        ["lrp-all"], ["lrp-all", "lrp-all"], [["lrp-all"]], ("lrp-all", {"eps": "x"}), {"lrp-all": fails},
        {"mine": ("lrp-all", 5)}, {"mine": ("lrp-all", {"foo": 1})}, {"mine": lambda model, xs: [1.0] * len(xs)},
        {"x": None}, {"x": X, "y": X}, {"": 1}, {None: X}, {("a",): X}, {b"x": X}, {"x": "x", 1: 2},
        X, X.astype("f4"), X.T, [X, X.T], [X, "a"], [X, None], [X, {"x": X}], [["a"], 5], ["", "a"], ["a", None],
        [["a", "b"], [1, 2]], [1, 2, 3], [1, 2, 99], [-1, 1], [1.0, 2.0], [True, False], [0, "no"], [[0, 1], [1, 0]],
        [(0, 1), (1, 2)], [[(0, 1)]], [(0, 0)], [(-1, 2)], [(0.0, 2.0)], [(True, 2)], [("0", "2")], [(0, 1, 2)],
        [None, None], [[None], [None]], ["no", "yes"], ["yes", "yes"], (0.0, 1.0), (None, None), ([0.0], [0.0]),
        (np.zeros(3), np.zeros(3)), (np.zeros(3), -np.ones(3)), (1, 2, 3), (4, "pre"), (4, "pre", 0.0, "post"),
        (2**40, "pre", 0.0, "pre"), {"min": 0, "max": 1}, lrp.Node("a", None, ()), lrp.LrpError, lrp.Layer(),
        lrp.Rule("mine", fails), lrp.Rule("mine", lambda g, s, eps: g), lrp.Rule("mine", lambda g, s, eps: (1, 2, 3)),
        lrp.Rule("mine", lambda g, s, eps: (np.ones(7), s)), lrp.Rule("mine", lambda g, s, eps: ("a", "b")),
        lrp.Rule("mine", lambda g, s, eps: (None, s)), lrp.Rule("mine", lambda g, s, eps: (0, 1)),
        lrp.Rule("mine", lambda g, s, eps: (g * np.nan, s)), lrp.Rule("", len), lrp.Rule,
        lambda text: 5, lambda text: [5], lambda text: text, lambda text: [], lambda text: (x for x in "ab"),
        *frames(),
    ]  # fmt: skip
    makers = [lambda value=value: value for value in values]
    return [
        *makers,
        lambda: iter([1]),
        lambda: (x for x in ("a", "b")),
        lambda: map(str, [1]),
        lambda: zip([1], [2], strict=True),
        lambda: (fails() for _ in (1,)),
    ]
