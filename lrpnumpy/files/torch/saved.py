"""Files of `torch.save`, the zip format and the older one: tensors by name, from a pickle that is read and never run.

The pickle refers to storages, which are outside it: as members of the archive, or one after the other behind the
pickles of the older format. A tensor is a view of a storage: offset, sizes and strides, all checked before a byte is
read. What the pickle holds may be a state_dict, a checkpoint with one somewhere inside it, or a whole module.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import WeightFileError
from lrpnumpy.files import pickles
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.kinds import OTHER_PICKLE, SAVE_STATE, TORCH_MAGIC, is_pickle
from lrpnumpy.files.pickles import Name, Pickled
from lrpnumpy.files.safe import Budget, Shape, Source, count_of, kind_of, open_file, shape_text, size_of
from lrpnumpy.files.torch.pickled import Described, contents, describe, inside, is_module

_VERSION = 1001  # the second pickle of the older format
_MOST_PICKLE = 64 * 2**20
_SPARSE = 2**24  # bytes that a tensor may span beyond four times its own
_DTYPES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"), "DoubleStorage": np.dtype("<f8"), "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"), "LongStorage": np.dtype("<i8"), "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"), "CharStorage": np.dtype("<i1"), "ByteStorage": np.dtype("<u1"),
    "BoolStorage": np.dtype("<u1"),
}  # fmt: skip
_FLOATS = ("FloatStorage", "DoubleStorage", "HalfStorage", "BFloat16Storage")
_PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and torch.compile
_LISTED = 100  # entries of a list that are looked at
_STATES = 3  # dicts inside dicts in which a state_dict is looked for


class NoNetworkError(WeightFileError):
    """A file of torch.save holds no tensors of a network, or a pickle that is not understood."""


class Storage(NamedTuple):
    """Numbers outside the pickle: their type, the key they are found by, and how many."""

    kind: str
    key: str
    numel: int
    start: int = 0  # of a view: number of the first


@dataclass(frozen=True)
class Tensor:
    """A view of a storage, as the file declares it."""

    storage: Storage
    offset: Any
    shape: Any
    stride: Any


def tensor_of(value: Any) -> Tensor | None:
    """The tensor or parameter that a record describes; None where it is none."""
    for _ in range(4):  # a parameter of a tensor of a special type
        if not isinstance(value, Pickled) or not isinstance(value.arguments, tuple):
            return None
        module, _, name = value.name.rpartition(".")
        arguments = value.arguments
        if module not in ("torch._utils", "torch._tensor", "torch.nn.parameter", "torch.tensor"):
            return None
        if name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            if len(arguments) < 4 or not isinstance(arguments[0], Storage):
                return None
            return Tensor(*arguments[:4])
        if name == "_rebuild_from_type_v2" and len(arguments) > 2 and isinstance(arguments[0], Name):
            value = Pickled(arguments[0].name, arguments[2])
        elif name in ("_rebuild_parameter", "_rebuild_parameter_with_state", "Parameter") and arguments:
            value = arguments[0]
        else:
            return None
    return None


class Saved(Source):
    """The tensors of one network in a file of torch.save."""

    kind = ""
    byteorder: Literal["little", "big"] = "little"

    def __init__(self, file: str, budget: Budget) -> None:
        super().__init__(file, budget)
        self.tensors: dict[str, Tensor] = {}
        self.described: Described | None = None
        self.settings: dict[str, Any] = {}  # what Lightning calls hyper_parameters

    def storage(self, key: str, start: int, length: int) -> bytes | memoryview:
        """`length` bytes of a storage from `start`."""
        raise self.error(key, "cannot be read")

    def names(self) -> list[str]:
        return list(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self.tensors[name].shape
        count_of(self, name, shape)
        return tuple(shape)

    def array(self, name: str, shape: Shape) -> np.ndarray:
        tensor = self.tensors[name]
        declared = self.shape(name)
        self.fits(name, declared, shape)
        if tensor.storage.kind not in _FLOATS:
            raise self.error(name, f"must hold floats, it has a {tensor.storage.kind}")
        wide = np.dtype(np.float64 if tensor.storage.kind == "DoubleStorage" else np.float32)
        self.spend(name, math.prod(declared) * wide.itemsize)
        with self.guard(name):
            return self._view(name, tensor, declared, wide)

    def _view(self, name: str, tensor: Tensor, shape: tuple[int, ...], wide: np.dtype[Any]) -> np.ndarray:
        """The numbers of a tensor, from as few bytes of its storage as hold them."""
        storage, stride, offset = tensor.storage, tensor.stride, tensor.offset
        if count_of(self, name, stride) < 0 or len(stride) != len(shape) or type(offset) is not int or offset < 0:
            raise self.error(name, f"has the strides {shape_text(stride)} for the shape {shape_text(shape)}")
        if 0 in shape:
            raise self.error(name, f"is empty, it has the shape {shape_text(shape)}")
        span = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        if offset + span > storage.numel:
            raise self.error(
                name, f"declares shape {shape_text(shape)} at {offset:,}, its storage has {storage.numel:,} numbers"
            )
        dtype = _DTYPES[storage.kind].newbyteorder(self.byteorder)
        if span * dtype.itemsize > 4 * math.prod(shape) * dtype.itemsize + _SPARSE:
            raise self.error(name, f"spreads {math.prod(shape):,} numbers over {span:,}; save it with .contiguous()")
        if math.prod(shape) > 4 * span + _SPARSE:
            raise self.error(name, f"makes {math.prod(shape):,} numbers of {span:,}; save it with .contiguous()")
        data = self.storage(storage.key, (storage.start + offset) * dtype.itemsize, span * dtype.itemsize)
        numbers = np.frombuffer(data, dtype)
        steps = tuple(step * dtype.itemsize for step in stride)
        found = np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=False)
        if storage.kind == "BFloat16Storage":  # the upper half of a float32
            return (found.astype("<u4") << 16).view("<f4").astype(wide, copy=False)
        return np.ascontiguousarray(found).astype(wide, copy=False)

    # ------------------------------------------------------------------------------------- what is in the pickle

    def persistent(self, identity: Any) -> Any:
        """What a pickle means that lies outside it: a storage, or the class of a module with its source."""
        if isinstance(identity, tuple) and len(identity) >= 2 and identity[0] in ("module", b"module"):
            return identity[1]
        if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] not in ("storage", b"storage"):
            raise self.error("data.pkl", "refers to something outside itself that is not a storage")
        _, kind, key, _, count, *views = identity
        name = kind.name.rpartition(".")[2] if isinstance(kind, Name) else "storage without type"
        view = views[0] if views and views[0] is not None else ("", 0, 0)
        is_view = isinstance(view, tuple) and len(view) == 3 and type(view[1]) is int and view[1] >= 0
        if not is_view or not isinstance(key, (str, bytes)) or type(count) is not int or not 0 <= count < 2**48:
            raise self.error("data.pkl", f"has a storage without key or size, got {kind_of(key)} and {kind_of(count)}")
        return Storage(name[:40], pickles.text(key), count, view[1])

    def run(
        self, name: str, content: bytes | memoryview, persistent: Callable[[Any], Any], at: int = 0
    ) -> tuple[Any, int]:
        """The value of the pickle at a place, and where it ends."""
        try:
            return pickles.run(self, name, content, at, persistent=persistent)
        except WeightFileError as error:
            raise NoNetworkError(str(error)) from error

    def choose(self, root: Any, which: str | None) -> None:
        """Find the one network in what the pickle holds: `which` selects one of several."""
        found = {path: (value, tensors) for path, value, tensors in _networks(self, root)}
        if not found:
            reason = f"holds no tensors of a network, it holds {_shown(root)}; {SAVE_STATE}"
            raise NoNetworkError(str(self.error("", reason)))
        listed = [kind_of(path) for path in [*found][:20]]
        if which is not None and which not in found:
            raise self.error("", f"which must be one of the networks in it, {', '.join(listed)}, got {which!r}")
        recurrent = [path for path, (_, tensors) in found.items() if any("weight_ih" in name for name in tensors)]
        candidates = {path: found[path] for path in ([which] if which is not None else recurrent or found)}
        if len(candidates) != 1:
            first, *others = [kind_of(path) for path in [*candidates][:20]]
            reason = f"holds {len(candidates)} networks; say which={first}, or in its place {', '.join(others)}"
            raise self.error("", reason)
        ((path, (value, names)),) = candidates.items()
        if is_module(value):
            self.described = describe(self, value)
        else:
            names = _without_prefix(names)
        self.tensors = names
        self.budget.visit("", len(names))
        if path:
            self.kind += f", {path!r} in it"
        said = pickles.entries((pickles.entries(root) or {}).get("hyper_parameters")) or {}
        self.settings = {key: value for key, value in said.items() if isinstance(key, str)}


def _networks(source: Source, root: Any) -> Iterator[tuple[str, Any, dict[str, Tensor]]]:
    """The modules and dicts in what a pickle holds: the keys that lead to each, itself, and its tensors."""
    waiting = deque([("", root, 0)])
    seen: set[int] = set()
    while waiting:
        path, value, depth = waiting.popleft()
        if id(value) in seen:  # one object under two names
            continue
        seen.add(id(value))
        if is_module(value) or _is_scripted(value):
            if tensors := dict(_tensors(source, value)):
                yield path, value, tensors
            continue
        items = pickles.entries(value) or {}
        if isinstance(value, (list, tuple)):
            items = {str(k): item for k, item in enumerate(value[:_LISTED])}
        named = {pickles.text(key): item for key, item in items.items() if isinstance(key, (str, bytes))}
        tensors = {name: tensor for name, item in named.items() if (tensor := tensor_of(item)) is not None}
        if tensors:
            yield path, value, tensors
        if depth < _STATES and not any("weight_ih" in name for name in tensors):
            source.budget.visit(path, len(named))
            waiting += [(inside(path, name), item, depth + 1) for name, item in named.items()]


def _is_scripted(value: Any) -> bool:
    """Whether a record is of a module in a TorchScript archive, whose code is never looked at."""
    return isinstance(value, Pickled) and value.name.startswith("__torch__.")


def _tensors(source: Source, module: Pickled, name: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a pickled or scripted module under its name in the state_dict."""
    source.budget.level(name, depth)
    for key, value in contents(module).items():
        source.budget.visit(name)
        below = inside(name, key)
        if is_module(value) or _is_scripted(value):
            yield from _tensors(source, value, below, depth + 1)
        elif (tensor := tensor_of(value)) is not None:
            yield below, tensor


