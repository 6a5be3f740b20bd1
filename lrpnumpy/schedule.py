"""Many sequences as chunks of similar length, on several threads where it pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from os import cpu_count

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.encode import Encoded, packed
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed, at_once, sorted_pieces

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


def _sorted_in_every_input(model: Model, encoded: Sequence[Encoded], chunk: np.ndarray) -> list[np.ndarray]:
    """A chunk cut so that in each piece no record has more steps than the one before, in any input."""
    others = [name for name, port in model.ports.items() if port.steps and name != model.main]
    sizes = [[encoded[k].steps for k in chunk]]
    sizes += [[encoded[k].others[name].steps for k in chunk] for name in others]
    return [chunk[piece] for piece in sorted_pieces([np.array(column) for column in sizes])]


def run_chunks(
    model: Model, encoded: Sequence[Encoded], work: Work, threads: int | None, look_up: bool = False
) -> None:
    """Call work(positions, batch) for chunks of the sequences, on several threads where it pays.

    Numbers that overflow or are not defined are for the results to tell of: NumPy's own warnings are off.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise LrpError(f"threads must be a positive number, or None for what pays, got {threads!r}.")
    if len(encoded) == 1:
        with np.errstate(all="ignore"):
            work(np.zeros(1, np.int64), packed(model, encoded, look_up))
        return
    keep_freed_memory()
    lengths = [sequence.steps for sequence in encoded]
    parts = chunks(lengths, model.width)
    if len(model.ports) > 1:
        parts = [part for chunk in parts for part in _sorted_in_every_input(model, encoded, chunk)]

    def one(part: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            work(part, packed(model, [encoded[k] for k in part.tolist()], look_up))

    if threads is None:
        enough = sum(lengths) * model.width > 64 * ROWS_WORTH_A_THREAD
        threads = (cpu_count() or 1) if enough else 1
    if threads == 1 or len(parts) == 1:
        for part in parts:
            one(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for done in [pool.submit(one, part) for part in parts]:
                done.result()
        except BaseException:  # an error or Ctrl-C: do not start the rest
            pool.shutdown(cancel_futures=True)
            raise
