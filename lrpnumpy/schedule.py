"""Many sequences as chunks of similar length, on several threads where it pays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from os import cpu_count
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, UserCodeError, shown
from lrpnumpy.encode import EncodedRecord, packed
from lrpnumpy.kernels import compile
from lrpnumpy.layers.base import Keep
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed, at_once, sorted_pieces
from lrpnumpy.passes import path_of

ROWS_WORTH_A_THREAD = 4000  # of a network with 64 units: with less work than that, threads do not pay
Work = Callable[[np.ndarray, dict[str, Packed]], None]


def chunks(lengths: Sequence[int], width: int, most: int = 1 << 21) -> list[np.ndarray]:
    """Positions of the sequences of each chunk, longest first; chunks of similar lengths that fit the cache.

    `width` is the widest layer. No chunk has more than `most` numbers in an array of the trace unless a single
    sequence has.
    """
    steps = np.asarray(lengths)
    order = np.argsort(-steps, kind="stable")
    size = at_once(width)
    cut, out = 0, []
    while cut < len(order):
        fit = max(1, min(size, most // (width * int(steps[order[cut]]))))
        out.append(order[cut : cut + fit])
        cut += fit
    return out


@cache
def keep_freed_memory() -> None:
    """Have freed memory kept for the next batch.

    glibc gives blocks above a threshold back to the system when they are freed, and getting them again takes longer
    than filling them. The threshold rises to the size of the largest block that was freed, up to 32 MB.
    """
    np.empty(31 << 20, np.uint8)


def _sorted_in_every_input(model: Model, encoded: Sequence[EncodedRecord], chunk: np.ndarray) -> list[np.ndarray]:
    """A chunk cut so that in each piece no record has more steps than the one before, in any input."""
    names = [name for name, port in model.inputs.items() if port.steps or name == model.main]
    sizes = [[encoded[k][name].steps for k in chunk] for name in names]
    return [chunk[piece] for piece in sorted_pieces([np.array(column) for column in sizes])]


def progress_bar(shown: bool | None, **settings: Any) -> Any:
    """A bar of progress with rate and time left, on standard error; None shows it where that is a terminal.

    Something that is done within two seconds shows none.
    """
    if shown is None and not sys.stderr.isatty():
        shown = False
    if shown is False:
        return nullcontext(_Silent())
    from tqdm import tqdm

    return tqdm(smoothing=0.05, delay=0 if shown else 2, **settings)


class _Silent:
    """A bar that nobody sees."""

    total = initial = n = 0

    def update(self, count: int) -> None:
        """Report that a number of further records are done."""


def run_chunks(
    model: Model,
    encoded: Sequence[EncodedRecord],
    work: Work,
    threads: int | None,
    look_up: bool = False,
    progress: bool | None = None,
    most: int = 1 << 21,
    keeps: Sequence[Keep] = (None,),
) -> None:
    """Call work(positions, batch) for chunks of the sequences, on several threads where it pays.

    Numbers that overflow or are not defined are for the results to tell of: NumPy's own warnings are off. Passes with
    these `keeps` are computed by one path, which is the caller's if it has one.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise LrpError(f"threads must be a positive number, or None for a suitable one, got {shown(threads)}.")
    keep_freed_memory()
    lengths = [record[model.main].steps for record in encoded]
    parts = chunks(lengths, model.width, most)
    if len(model.inputs) > 1:
        parts = [part for chunk in parts for part in _sorted_in_every_input(model, encoded, chunk)]
    path = path_of(model, keeps, sum(lengths) * model.row_size)

    def run(part: np.ndarray) -> None:
        with np.errstate(all="ignore"), compile.on(path):
            work(part, packed(model, [encoded[k] for k in part.tolist()], look_up))

    def one(part: np.ndarray) -> None:
        try:
            run(part)
        except UserCodeError:  # of a rule or layer: no sequence is to blame
            raise
        except LrpError:  # an error that only a run shows, such as steps that do not fit: find out whose they are
            for k in np.sort(part):
                try:
                    run(np.array([k]))
                except LrpError as error:
                    raise error if "sequence" in str(error) else LrpError(f"sequence {k}, {error}") from None
            raise

    if threads is None:
        enough = sum(lengths) * model.width > 64 * ROWS_WORTH_A_THREAD
        threads = (cpu_count() or 1) if enough else 1
    with progress_bar(progress if len(parts) > 1 else False, total=len(encoded), unit=" sequences") as bar:
        if threads == 1 or len(parts) == 1:
            for part in parts:
                one(part)
                bar.update(len(part))
            return
        with ThreadPoolExecutor(threads) as pool:
            try:
                for part, done in [(part, pool.submit(one, part)) for part in parts]:
                    done.result()
                    bar.update(len(part))
            except BaseException:  # an error or Ctrl-C: do not start the rest
                pool.shutdown(cancel_futures=True)
                raise
