"""Explanations on a Dask cluster: a file through explain_corpus, and a bag through explain_bag.

The cluster here is two processes on this machine. For another one give its scheduler's address to Client; lrpnumpy
must be installed where its workers run. Needs the extra: pip install lrpnumpy[dask]

Run with: python examples/dask_run.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import dask.bag
from distributed import Client, LocalCluster

import lrpnumpy as lrp

SENTENCES = ["A charming film .", "It is not funny at all .", "The plot is a mess , but I liked it ."]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    (folder / "reviews.txt").write_text("\n".join(SENTENCES * 200))
    model = lrp.load("sentiment")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        # As on one machine, but the workers explain. Chunks are formed first, so the results are identical to the bit.
        output = lrp.Output(folder / "reviews", chunk=100)
        explanations = lrp.explain_corpus(model, folder / "reviews.txt", out=output, workers=client)
        print(f"{len(explanations)} explanations in {explanations.path}")

        # Inside your own pipeline: a bag of sequences becomes a bag of explanations.
        bag = dask.bag.from_sequence(SENTENCES * 20, npartitions=4)
        top = lrp.explain_bag(model, bag, unit="step").map(lambda e: e.top(1)[0].token)
        print("most relevant words:", top.frequencies().compute())


if __name__ == "__main__":  # worker processes import this file
    main()
