"""One case: a seed, damaged as its number says, written to a folder and opened."""

import os
import random
import shutil
from pathlib import Path

from .damage import damaged
from .doors import outcome
from .seeds import seeds

# How often a format is drawn, where it is not three times: those with the most to go wrong more often, slow ones less.
USUAL = 3
SHARES = {"HDF5 layouts": 15, "Keras 1 and 2 (.h5)": 12, "Keras 3 (.keras)": 9, "lrpnumpy HDF5": 6, "ONNX": 6}
SHARES |= {"torch.save, zip": 9, "torch.save, older": 6, "explanation folder": 6, "safetensors": 6}
SHARES |= {"parts of a run": 1, "state of a ranking": 1}


class Cases:
    """All cases of a run: case k is the same damage to the same file whenever and wherever it is made."""

    def __init__(self, number, only=None):
        self.number, self.seeds = number, seeds()
        self.formats = [name for name in self.seeds if only is None or only in name]
        if not self.formats:
            raise SystemExit(f"--format must be part of one of {', '.join(self.seeds)}, got {only!r}.")
        self._drawn = [name for name in self.formats for _ in range(SHARES.get(name, USUAL))]

    def make(self, case):
        """The seed of a case, its damaged files, and the generator, which is used on."""
        rng = random.Random(f"{self.number} {case}")
        seed = rng.choice(self.seeds[rng.choice(self._drawn)])
        names = seed.hurt or tuple(seed.files)
        hurt = rng.choice(names if len(names) == 1 or rng.random() < 0.5 else names[:1] + names)
        return seed, {**seed.files, hurt: damaged(rng, seed.files[hurt])}, rng

    def write(self, case, folder):
        """The files of a case in a folder, which is emptied; the seed, what is to be opened, and the generator."""
        seed, files, rng = self.make(case)
        empty(folder)
        for name, content in files.items():
            path = folder / name
            if "/" in name:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return seed, folder / seed.path, rng

    def run(self, case, folder):
        """The format of a case, what came of it, and the exception if there is one."""
        seed, path, rng = self.write(case, folder)
        return seed.format, *outcome(seed, path, rng)


def empty(folder):
    """Remove what is in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)


def scratch():
    """A folder for files that live for one case: in memory, where the system has such a place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None
