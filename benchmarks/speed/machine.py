"""What a measurement was made on: processor, cores, and the versions of what took part."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import lrpnumpy as lrp


def machine(libraries: Sequence[str]) -> dict[str, Any]:
    """Processor, cores, and the versions of Python, lrpnumpy and these libraries."""
    versions = {"lrpnumpy": lrp.__version__}
    for name in libraries:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    cpu = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.processor()
    )
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), **versions}


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
