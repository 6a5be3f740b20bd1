"""The science of the river: `python -m benchmarks.river piscataquis.csv [--out FOLDER]`

Prints every table, and writes a page (README.md) with the figures to a folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import lrpnumpy as lrp
from benchmarks.river import study
from benchmarks.river.data import read

QUESTIONS = {
    "How well does it predict?": study.skill,
    "Do the hidden units find the snow?": study.snow,
    "How far back does relevance reach?": study.memory,
    "Do the methods agree?": study.agreement,
    "Which of them puts relevance on the melt?": study.melt,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.river", description=__doc__.splitlines()[0])
    parser.add_argument("data", help="piscataquis.csv")
    parser.add_argument("--model", default="river", help="a model file (the bundled one)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the page (results)")
    arguments = parser.parse_args()
    began = time.perf_counter()
    asked = study.Study(lrp.load(arguments.model), read(arguments.data))
    arguments.out.mkdir(parents=True, exist_ok=True)
    page = ["# A river", "", INTRODUCTION]
    for question, answer in QUESTIONS.items():
        page += ["", f"## {question}"]
        for piece in answer(asked):
            piece.print()
            piece.write(arguments.out)
            page += ["", piece.markdown()]
    (arguments.out / "README.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    print(f"wrote {arguments.out / 'README.md'} after {time.perf_counter() - began:.0f} s")


INTRODUCTION = """
The bundled network `weights/river.h5` reads 365 days of weather of the Piscataquis River in Maine (precipitation,
radiation, highest and lowest temperature, vapor pressure) and predicts how much water the river carries on the last
day, in mm over its basin. `python -m benchmarks.river piscataquis.csv --out benchmarks/river` writes this page. The
data are from the CAMELS data set: Newman et al. (2015), Hydrology and Earth System Sciences 19, 209-223; Addor et al.
(2017), the same journal 21, 5293-5313. They are not bundled.
""".strip()


if __name__ == "__main__":
    main()
