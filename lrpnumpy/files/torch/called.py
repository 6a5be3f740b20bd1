"""How a live PyTorch module is called: which of its arguments are inputs, and which of their axes are batch and steps.

A module does not say this. The usual meanings are tried in turn, and each that the module takes is a `ModuleCall`.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.torch.merged import Sizes
from lrpnumpy.files.torch.recorded import as_numpy, letter_of, mapped, tensors

BATCH, STEPS = 8, 7  # of the first probe; a single sequence might have a score close to 0
_TRIES = 48
# What the axes of an input may mean: batch N, steps T, features F; L is the lengths of the sequences.
_MAIN = {("f", 3): ("NTF", "TNF", "NFT"), ("f", 2): ("TF", "NT", "NF"), ("f", 1): ("T",),
         ("i", 2): ("NT", "TN"), ("i", 1): ("T", "N")}  # fmt: skip
_MORE = {("f", 3): ("NTF", "TNF", "FNF", "NFT"), ("f", 2): ("NF", "NT", "TF"), ("f", 1): ("N",),
         ("i", 2): ("NT", "TN", "NF"), ("i", 1): ("N",), ("b", 2): ("NT", "TN")}  # fmt: skip


class Port(NamedTuple):
    """One tensor that a module takes."""

    name: str
    axes: str
    shape: tuple[int, ...]
    dtype: Any
    constant: float | None = None  # it is this number everywhere: a start state of zeros, or a mask
    rows: tuple[int, int] = (0, 1)  # token ids are between these

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the network."""
        return self.constant is None and self.axes != "L"

    @property
    def is_ids(self) -> bool:
        """Whether it has token ids or categories."""
        return not self.dtype.is_floating_point

    def size(self, letter: str) -> int | None:
        """The length of the axis of this meaning."""
        return self.shape[self.axes.index(letter)] if letter in self.axes else None