def _without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without what DataParallel and torch.compile put before every name."""
    for prefix in _PREFIXES * 2:
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def _shown(root: Any) -> str:
    """What a pickle holds, for an error message."""
    items = pickles.entries(root)
    if items is not None:
        return f"a dict of {', '.join(map(kind_of, list(items)[:10])) or 'nothing'}"
    if isinstance(root, (Pickled, Name)):
        return f"a {root.name[:80]}"
    return kind_of(root)


# --------------------------------------------------------------------------------------------------------- formats


class SavedZip(Saved):
    """What torch.save writes since PyTorch 1.6: a zip archive."""

    def __init__(self, archive: Archive, which: str | None = None) -> None:
        super().__init__(archive.file, archive.budget)
        self.kind = "PyTorch file (torch.save, zip)"
        self._member = cache(partial(archive.member, limit=archive.max_bytes))
        pickle = next((name for name in archive.members if is_pickle(name)), None)
        if pickle is None:
            raise self.error("data.pkl", "is missing")
        self._folder = pickle.removesuffix("data.pkl")
        order = f"{self._folder}byteorder"
        if order in archive.members and archive.text_member(order) == b"big":
            self.byteorder = "big"
        content = archive.member(pickle, _MOST_PICKLE)
        root, _ = self.run(pickle, content, self.persistent)
        with self.guard(pickle, "is not understood"):
            self.choose(root, which)

    def storage(self, key: str, start: int, length: int) -> bytes | memoryview:
        name = f"{self._folder}data/{key}"
        data = self._member(name)[start : start + length]
        if len(data) != length:
            raise self.error(name, f"must have {start + length:,} bytes, it has fewer")
        return data


class SavedLegacy(Saved):
    """What torch.save wrote before: five pickles, then the storages, each with its count before it."""

    def __init__(self, file: str, budget: Budget, which: str | None = None) -> None:
        super().__init__(file, budget)
        self.kind = "PyTorch file (torch.save, older format)"
        with self.guard(""), open_file(file) as stream:
            size = size_of(stream)
            content = stream.read(min(size, _MOST_PICKLE))
        self.budget.hold("", len(content))
        at, values = 0, []
        kinds: dict[str, Storage] = {}

        def persistent(identity: Any) -> Any:
            found = self.persistent(identity)
            if isinstance(found, Storage):
                kinds.setdefault(found.key, found)
            return found

        for what in ("magic number", "version", "system", "content", "keys"):
            value, at = self.run(what, content, persistent, at)
            values.append(value)
            if values[0] != TORCH_MAGIC or values[1:2] not in ([], [_VERSION]):
                raise self.error("", OTHER_PICKLE)
        _, _, system, root, keys = values
        if isinstance(system, dict) and system.get("little_endian") is False:
            self.byteorder = "big"
        del content
        with self.guard("", "is not understood"):
            self._places = self._find_storages(at, size, keys, kinds)
            self.choose(root, which)

    def _find_storages(self, at: int, size: int, keys: Any, kinds: dict[str, Storage]) -> dict[str, tuple[int, int]]:
        """Place and length of each storage behind the pickles."""
        found: dict[str, tuple[int, int]] = {}
        if not isinstance(keys, list):
            raise self.error("keys", "must be a list of the storages")
        with open_file(self.file) as stream:
            for key in keys:
                name = pickles.text(key)
                self.budget.visit(name)
                if name not in kinds or name in found:
                    raise self.error(
                        "keys", f"has the storage {kind_of(name)}, which no tensor has or which is there twice"
                    )
                kind = kinds[name].kind
                if kind not in _DTYPES:
                    raise self.error(name, f"has numbers of the type {kind}, which is not supported")
                stream.seek(at)
                count = int.from_bytes(stream.read(8), self.byteorder)
                length = count * _DTYPES[kind].itemsize
                if at + 8 + length > size:
                    raise self.error(name, f"declares {count:,} numbers, more than the file has; it may be truncated")
                found[name] = at + 8, length
                at += 8 + length
        return found

    def storage(self, key: str, start: int, length: int) -> bytes | memoryview:
        at, there = self._places.get(key, (0, 0))
        if start + length > there:
            raise self.error(f"storage {key[:40]}", f"must have {start + length:,} bytes, it has {there:,}")
        with open_file(self.file) as stream:
            stream.seek(at + start)
            data = stream.read(length)
        if len(data) != length:
            raise self.error(f"storage {key[:40]}", "has become shorter while it was read")
        return data


@contextmanager
def opened(path: str | os.PathLike[str], budget: Budget, which: str | None = None) -> Iterator[Saved]:
    """The one network in a file of torch.save, of either format."""
    with open_file(path, follow=False) as stream:
        head = stream.read(4)
    if head != b"PK\x03\x04":
        yield SavedLegacy(os.fspath(path), budget, which)
        return
    with Archive(os.fspath(path), budget) as archive:
        yield SavedZip(archive, which)
