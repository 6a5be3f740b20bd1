"""The oldest dependencies that setup.cfg claims, as constraints for pip: `python -m tests.oldest > oldest.txt`."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("pandas", "parquet", "dask", "neuralhydrology")  # what users install; the rest is for developers


def constraints() -> list[str]:
    """`numpy>=1.26` becomes `numpy==1.26`."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    extras = config["options.extras_require"]
    claimed = [config["options"]["install_requires"], *(extras[name] for name in EXTRAS)]
    found = re.findall(r"^([\w-]+)>=([\d.]+)$", "\n".join(claimed), re.MULTILINE)
    return sorted({f"{name}=={version}" for name, version in found})


if __name__ == "__main__":
    print("\n".join(constraints()))