@dataclass
class ModuleCall:
    """One way to call a module."""

    module: Any
    template: tuple[Any, dict[str, Any]]  # arguments with a number for each tensor
    ports: list[Port]
    given: list[Any] | None  # the tensors of `check`
    sizes: Sizes
    free: str = "NT"  # the sizes that may be others
    device: Any = None

    @property
    def inputs(self) -> list[Port]:
        """The inputs of the network."""
        return [port for port in self.ports if port.is_input]

    @property
    def main(self) -> Port:
        """The first input, of which there are steps."""
        return next((port for port in self.inputs if "T" in port.axes), self.inputs[0])

    @property
    def takes_lengths(self) -> bool:
        """Whether the module is told the lengths of its sequences."""
        return any(port.axes == "L" for port in self.ports)

    def tensors(self, sizes: Sizes, rng: np.random.Generator, scale: float = 1.0) -> list[Any]:
        """Random inputs."""
        import torch

        made = []
        for port in self.ports:
            # other numbers of steps than those of the main input stay
            T = sizes.T if port.size("T") == self.sizes.T else port.size("T")
            known = {"N": sizes.N, "L": sizes.N, "T": T}
            shape = tuple(known.get(axis, n) or n for axis, n in zip(port.axes, port.shape, strict=True))
            if port.axes == "L":
                values: Any = np.full(shape, sizes.T)
            elif port.constant is not None:
                values = np.full(shape, port.constant)
            elif port.is_ids:
                values = rng.integers(*port.rows, shape)
            else:
                values = scale * rng.normal(size=shape)
            made.append(torch.as_tensor(values).to(dtype=port.dtype, device=self.device))
        return made

    def arguments(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these tensors."""
        return mapped(lambda place, _: given[place.number], self.template)

    def inputs_of(self, given: Sequence[Any]) -> dict[str, Any]:
        """Those tensors that are inputs of the network, by name."""
        return {port.name: tensor for tensor, port in zip(given, self.ports, strict=True) if port.is_input}

    def records(self, given: Sequence[Any], lengths: Sequence[int] | None = None) -> list[Any]:
        """The inputs of each sequence as a model takes them."""
        columns = {}
        for port in self.inputs:
            array = as_numpy(self.inputs_of(given)[port.name])
            rows = np.moveaxis(array, port.axes.index("N"), 0) if "N" in port.axes else array[None]
            axes = port.axes.replace("N", "")
            if "T" in axes:
                rows = np.moveaxis(rows, 1 + axes.index("T"), 1)
                rows = rows.reshape(*rows.shape[:2], -1)
            else:
                rows = rows.reshape(len(rows), -1)
            if port.is_ids and "T" in axes:
                rows = rows[..., 0]
            columns[port.name] = list(rows)
            if lengths is not None and "T" in axes:
                columns[port.name] = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        if len(columns) == 1:
            return next(iter(columns.values()))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@dataclass
class _Place:
    """Where a tensor is in the arguments; `detach` makes it one for `mapped`."""

    number: int
    detach = None


# ----------------------------------------------------------------------------------------------- what a module may take


def calls(module: Any, check: Any) -> Iterator[ModuleCall]:
    """Every way to call a module that is tried, the usual ones first."""
    first = next(iter(module.parameters()), None)
    device = None if first is None else first.device
    if check is None:
        yield from _probed(module, first, device)
        return
    given = check if isinstance(check, tuple) else (check,)
    args = tuple(_as_tensors(one) for one in given)
    yield from _given(module, (args, {}), device)
    if len(args) == 1 and isinstance(args[0], dict):
        yield from _given(module, ((), args[0]), device)


def _as_tensors(value: Any) -> Any:
    import torch

    if hasattr(value, "detach") or value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: _as_tensors(item) for key, item in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and any(hasattr(item, "shape") for item in value)):
        return type(value)(map(_as_tensors, value))
    return torch.as_tensor(np.asarray(value))


def _likely_first(module: Any, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Meanings of axes, of which the first has the batch in front; the second comes first if the layers do not."""
    flags = [part.batch_first for part in module.modules() if hasattr(part, "batch_first")]
    if any(flags) or not flags:
        return axes
    return axes[1], axes[0], *axes[2:]


def _given(module: Any, arguments: tuple[Any, dict[str, Any]], device: Any) -> Iterator[ModuleCall]:
    """The calls with the tensors of `check`."""
    parameters = list(inspect.signature(module.forward).parameters)
    found: list[Any] = []
    names: list[str] = []

    def placed(tensor: Any, name: str) -> _Place:
        key = name.rpartition(".")[2]
        found.append(tensor)
        names.append(name.replace(".", "_") if key.isdigit() else key)
        return _Place(len(found) - 1)

    args, kwargs = arguments
    parameters += [f"x{k}" for k in range(len(parameters), len(args))]
    named = dict(zip(parameters, args, strict=False))
    template = tuple(mapped(placed, named).values()), mapped(placed, kwargs)
    if not found:
        raise LrpError("check contains no tensor; pass an input that the module takes, or a tuple of its inputs.")
    names = [f"{name}_{k}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    options = [_options(module, one, k == 0, name) for k, (one, name) in enumerate(zip(found, names, strict=True))]
    for chosen in itertools.islice(itertools.product(*options), _TRIES):
        ports = [_port(name, axes, one) for name, axes, one in zip(names, chosen, found, strict=True)]
        batch = {size for port in ports for size in (port.size("N"), port.size("L")) if size is not None}
        if len(batch) > 1 or not any(port.is_input for port in ports):
            continue
        steps = next((port.size("T") for port in ports if port.is_input and "T" in port.axes), None)
        free = ("N" if batch else "") + ("T" if steps is not None else "")
        yield ModuleCall(module, template, ports, found, Sizes(next(iter(batch), 1), steps or 1), free, device)


def _options(module: Any, tensor: Any, is_main: bool, name: str) -> Sequence[str]:
    """What the axes of a tensor may mean."""
    kind = letter_of(tensor)
    if tensor.dim() == 0:
        return ("",)
    if not is_main and kind == "i" and tensor.dim() == 1 and "len" in name:
        return ("L",)
    is_zero = not is_main and kind == "f" and not bool(tensor.any())
    if is_zero and tensor.dim() in (2, 3):
        return ("FNF",) if tensor.dim() == 3 else ("NF",)
    found = (_MAIN if is_main else _MORE).get((kind, tensor.dim()), ("N" + "F" * (tensor.dim() - 1),))
    if (kind, tensor.dim()) in (("f", 3), ("i", 2)):
        found = _likely_first(module, found)
    if "FNF" in found and re.match("h|c|state|init", name.lower()):  # of every layer
        found = ("FNF", *(one for one in found if one != "FNF"))
    return found


def _port(name: str, axes: str, tensor: Any) -> Port:
    is_bool = str(tensor.dtype) == "torch.bool"
    constant = None
    if tensor.dim() == 0 or is_bool or (axes in ("FNF", "NF") and not bool(tensor.any())):
        constant = float(tensor.reshape(-1)[0])
    high = 1 if tensor.is_floating_point() or is_bool or not tensor.numel() else int(tensor.max()) + 1
    return Port(name, axes, tuple(tensor.shape), tensor.dtype, constant, (0, max(high, 1)))


def _probed(module: Any, first: Any, device: Any) -> Iterator[ModuleCall]:
    """The calls of a module of one input, and perhaps lengths, of which nothing is known."""
    import torch

    takes = [one for one in inspect.signature(module.forward).parameters.values() if one.kind < one.VAR_POSITIONAL]
    wants = len(takes) > 1 and takes[1].default is takes[1].empty and "len" in takes[1].name
    name = takes[0].name if takes else "x"
    kinds: list[tuple[tuple[str, ...], Any, int, tuple[int, int]]] = []
    embedding = next((part for part in module.modules() if type(part).__name__ == "Embedding"), None)
    if embedding is not None:
        kinds.append((_likely_first(module, ("NT", "TN", "T")), torch.long, 1, ordinary(embedding.num_embeddings)))
    dtype = torch.float32 if first is None or not first.is_floating_point() else first.dtype
    keys = ("input_size", "in_features", "in_channels")
    widths = [getattr(part, key, None) for part in module.modules() for key in keys]
    for size in dict.fromkeys(size for size in widths if isinstance(size, int)):
        kinds.append((_likely_first(module, ("NTF", "TNF", "TF", "NFT")), dtype, size, (0, 1)))
        if size == 1:
            kinds.append((("NT",), dtype, size, (0, 1)))
    for axes_of, dtype, size, rows in kinds:
        for axes in axes_of:
            shape = tuple({"N": BATCH, "T": STEPS, "F": size}[axis] for axis in axes)
            ports = [Port(name, axes, shape, dtype, None, rows)]
            if wants and "N" in axes:
                ports.append(Port(takes[1].name, "L", (BATCH,), torch.long))
            template: Any = (tuple(map(_Place, range(len(ports)))), {})
            sizes = Sizes(BATCH if "N" in axes else 1, STEPS)
            yield ModuleCall(module, template, ports, None, sizes, "NT" if "N" in axes else "T", device)


def ordinary(rows: int) -> tuple[int, int]:
    """From which token id to before which one ids are hardly reserved for padding."""
    return (2, rows - 1) if rows > 5 else (1, max(2, rows))


# ---------------------------------------------------------------------------------------------------------- left alone


@contextmanager
def unchanged(module: Any) -> Iterator[Any]:
    """A copy of a module in eval mode, for one run: the module and all random numbers are left as they were."""
    import torch

    held = [tensor for part in module.modules() for _, tensor in tensors(vars(part))]
    detached = {id(tensor): tensor.detach().clone() for tensor in held if not tensor.is_leaf}  # which are not copied
    copied = _copied(module, detached)
    numbers, numpy_numbers = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices):
            with suppress(NotImplementedError):  # of an exported program, which is in eval mode
                copied.eval()
            yield copied
    finally:
        random.setstate(numbers)
        np.random.set_state(numpy_numbers)  # noqa: NPY002


def _copied(module: Any, known: dict[int, Any]) -> Any:
    """A copy of a module; attributes that cannot be copied, such as a lock or a file, are those of the module."""
    try:
        return copy.deepcopy(module, dict(known))
    except Exception:
        shared = dict(known)
    for part in module.modules():
        for key, value in vars(part).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                try:
                    copy.deepcopy(value, dict(known))
                except Exception:
                    shared[id(value)] = value
    return copy.deepcopy(module, shared)
