"""Whole files of every format and layout, small ones, from which damaged ones are made; no framework is needed."""

import gzip
import io
import itertools
import json
import pickle
import tempfile
import warnings
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

import lrpnumpy as lrp
from tests.support import networks as nets
from tests.support import onnxfile as onnx

FIXTURES = Path(__file__).parents[1] / "fixtures"
LARGEST = 60_000  # bytes of a fixture that is used
ROOM = 600  # spaces behind a JSON text inside HDF5, so that a damaged one may be longer
MANY = 12  # links or attributes that are stored densely
# Arrays of a network, by PyTorch's names, as small as can be.
SHAPES = {"lstm.weight_ih_l0": (8, 2), "lstm.weight_hh_l0": (8, 2), "lstm.bias_ih_l0": (8,), "lstm.bias_hh_l0": (8,)}
SHAPES |= {"out.weight": (2, 2), "out.bias": (2,)}
WORDS = ("the", "film", "is", "not", "good", "naïve", "<unk>")


@dataclass(frozen=True)
class Seed:
    """Files that belong together, by their names; `path` is what is opened, and `door` says how."""

    format: str
    name: str
    door: str
    files: dict[str, bytes]
    path: str
    given: dict = field(default_factory=dict)
    hurt: tuple[str, ...] = ()  # names of files that may be damaged; all where it is empty


def seeds():
    """Every seed, by format, in a fixed order."""
    found = defaultdict(list)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for one in itertools.chain(_fixtures(), _layouts(), _keras2(), _others(), _inputs(), _results(Path(folder))):
            found[one.format].append(one)
    return dict(found)


def arrays():
    """A network by PyTorch's names."""
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}


def model():
    """A small network that reads words."""
    rng = np.random.default_rng(7)
    layers = [nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)]
    return lrp.Model(layers, embedding=lrp.Embedding(rng.normal(size=(7, 3)), WORDS, "<unk>"), classes=("bad", "good"))


def series_model():
    """A small network that reads numbers."""
    rng = np.random.default_rng(8)
    return lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)], features=("rain", "snow", "sun"))


# ------------------------------------------------------------------------------------------------------------ fixtures

FORMATS = {
    ".keras": "Keras 3 (.keras)", ".onnx": "ONNX", ".npz": "arrays in .npz", ".safetensors": "safetensors",
    ".pt": "torch.save", ".pth": "torch.save", ".bin": "torch.save", ".ckpt": "torch.save",
}  # fmt: skip
FOLDERS = {"neuralhydrology": "neuralhydrology folder", "reference": "LRP_for_LSTM folder", "native": "lrpnumpy HDF5"}


def _fixtures():
    """What real programs wrote."""
    for scores in sorted([*FIXTURES.glob("*/scores.json"), *FIXTURES.glob("*/expected.json")]):
        for name, row in sorted(json.loads(scores.read_text()).items()):
            path, load = scores.parent / name, dict(row.get("load", {}))
            if not path.exists():  # of a checkpoint the name of its class is known
                name = f"{name}.ckpt"
                path = scores.parent / name
            files = [one for one in sorted(path.rglob("*")) if one.is_file()] if path.is_dir() else [path]
            beside = path.with_name(f"{name}.data")
            files += [beside] if beside.exists() else []
            content = {str(one.relative_to(path.parent)): one.read_bytes() for one in files}
            if sum(map(len, content.values())) > LARGEST:
                continue
            whole = content.get(name, b"")
            known = FORMATS.get(path.suffix) or FOLDERS.get(path.parent.name)
            if known == "torch.save":
                known = "torch.save, zip" if whole.startswith(b"PK") else "torch.save, older"
            if "config" in load:
                text = (scores.parent / load["config"]).read_bytes()
                content["config.json"] = text
                load["config"] = "@config.json"
                yield Seed("JSON configuration", name, "load", content, name, load, ("config.json",))
            if beside.exists():
                known = "ONNX with data beside it"
            if not known:
                known = (
                    "Keras 1 and 2 (.h5)" if whole.startswith(b"\x89HDF") and "torch" not in name else "HDF5 layouts"
                )
            yield Seed(known, name, "load", content, name, load)


# ---------------------------------------------------------------------------------------------------------------- HDF5

