"""Read the Japanese Vowels of the UCI archive (Kudo, Toyama and Shimbo 1999). The files are not bundled."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def read(path: str | Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Utterances, each (T, 12), and the number of the speaker of each, from 0."""
    x, y = [], []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "#@":
            *series, speaker = line.strip().split(":")
            x.append(np.array([[float(number) for number in one.split(",")] for one in series]).T)
            y.append(int(speaker) - 1)
    return x, np.array(y)
