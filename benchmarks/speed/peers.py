"""The same jobs by other libraries, as one would call them; each gives the results of all sequences, longest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed import literal
from benchmarks.speed.ours import TARGET
from benchmarks.speed.workloads import Workload

Peer = Callable[[Workload, int], Callable[[], list[Any]]]
CHUNK = 256  # sequences in one padded batch, of similar lengths since they are sorted


def _torch_network(model: lrp.Model) -> Any:
    """The model as a torch module from a packed or a plain batch to scores."""
    import torch

    layer, head = model.layers[0], model.layers[-1]
    two_way = isinstance(layer, lrp.Bidirectional)
    parts = [layer.forward, layer.backward] if two_way else [layer]
    H, dtype = parts[0].units, getattr(torch, str(model.dtype))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(model.inputs, H, bidirectional=two_way, batch_first=True, dtype=dtype)
            self.head = torch.nn.Linear(head.inputs, head.outputs, dtype=dtype)

        def forward(self, x: Any) -> Any:
            return self.head(torch.cat(list(self.lstm(x)[1][0]), dim=1))

    network = Network()
    with torch.no_grad():
        for part, suffix in zip(parts, ("", "_reverse"), strict=False):
            for name, value in {"weight_ih": part.U, "weight_hh": part.W, "bias_ih": part.b}.items():
                theirs = getattr(network.lstm, f"{name}_l0{suffix}")
                theirs.copy_(torch.tensor(value).reshape(theirs.shape))
            getattr(network.lstm, f"bias_hh_l0{suffix}").zero_()
        network.head.weight.copy_(torch.tensor(head.V))
        network.head.bias.copy_(torch.tensor(head.d))
    return network.eval()


def _tensors(work: Workload) -> list[Any]:
    import torch

    return [torch.tensor(x) for x in work.sequences]


def torch_forward(work: Workload, threads: int) -> Callable[[], list[Any]]:
    import torch
    from torch.nn.utils.rnn import pack_sequence

    torch.set_num_threads(threads)
    network, packed = _torch_network(work.model), pack_sequence(_tensors(work))

    def call() -> list[Any]:
        with torch.no_grad():
            return list(network(packed).numpy())

    return call


def torch_gradient(work: Workload, threads: int) -> Callable[[], list[Any]]:
    import torch
    from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

    torch.set_num_threads(threads)
    network, packed = _torch_network(work.model), pack_sequence(_tensors(work))

    def call() -> list[Any]:
        data = packed.data.detach().requires_grad_(True)
        score = network(PackedSequence(data, packed.batch_sizes))[:, TARGET].sum()
        (gradient,) = torch.autograd.grad(score, data)
        return [part.numpy() for part in unpack_sequence(PackedSequence(gradient * data.detach(), packed.batch_sizes))]

    return call


def captum_gradient(work: Workload, threads: int) -> Callable[[], list[Any]]:
    import torch
    from captum.attr import InputXGradient
    from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

    torch.set_num_threads(threads)
    network, tensors = _torch_network(work.model), _tensors(work)
    groups = [tensors[k : k + CHUNK] for k in range(0, len(tensors), CHUNK)]
    padded = [(pad_sequence(group, batch_first=True), torch.tensor([len(x) for x in group])) for group in groups]
    method = InputXGradient(lambda x, n: network(pack_padded_sequence(x, n, batch_first=True)))

    def call() -> list[Any]:
        out = []
        for x, lengths in padded:
            found = method.attribute(x.requires_grad_(True), target=TARGET, additional_forward_args=lengths).detach()
            out += [part[:n].numpy() for part, n in zip(found, lengths, strict=True)]
        return out

    return call


def torch_occlusion(work: Workload, threads: int) -> Callable[[], list[Any]]:
    """The T occluded copies of a sequence, and the sequence itself, stacked to one batch."""
    import torch

    torch.set_num_threads(threads)
    network, tensors = _torch_network(work.model), _tensors(work)

    def call() -> list[Any]:
        out = []
        with torch.no_grad():
            for x in tensors:
                copies = x.repeat(len(x) + 1, 1, 1)
                every = torch.arange(len(x))
                copies[every, every] = 0
                f = network(copies)[:, TARGET]
                out.append((f[-1] - f[:-1]).numpy())
        return out

    return call


def onnx_forward(work: Workload, threads: int) -> Callable[[], list[Any]]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    model, layer, head = work.model, work.model.layers[0], work.model.layers[-1]
    if model.dtype != np.float32:
        raise ImportError("onnxruntime has no float64 LSTM")
    two_way = isinstance(layer, lrp.Bidirectional)
    parts = [layer.forward, layer.backward] if two_way else [layer]
    order = [0, 3, 1, 2]  # ONNX has the gates i, o, f, c
    H, D = parts[0].units, model.inputs
    weights = {
        "W": np.stack([p.U[order].reshape(4 * H, D) for p in parts]),
        "R": np.stack([p.W[order].reshape(4 * H, H) for p in parts]),
        "B": np.stack([np.concatenate([p.b[order].ravel(), np.zeros(4 * H, np.float32)]) for p in parts]),
        "V": head.V.T.copy(),
        "d": np.array(head.d),
    }
    way = "bidirectional" if two_way else "forward"
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "B", "lengths"], ["", "h"], hidden_size=H, direction=way),
        helper.make_node("Transpose", ["h"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Flatten", ["t"], ["flat"]),
        helper.make_node("Gemm", ["flat", "V", "d"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "lstm",
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
    for k in range(0, len(work.sequences), CHUNK):
        group = work.sequences[k : k + CHUNK]
        x = np.zeros((len(group[0]), len(group), D), np.float32)
        for s, one in enumerate(group):
            x[: len(one), s] = one
        feeds.append({"x": x, "lengths": np.array([len(one) for one in group], np.int32)})

    def call() -> list[Any]:
        return [row for feed in feeds for row in session.run(["scores"], feed)[0]]

    return call


def per_sentence(program: Callable[..., np.ndarray]) -> Peer:
    """Our own plain NumPy program, one sentence after the other."""

    def peer(work: Workload, threads: int) -> Callable[[], list[Any]]:
        return lambda: [program(work.model, x, TARGET) for x in work.sequences]

    return peer


PEERS: dict[str, dict[str, Peer]] = {
    "forward": {"torch": torch_forward, "onnxruntime": onnx_forward},
    "gradient-x-input": {"torch autograd": torch_gradient, "captum": captum_gradient},
    "lrp-all": {"literal program": per_sentence(literal.lrp_all)},
    "occlusion-f": {"torch": torch_occlusion},
    "cd": {"plain NumPy": per_sentence(literal.cd)},
}