VERSIONS = {"oldest": {"libver": "earliest"}, "1.8": {"libver": ("v108", "v108")}, "latest": {"libver": "latest"}}
WRITERS = {"": {}, "ordered": {"track_order": True}, "user block": {"userblock_size": 512}}
FILTERS = {"compression": "gzip", "shuffle": True, "fletcher32": True}
LAYOUTS = {"contiguous": {}, "compact": {"compact": True}, "chunked": {"chunks": True}}
LAYOUTS |= {
    " ".join(names): {"chunks": True, **{name: FILTERS[name] for name in names}}
    for count in (1, 2, 3)
    for names in itertools.combinations(FILTERS, count)
}
LAYOUTS |= {
    "lzf": {"chunks": True, "compression": "lzf"},
    "many chunks": {"small": 1},
    "one chunk": {"small": 8},
    "growing": {"small": 1, "grows": 1},
    "growing both ways": {"small": 1, "grows": 2},
    "growing, packed": {"small": 2, "grows": 1, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "allocated early": {"small": 2, "early": True},
}


def _write(file, name, array, layout):
    """A dataset in some layout."""
    settings = dict(layout)
    compact, early, small = settings.pop("compact", False), settings.pop("early", False), settings.pop("small", 0)
    grows = settings.pop("grows", 0)
    if small:
        settings["chunks"] = (min(small, len(array)), *array.shape[1:])
    if grows:
        settings["maxshape"] = tuple(None if k < grows else n for k, n in enumerate(array.shape))
    if not (compact or early):
        file.create_dataset(name, data=array, **settings)
        return
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if compact:
        made.set_layout(h5py.h5d.COMPACT)
    else:
        made.set_chunk(settings["chunks"])
        made.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space, kind = h5py.h5s.create_simple(array.shape), h5py.h5t.IEEE_F32LE
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, made)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))


