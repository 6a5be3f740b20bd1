"""The same jobs by other libraries, each with the batch size that suits it best on the workload.

A peer is a function from a workload and a number of threads to two others: one that does the job, and one that makes
of what it returns the result of each sequence, longest first. Only the first is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed import literal
from benchmarks.speed.ours import TARGET
from benchmarks.speed.timing import once
from benchmarks.speed.workloads import Workload

Job = Callable[[], list[Any]]
Peer = Callable[[Workload, int], tuple[Job, Callable[[list[Any]], list[Any]]]]
GROUPS = (64, 256, 4096)  # sequences in one batch
COPIES = (1, 8, 64)  # sequences whose occluded copies are stacked to one batch


def fastest(make: Callable[..., tuple[Job, Any]], sizes: tuple[int, ...]) -> Peer:
    """Try each batch size once, after a warm-up, and keep the fastest."""

    def peer(work: Workload, threads: int) -> tuple[Job, Any]:
        useful = [size for size in sizes if size < len(work.sequences)]
        useful.append(next((size for size in sizes if size >= len(work.sequences)), sizes[-1]))
        made = [make(work, threads, size) for size in dict.fromkeys(useful)]
        if len(made) == 1:
            return made[0]
        return min(made, key=lambda one: min(once(one[0]), once(one[0])))

    return peer


def _rows(results: list[Any]) -> list[Any]:
    """Scores of batches to those of sequences."""
    return [row for batch in results for row in np.asarray(batch)]


def _directions(model: lrp.Model) -> list[Any]:
    """The recurrent layer below the head, or both directions of it."""
    layer = model.layers[-2]
    return [layer.forward, layer.backward] if isinstance(layer, lrp.Bidirectional) else [layer]


def cell_of(model: lrp.Model) -> str:
    """LSTM, GRU or RNN: libraries have the same names for them."""
    return type(_directions(model)[0]).__name__


def first_of(model: lrp.Model) -> str:
    """Conv1D where a convolution comes first, else the cell."""
    return "Conv1D" if _has_windows(model) else cell_of(model)


def _has_windows(model: lrp.Model) -> bool:
    return isinstance(model.layers[0], lrp.layers.Conv1D)


def _torch_windows(model: lrp.Model) -> Any:
    """The convolution and the pool before the recurrent layer, from (n, T, D) to (n, windows, M)."""
    import torch

    conv, pool = model.layers[:2]
    module = torch.nn.Conv1d(
        conv.inputs, conv.outputs, conv.windows.width, padding=conv.padding, dtype=getattr(torch, str(model.dtype))
    )
    with torch.no_grad():
        module.weight.copy_(torch.tensor(conv.K.transpose(0, 2, 1).copy()))
        module.bias.copy_(torch.tensor(conv.d))
    largest = torch.nn.MaxPool1d(pool.size)
    return lambda x: largest(torch.relu(module(x.transpose(1, 2)))).transpose(1, 2)


def _biases(part: Any) -> tuple[np.ndarray, np.ndarray]:
    """(G, H) twice: the biases of U x, and those of W h, which only the n of a GRU has."""
    b = part.b.reshape(-1, part.units)
    b_h = np.zeros_like(b)
    if getattr(part, "bn", None) is not None:
        b_h[2] = part.bn
    return b, b_h


def torch_network(model: lrp.Model) -> Any:
    """The model as a torch module from a packed or a plain batch to scores; a plain one where there are windows."""
    import torch

    head, parts, cell = model.layers[-1], _directions(model), cell_of(model)
    H, D, dtype = parts[0].units, parts[0].inputs, getattr(torch, str(model.dtype))
    below = _torch_windows(model) if _has_windows(model) else lambda x: x
    gates = {"LSTM": [0, 1, 2, 3], "GRU": [1, 0, 2], "RNN": [0]}[cell]  # torch has those of a GRU as r, z, n

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = getattr(torch.nn, cell)
            self.recurrent = layer(D, H, bidirectional=len(parts) == 2, batch_first=True, dtype=dtype)
            self.head = torch.nn.Linear(head.inputs, head.outputs, dtype=dtype)

        def forward(self, x: Any) -> Any:
            last = self.recurrent(below(x))[1]
            return self.head(torch.cat(list(last[0] if cell == "LSTM" else last), dim=1))

    network = Network()
    with torch.no_grad():
        for part, suffix in zip(parts, ("", "_reverse"), strict=False):
            b, b_h = _biases(part)
            arrays = {"weight_ih": part.U, "weight_hh": part.W, "bias_ih": b, "bias_hh": b_h}
            for name, value in arrays.items():
                theirs = getattr(network.recurrent, f"{name}_l0{suffix}")
                theirs.copy_(torch.tensor(value.reshape(len(gates), H, -1)[gates]).reshape(theirs.shape))
        network.head.weight.copy_(torch.tensor(head.V))
        network.head.bias.copy_(torch.tensor(head.d))
    return network.eval()


def _groups(work: Workload, size: int) -> list[list[Any]]:
    import torch

    tensors = [torch.tensor(x) for x in work.sequences]
    return [tensors[k : k + size] for k in range(0, len(tensors), size)]


def _batches(work: Workload, size: int) -> list[Any]:
    """Packed groups; plain ones of sequences of one length where windows need the steps side by side."""
    import torch
    from torch.nn.utils.rnn import pack_sequence

    return [torch.stack(group) if _has_windows(work.model) else pack_sequence(group) for group in _groups(work, size)]


def torch_forward(work: Workload, threads: int, size: int) -> tuple[Job, Any]:
    import torch

    torch.set_num_threads(threads)
    network, batches = torch_network(work.model), _batches(work, size)

    def call() -> list[Any]:
        with torch.no_grad():
            return [network(batch) for batch in batches]

    return call, _rows


def torch_gradient(work: Workload, threads: int, size: int) -> tuple[Job, Any]:
    import torch
    from torch.nn.utils.rnn import PackedSequence, unpack_sequence

    torch.set_num_threads(threads)
    network, batches = torch_network(work.model), _batches(work, size)
    is_plain = _has_windows(work.model)

    def call() -> list[Any]:
        out = []
        for batch in batches:
            data = batch.data.detach().requires_grad_(True)
            score = network(data if is_plain else PackedSequence(data, batch.batch_sizes))[:, TARGET].sum()
            (gradient,) = torch.autograd.grad(score, data)
            out.append(gradient * data.detach())
        return out

    def finish(results: list[Any]) -> list[Any]:
        if is_plain:
            return _rows(results)
        both = zip(results, batches, strict=True)
        return [one for found, batch in both for one in unpack_sequence(PackedSequence(found, batch.batch_sizes))]

    return call, finish


def captum_gradient(work: Workload, threads: int, size: int) -> tuple[Job, Any]:
    import torch
    from captum.attr import InputXGradient
    from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

    torch.set_num_threads(threads)
    network = torch_network(work.model)
    padded = [
        (pad_sequence(group, batch_first=True), torch.tensor([len(x) for x in group])) for group in _groups(work, size)
    ]
    is_plain = _has_windows(work.model)
    method = InputXGradient(lambda x, n: network(x if is_plain else pack_padded_sequence(x, n, batch_first=True)))

    def call() -> list[Any]:
        return [
            method.attribute(x.requires_grad_(True), target=TARGET, additional_forward_args=lengths).detach()
            for x, lengths in padded
        ]

    def finish(results: list[Any]) -> list[Any]:
        both = zip(results, padded, strict=True)
        return [part[:n] for found, (_, lengths) in both for part, n in zip(found, lengths, strict=True)]

    return call, finish


def torch_occlusion(work: Workload, threads: int, size: int) -> tuple[Job, Any]:
    """The T occluded copies of a sequence, and the sequence itself, stacked to one batch; for some of equal length."""
    import torch

    torch.set_num_threads(threads)
    network = torch_network(work.model)
    lengths = [len(x) for x in work.sequences]
    cuts = [0, *(k for k in range(1, len(lengths)) if lengths[k] != lengths[k - 1]), len(lengths)]
    groups = [
        torch.tensor(np.stack(work.sequences[k : min(k + size, b)]))
        for a, b in pairwise(cuts)
        for k in range(a, b, size)
    ]

    def call() -> list[Any]:
        out = []
        with torch.no_grad():
            for x in groups:
                n, T, D = x.shape
                copies = x[:, None].repeat(1, T + 1, 1, 1)
                every = torch.arange(T)
                copies[:, every, every] = 0
                f = network(copies.reshape(n * (T + 1), T, D))[:, TARGET].reshape(n, T + 1)
                out.append(f[:, -1:] - f[:, :-1])
        return out

    return call, _rows


def onnx_forward(work: Workload, threads: int, size: int) -> tuple[Job, Any]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    model, head, parts, cell = work.model, work.model.layers[-1], _directions(work.model), cell_of(work.model)
    if model.dtype != np.float32:
        raise ImportError(f"onnxruntime has no float64 {cell}")
    gates = {"LSTM": [0, 3, 1, 2], "GRU": [0, 1, 2], "RNN": [0]}[cell]  # ONNX has those of an LSTM as i, o, f, g
    H, D = parts[0].units, model.input_size
    weights = {
        "W": np.stack([p.U.reshape(-1, H, D)[gates].reshape(-1, D) for p in parts]),
        "R": np.stack([p.W.reshape(-1, H, H)[gates].reshape(-1, H) for p in parts]),
        "B": np.stack([np.concatenate([b[gates].ravel() for b in _biases(p)]) for p in parts]),
        "V": head.V.T.copy(),
        "d": np.array(head.d),
    }
    settings = {"hidden_size": H, "direction": "bidirectional" if len(parts) == 2 else "forward"}
    if cell == "GRU":
        settings["linear_before_reset"] = 1
    nodes = [
        helper.make_node(cell, ["x", "W", "R", "B", "lengths"], ["", "h"], **settings),
        helper.make_node("Transpose", ["h"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Flatten", ["t"], ["flat"]),
        helper.make_node("Gemm", ["flat", "V", "d"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "N", D]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["N"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", head.outputs])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = []
    for k in range(0, len(work.sequences), size):
        group = work.sequences[k : k + size]
        x = np.zeros((len(group[0]), len(group), D), np.float32)
        for s, one in enumerate(group):
            x[: len(one), s] = one
        feeds.append({"x": x, "lengths": np.array([len(one) for one in group], np.int32)})

    def call() -> list[Any]:
        return [session.run(["scores"], feed)[0] for feed in feeds]

    return call, _rows


def per_sentence(program: Callable[..., np.ndarray]) -> Peer:
    """Our own plain NumPy program, one sentence after the other."""

    def peer(work: Workload, threads: int) -> tuple[Job, Any]:
        return lambda: [program(work.model, x, TARGET) for x in work.sequences], lambda results: results

    return peer


PEERS: dict[str, dict[str, Peer]] = {
    "forward": {"torch": fastest(torch_forward, GROUPS), "onnxruntime": fastest(onnx_forward, GROUPS)},
    "gradient-x-input": {
        "torch autograd": fastest(torch_gradient, GROUPS),
        "captum": fastest(captum_gradient, GROUPS),
    },
    "lrp-all": {"literal program": per_sentence(literal.lrp_all)},
    "occlusion-f": {"torch": fastest(torch_occlusion, COPIES)},
    "cd": {"plain NumPy": per_sentence(literal.cd)},
}
MISSING = {"GRU": {"literal program", "plain NumPy"}, "Conv1D": {"literal program", "plain NumPy", "onnxruntime"}}
MISSING["RNN"] = MISSING["GRU"]


def of(job: str, model: lrp.Model) -> dict[str, Peer]:
    """The peers of a job that have the model's layers."""
    missing = MISSING.get(first_of(model), set())
    return {peer: make for peer, make in PEERS.get(job, {}).items() if peer not in missing}
