"""The benchmark as a picture: ratios per job, and cost against T."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def figure(found: dict[str, Any]) -> Figure:
    """How many times faster than each peer (target as a mark); and seconds against T, where there are any."""
    rows = [row for row in found["peers"] if "ratio" in row]
    grown = [row for row in found["extras"] if "lengths" in row]
    picture = Figure(figsize=(13, 2.2 + 0.24 * max(len(rows), 12)), layout="constrained")
    FigureCanvasAgg(picture)
    left, *others = picture.subplots(1, 2 if grown else 1, squeeze=False, width_ratios=(3, 2) if grown else None)[0]
    names = [f"{row['job']} · {row['workload']} · {row['threads']} thr · {row['peer']}" for row in rows]
    places = np.arange(len(rows))[::-1]
    left.barh(places, [row["ratio"] for row in rows], color="#4878cf")
    for place, row in zip(places, rows, strict=True):
        if row.get("target"):
            left.plot([row["target"]] * 2, [place - 0.45, place + 0.45], color="#d62828", linewidth=2)
        text = f"{row['ratio']:,.0f}×" if row["ratio"] >= 100 else f"{row['ratio']:.3g}×"
        left.text(max(row["ratio"], row.get("target") or 0) * 1.15, place, text, va="center", fontsize=8)
    left.set_yticks(places, names, fontsize=8)
    left.set_xscale("log")
    left.set_xlim(right=5 * max((row["ratio"] for row in rows), default=1))
    left.set_ylim(-0.8, len(rows) - 0.2)
    left.axvline(1, color="0.4", linewidth=0.8)
    left.set_xlabel("times faster than the peer (red: target)")
    for right in others:
        for row in grown:
            name = row["question"].removeprefix("growth of ").split(" with")[0]
            right.loglog(row["lengths"], row["seconds"], "o-", label=f"{name}: T^{row['value']:.2f}")
        right.set_xlabel("steps T")
        right.set_ylabel("seconds")
        right.grid(alpha=0.3)
        right.legend(frameon=False)
    return picture