def _stored(write, **how):
    """The bytes of an HDF5 file that `write` fills."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", **how) as file:
        write(file)
    return stream.getvalue()


def _layouts():
    """Arrays of a network in every layout, by every version of the format."""
    content = arrays()
    for (version, how), (layout, settings) in itertools.product(VERSIONS.items(), LAYOUTS.items()):

        def write(file, settings=settings):
            for name, array in content.items():
                _write(file, name, array, settings)
            file.attrs["readout"] = "last"

        yield _hdf5(f"{version}, {layout}", _stored(write, **how))
    for (version, how), (writer, more) in itertools.product(VERSIONS.items(), WRITERS.items()):

        def dense(file):
            for name, array in content.items():
                _write(file, name, array, {})
            for k in range(MANY):
                file.create_group(f"more{k}")
                file.attrs[f"remark {k}"] = f"text {k}" if k % 2 else np.array([f"a{k}", "b"], object)
            file.attrs["readout"] = np.bytes_(b"last")
            file.attrs["count"] = 3

        yield _hdf5(f"{version}, many links and attributes {writer}", _stored(dense, **how, **more))

    newest = ("latest", VERSIONS["latest"])
    for (version, how), (kind, write) in [
        *itertools.product(VERSIONS.items(), ODD.items()),
        *itertools.product([newest], LISTS.items()),
    ]:

        def odd(file, write=write):
            for name, array in content.items():
                _write(file, name, array, {})
            write(file)

        yield _hdf5(f"{version}, {kind}", _stored(odd, **how), layers=["lstm", "out"])
    for strategy in ("page", "fsm"):
        how = {"fs_strategy": strategy, "fs_persist": True, "libver": "latest"}
        yield _hdf5(f"file space: {strategy}", _stored(lambda file: [file.update(content)], **how))


def _typed(dtype):
    return lambda file: file.create_dataset("typed", (3,), dtype)


def _many_chunks(width, most, **packing):
    """Weights in so many chunks that the list of their places is spread over many blocks."""

    def write(file):
        del file["lstm.weight_ih_l0"]
        values = np.ones((8, width), "f4")
        file.create_dataset("lstm.weight_ih_l0", data=values, chunks=(1, 1), maxshape=most, **packing)

    return write


# What is in few files: types of every class, large attributes, links of every kind; and long lists of chunks.
ODD = {
    "records": _typed([("a", "f4"), ("b", "i4", (2,))]), "opaque": _typed("V5"), "complex": _typed("c8"),
    "enumerated": _typed(h5py.enum_dtype({"A": 1, "B": 2})), "lists": _typed(h5py.vlen_dtype("f4")),
    "references": _typed(h5py.ref_dtype), "variable strings": _typed(h5py.string_dtype()),
    "a named type": lambda file: [file.update(t=np.dtype("f4")), file.create_dataset("typed", (3,), file["t"])],
    "half": lambda file: file.update({"out.bias2": np.ones(2, "<f2"), "big": np.ones(2, ">f8")}),
    "large attributes": lambda file: [file.attrs.update({f"a{k}": np.bytes_(b"x" * 9000)}) for k in range(9)],
    "soft links": lambda file: file.update(a=h5py.SoftLink("/b"), far=h5py.ExternalLink("x.h5", "/"), same=file["/"]),
}  # fmt: skip
LISTS = {
    "a fixed list": _many_chunks(140, None), "an extensible list": _many_chunks(40, (None, 40), compression="gzip"),
    "a tree": _many_chunks(40, (None, None), fletcher32=True),
}  # fmt: skip


def _hdf5(name, content, **more):
    return Seed("HDF5 layouts", name, "load", {"model.h5": content}, "model.h5", {"output": "softmax", **more})


def _keras2():
    """Keras 2 files of a small network, by every version of the format and writer."""
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [None, None, 2]}},
        {"class_name": "LSTM", "config": {"name": "a", "units": 2, "return_sequences": False, "activation": "tanh",
            "recurrent_activation": "sigmoid", "use_bias": True}},
        {"class_name": "Dense", "config": {"name": "b", "units": 2, "activation": "softmax", "use_bias": True}},
    ]  # fmt: skip
    config = {"class_name": "Sequential", "config": {"name": "sequential", "layers": layers}}
    rng = np.random.default_rng(2)
    groups = {"a": [(2, 8), (2, 8), (8,)], "b": [(2, 2), (2,)]}
    values = {name: [rng.normal(size=shape).astype("f4") for shape in shapes] for name, shapes in groups.items()}
    for (version, how), (writer, more), fixed in itertools.product(VERSIONS.items(), WRITERS.items(), (True, False)):

        def write(file, fixed=fixed):
            text = json.dumps(config) + " " * ROOM
            file.attrs["model_config"] = np.bytes_(text) if fixed else text
            file.attrs["keras_version"] = "2.9.0"
            weights = file.create_group("model_weights")
            weights.attrs["layer_names"] = np.array(["in", "a", "b"], "S") if fixed else ["in", "a", "b"]
            weights.create_group("in").attrs["weight_names"] = np.array([], "S1")
            for name, group in values.items():
                inside = [f"{name}/w{k}:0" for k in range(len(group))]
                weights.create_group(name).attrs["weight_names"] = np.array(inside, "S") if fixed else inside
                for k, array in enumerate(group):
                    weights[name][inside[k]] = array

        content = {"model.h5": _stored(write, **how, **more)}
        yield Seed("Keras 1 and 2 (.h5)", f"{version} {writer} {fixed}", "load", content, "model.h5")


# -------------------------------------------------------------------------------------------------------- other weights


def _zip(members, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


def _npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _others():
    content, hint = arrays(), {"readout": "last"}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        packed = _zip({f"{name}.npy": _npy(array) for name, array in content.items()}, method)
        yield Seed("arrays in .npz", f"packed {method}", "load", {"a.npz": packed}, "a.npz", hint)
    header, data = {"__metadata__": {"format": "pt", "readout": "last"}}, b""
    for name, array in content.items():
        stop = len(data) + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), stop]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    whole = len(text).to_bytes(8, "little") + text + data
    yield Seed("safetensors", "written here", "load", {"a.safetensors": whole}, "a.safetensors", hint)
    for kind, array_type in (("F16", "<f2"), ("BF16", "<u2"), ("F64", "<f8")):
        shapes = {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2)}
        packed, header = b"", {}
        for name, shape in shapes.items():
            values = np.ones(shape, array_type).tobytes()
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(packed), len(packed) + len(values)]}
            packed += values
        text = json.dumps(header).encode()
        whole = len(text).to_bytes(8, "little") + text + packed
        yield Seed("safetensors", kind, "load", {"a.safetensors": whole}, "a.safetensors", hint)
    for protocol in range(6):
        yield Seed("torch.save, zip", f"protocol {protocol}", "load", {"a.pt": _checkpoint(protocol)}, "a.pt")
    yield Seed("ONNX", "constants", "load", {"a.onnx": onnx.model(_folded())}, "a.onnx")
    for cell, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for n in (1, 2):
            way = {} if n == 1 else {"direction": "bidirectional"}
            after = onnx.node("Squeeze", ["Y_h"], ["h"], axes=[0]) if n == 1 else b""
            if n == 2:
                after = onnx.node("Transpose", ["Y_h"], ["p"], perm=[1, 0, 2])
                after += onnx.tensor("s", np.array([-1, 8], np.int64)) + onnx.node("Reshape", ["p", "s"], ["h"])
            after += onnx.tensor("V", onnx.weights("V", 4 * n, 2)) + onnx.node("MatMul", ["h", "V"], ["y"])
            graph = onnx.network(cell=onnx.recurrent(cell, **way), gates=gates, n=n, after=after + onnx.output("y"))
            yield Seed("ONNX", f"{cell} {n}", "load", {"a.onnx": onnx.model(graph)}, "a.onnx")
    values = onnx.weights("W", 1, 16, 3)
    outside = onnx.tensor("W", values, {"location": "w.bin", "offset": 0, "length": values.nbytes})
    files = {"a.onnx": onnx.model(onnx.network(W=outside)), "w.bin": values.tobytes()}
    yield Seed("ONNX with data beside it", "written here", "load", files, "a.onnx")


def _checkpoint(protocol):
    """A file of torch.save whose pickle is of some protocol: settings beside an LSTM without its tensors."""
    beside = {"epoch": 3, "args": {"hidden": 2, "rate": 1e-3, "words": ["a", "b"], "both": (True, None)}, "big": 2**70}
    return _zip({"a/data.pkl": pickle.dumps({"model": beside, "x": b"y"}, protocol), "a/byteorder": b"little"})


def _folded():
    """An LSTM whose start state is computed of constants and of the shape of the input, by many operations."""
    state = onnx.node("Shape", ["x"], ["s"]) + onnx.tensor("zero", np.array([0], np.int64))
    state += onnx.node("Gather", ["s", "zero"], ["n"], axis=0) + onnx.tensor("one", np.array([1], np.int64))
    state += onnx.tensor("four", np.array([4], np.int64)) + onnx.node("Concat", ["one", "n", "four"], ["shape"], axis=0)
    state += onnx.node("ConstantOfShape", ["shape"], ["h"], value=np.zeros(1, np.float32))
    state += onnx.tensor("w", onnx.weights("V", 2, 4)) + onnx.node("Transpose", ["w"], ["wt"], perm=[1, 0])
    state += onnx.node("Slice", ["wt"], ["wa"], starts=[0], ends=[2], axes=[0])
    state += onnx.node("Slice", ["wt"], ["wb"], starts=[2], ends=[9], axes=[0])
    state += onnx.node("Concat", ["wa", "wb"], ["V"], axis=0)
    cell = onnx.recurrent("LSTM", inputs=("t", "W", "R", "B", "", "h", "h"))
    after = onnx.node("Squeeze", ["Y_h"], ["q"], axes=[0]) + onnx.node("MatMul", ["q", "V"], ["y"]) + onnx.output("y")
    return onnx.network(before=state, cell=cell, after=after)


# --------------------------------------------------------------------------------------------------- inputs and results

SENTENCES = ("the film is good", "It isn't good .", "not a film", "the naïve film", "good " * 9, '<unk> is \\ "not"')


def _inputs():
    """Sources of a corpus, and files of one input."""
    rng = np.random.default_rng(3)
    text = "\n".join(SENTENCES).encode()
    lines = "\n".join(json.dumps({"text": one, "season": k}) for k, one in enumerate(SENTENCES)).encode()
    split = "\n".join(json.dumps(one.split()) for one in SENTENCES).encode()
    numbers = "\n".join(json.dumps(rng.normal(size=(4, 3)).round(2).tolist()) for _ in range(4)).encode()
    field = {"field": "text", "columns": ["season"]}
    yield Seed("corpus: text", "plain", "corpus", {"a.txt": text}, "a.txt")
    yield Seed("corpus: JSON lines", "objects", "corpus", {"a.jsonl": lines}, "a.jsonl", field)
    yield Seed("corpus: JSON lines", "words", "corpus", {"a.jsonl": split}, "a.jsonl")
    yield Seed("corpus: JSON lines", "numbers", "corpus", {"a.jsonl": numbers}, "a.jsonl", {"series": True})
    for name, content, given in (("a.txt.gz", text, {}), ("a.jsonl.gz", lines, field)):
        yield Seed("corpus: gzip", name, "corpus", {name: gzip.compress(content, mtime=0)}, name, given)
    ragged = {"values": rng.normal(size=(9, 3)).astype("f4"), "offsets": np.array([0, 4, 9])}
    padded = {"values": rng.normal(size=(2, 5, 3)), "lengths": np.array([5, 3])}
    for name, some in (("ragged", ragged), ("padded", padded)):
        given = {"series": True}
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            packed = _zip({f"{key}.npy": _npy(array) for key, array in some.items()}, method)
            yield Seed("corpus: .npz", f"{name} {method}", "corpus", {"a.npz": packed}, "a.npz", given)
        for (version, how), packing in itertools.product(
            VERSIONS.items(), ({}, {"compression": "gzip", "chunks": True})
        ):

            def write(file, some=some, packing=packing):
                for key, array in some.items():
                    file.create_dataset(key, data=array, **packing)

            content = {"a.h5": _stored(write, **how)}
            yield Seed("corpus: HDF5", f"{name} {version} {bool(packing)}", "corpus", content, "a.h5", given)
    table = b"\n".join(b",".join(b"%.2f" % x for x in row) for row in rng.normal(size=(5, 3)))
    dated = b"date,rain,snow,sun\n" + b"\n".join(b"2001-01-0%d," % (k + 1) + row for k, row in enumerate(table.split()))
    yield Seed("input: .csv", "numbers", "input", {"a.csv": table}, "a.csv")
    yield Seed("input: .csv", "header and dates", "input", {"a.csv": dated}, "a.csv")
    for dtype in ("f4", "f8", "i8", ">f4"):
        yield Seed("input: .npy", dtype, "input", {"a.npy": _npy(np.ones((4, 3), dtype))}, "a.npy")
    several = _zip({"x.npy": _npy(np.ones((4, 3)))})
    yield Seed("input: .npz", "by name", "input", {"a.npz": several}, "a.npz")
    yield Seed("input: .json", "by name", "input", {"a.json": b'{"x": [[1, 2, 3], [4.5, 5, 6]]}'}, "a.json")


def _results(folder):
    """Explanation files, parts of a run, explanations as JSON, the state of a ranking."""
    from .doors import RANKED, explained, ranked

    for name, given in (
        ("lrp-all", {}),
        ("cd", {"method": "cd"}),
        ("every class", {"target": "all", "unit": "feature"}),
        ("integrated", {"method": "integrated-gradients"}),
    ):
        output = lrp.Output(folder / name, columns=["season"])
        source = folder / "a.jsonl"
        source.write_text("\n".join(json.dumps({"text": one, "season": k}) for k, one in enumerate(SENTENCES)))
        lrp.explain_corpus(model(), lrp.Corpus(source, field="text"), out=output, threads=1, **given)
        files = {one.name: one.read_bytes() for one in sorted(output.path.iterdir()) if one.name != "lock"}
        yield Seed("explanation folder", name, "explanations", files, "index.json", {}, tuple(files))
    yield from _interrupted(folder)
    for name, one in explained().items():
        text = {"a.json": one.to_json().encode()}
        yield Seed("Explanation.from_json", name, "explanation", text, "a.json")
    ranked(folder / "state")
    parts = {one.name: one.read_bytes() for one in (folder / "state").iterdir()}
    yield Seed("state of a ranking", RANKED, "state", parts, min(parts))


def _interrupted(folder):
    """The parts of a run that was stopped before its end: its index has no counts yet."""
    source, out = folder / "b.txt", folder / "b"
    source.write_text("\n".join(SENTENCES))
    lrp.explain_corpus(model(), source, out=lrp.Output(out, chunk=2), threads=1)
    index = json.loads((out / "index.json").read_text())
    (out / "index.json").write_text(json.dumps({**index, "parts": None}))
    kept = {f"b/{one.name}": one.read_bytes() for one in sorted(out.iterdir()) if one.name != "lock"}
    files = {"b.txt": source.read_bytes(), **kept}
    yield Seed("parts of a run", "text", "parts", files, "b.txt", {}, tuple(kept))
