"""python -m tests.attacks.threads: many threads explain while kernels are compiled, fork, and compare.

Every result must be that of compiled kernels, but for rounding: the process that judges has waited for them. A short
version is part of the tests; `--seconds 600 --threads 8` is run by hand.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

ROOT = Path(__file__).parents[2]
METHODS = ("gradient", "gradient-x-input", "lrp-all", "lrp-half", "deeplift", "cd", "occlusion-f")
TOLERANCE = 1e-9  # of the largest value, in float64: LRP amplifies rounding a thousandfold at a step


def models():
    """A network of each cell, in one direction and in two, and inputs from one short sequence to a large batch."""
    rng = np.random.default_rng(0)
    found = []
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):

        def layer(D, H, kind=kind, gates=gates):
            shape = (gates,) if gates > 1 else ()
            U, W = rng.normal(size=(*shape, H, D)), rng.normal(size=(*shape, H, H)) / np.sqrt(D + H)
            return getattr(lrp, kind)(U, W, rng.normal(size=(*shape, H)))

        one = layer(3, 6)
        two = lrp.Bidirectional(layer(3, 5), layer(3, 5))
        for cell in (one, two):
            V = rng.normal(size=(2, cell.outputs)) / np.sqrt(cell.outputs)
            found.append(lrp.Model([cell, lrp.Dense(V, rng.normal(size=2))]))
    batches = [[rng.normal(size=(T, 3)) for T in lengths] for lengths in ((5,), (7, 3, 4), (30,) * 90)]
    return found, batches


def jobs():
    """All that is asked, in an order that every thread begins elsewhere."""
    count, sizes = len(models()[0]), len(models()[1])
    every = [(m, b, method) for method in METHODS for m in range(count) for b in range(sizes)]
    return [job for job in every if job[1] < 2 or job[2] not in ("cd", "occlusion-f")]  # those would take minutes


def answer(model, batch, method):
    """Scores and relevance as one array."""
    found = lrp.explain_all(model, batch, method, 0, threads=1)
    return np.concatenate([np.concatenate((one.scores, one.relevance)) for one in found])


def wanted(path):
    """In a process that waits for the compiler."""
    every, batches = models()
    np.savez(path, **{str(k): answer(every[m], batches[b], method) for k, (m, b, method) in enumerate(jobs())})


def attack(path, seconds, count):
    """As users have it. Returns how many explanations there were, of how many kernels, and what was wrong."""
    from lrpnumpy.kernels import compile as kernels

    every, batches = models()
    asked, stop = jobs(), time.monotonic() + seconds
    with np.load(path) as file:
        truth = {int(k): file[k] for k in file.files}
    done, wrong, worst = [0] * count, [], [0.0] * count

    def judge(number, k):
        m, b, method = asked[k]
        found = answer(every[m], batches[b], method)
        off = float(abs(found - truth[k]).max() / abs(truth[k]).max())
        worst[number] = max(worst[number], off)
        if not off <= TOLERANCE:
            wrong.append(f"{method} of model {m}, batch {b}: off by {off:.1e}")

    def run(number):
        k = number * len(asked) // count
        try:
            while time.monotonic() < stop and not wrong:
                judge(number, k % len(asked))
                done[number] += 1
                k += 1
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    forks = 0
    while hasattr(os, "fork") and time.monotonic() < stop and not wrong:
        time.sleep(min(2.0, seconds / 4))
        forks += 1
        child = os.fork()
        if child == 0:
            judge(0, forks % len(asked))
            os._exit(bool(wrong))
        end = time.monotonic() + 120
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.05)
        if ended != (child, 0):
            wrong.append(f"the child of fork {forks} gave {ended}")
            break
    for thread in threads:
        thread.join()
    ready = sum(bool(one.compiled) for one in kernels.KERNELS)
    counts = f"{sum(done)} calls, {forks} forks, {ready} kernels compiled meanwhile, off by {max(worst):.1e} at most"
    sys.stdout.write("\n".join([counts, *wrong[:10], ""]))
    return bool(wrong)


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m tests.attacks.threads", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--against", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.against:
        return attack(options.against, options.seconds, options.threads)
    plain = {key: value for key, value in os.environ.items() if key not in ("LRPNUMPY_COMPILE", "NUMBA_CACHE_DIR")}
    with tempfile.TemporaryDirectory() as folder:
        truth, cache = f"{folder}/truth.npz", f"{folder}/cache"
        code = f"from tests.attacks.threads import wanted; wanted({truth!r})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=plain | {"LRPNUMPY_COMPILE": "wait"}, check=True)
        again = ["--seconds", str(options.seconds), "--threads", str(options.threads), "--against", truth]
        command = [sys.executable, "-W", "ignore", "-m", "tests.attacks.threads", *again]
        return subprocess.run(command, cwd=ROOT, env=plain | {"NUMBA_CACHE_DIR": cache}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
