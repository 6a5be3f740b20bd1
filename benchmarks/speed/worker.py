"""One side of `against`: in the root of a checkout it runs that checkout's lrpnumpy, and answers JSON lines.

Both sides run this text, whatever their commits: it keeps to the public API and to `workload`. A question is a line
{"do": name, ...}; so is the answer, with "refused" where lrpnumpy raised an LrpError.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed.workloads import SHAPES, workload

Answer = dict[str, Any]
# Stabilizers of LRP. With the usual 0.001 these rules multiply relevance at every step of a network of random weights,
# until rounding decides it, or float32 overflows; a version may then compute such sequences again in float64. With far
# larger ones relevance fades to numbers so small that the processor is slow with them.
EPS = {"lrp-prop": 0.2, "lrp-abs": 0.02, "lrp-half": 0.02}


class Side:
    """The workload and the method that questions are about."""

    def hello(self) -> Answer:
        """Where this lrpnumpy is, and what it has: methods with their cost, workloads."""
        costs = {method.name: method.cost for method in lrp.methods() if "2^" not in method.cost}
        methods = {"forward": "Θ(T)", **costs}
        return {"file": os.path.realpath(lrp.__file__), "methods": methods, "workloads": list(SHAPES)}

    def load(self, name: str, method: str, dtype: str, steps: int | None, scale: float) -> Answer:
        """Make the model and its inputs; "digest" tells whether both sides made the same inputs."""
        work = workload(name, dtype, steps, scale)
        self.model, self.sequences, self.method = work.model, work.sequences, method
        digest = hashlib.sha256(b"".join(x.tobytes() for x in self.sequences)).hexdigest()
        return {"digest": digest, "sequences": len(self.sequences), "steps": sum(map(len, self.sequences))}

    def call(self) -> Any:
        """What is compared and timed; a single sequence goes through the functions for one."""
        options = {"eps": EPS[self.method]} if self.method in EPS else {}
        if len(self.sequences) == 1:
            if self.method == "forward":
                return lrp.predict(self.model, self.sequences[0])
            return lrp.explain(self.model, self.sequences[0], self.method, target=0, **options)
        if self.method == "forward":
            return lrp.predict_all(self.model, self.sequences, threads=1)
        return lrp.explain_all(self.model, self.sequences, self.method, target=0, threads=1, **options)

    def run(self, folder: str) -> Answer:
        """Call once, which compiles what has to be compiled, and write the results to a file."""
        found = self.call()
        if self.method != "forward":
            each = [found] if len(self.sequences) == 1 else found
            parts = [part for one in each for part in (one.relevance, of_features(one)) if part is not None]
            found = np.concatenate([part.ravel() for part in parts])
        file = os.path.join(folder, f"{os.getpid()}.npy")
        np.save(file, found)
        return {"file": file}

    def time(self, calls: int) -> Answer:
        """Seconds of processor time of a call, over several calls in a row: others may use the machine, too."""
        gc.collect()
        start = time.process_time()
        for _ in range(calls):
            self.call()
        return {"seconds": (time.process_time() - start) / calls}


def of_features(explanation: Any) -> np.ndarray | None:
    """The relevance of every feature, which older commits call `variables`."""
    if hasattr(explanation, "feature_relevance"):
        return explanation.feature_relevance
    return explanation.variables


def serve() -> None:
    """Answer questions until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what anything prints must not come between the answers
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, which then ends this one
    side = Side()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(side, question.pop("do"))(**question)
        except lrp.LrpError as error:
            answer = {"refused": str(error)}
        except Exception:
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
