"""A folder or a zip archive that holds a model among other things: the file inside is opened.

Hugging Face writes folders with model.safetensors or pytorch_model.bin, stable-baselines archives with policy.pth, and
darts a checkpoint beside its pickle, which holds no tensors.
"""

from __future__ import annotations

import io
from pathlib import Path

from lrpnumpy.files import kinds
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.report import Imported, Report
from lrpnumpy.files.safetensors import Safetensors
from lrpnumpy.files.torch.model import arrays_of, read_saved
from lrpnumpy.files.torch.saved import NoNetworkError, SavedZip


def read(opened: WeightFile, options: LoadOptions) -> Imported | Report:
    """What the file inside holds."""
    name = kinds.inside(opened)
    if opened.is_folder:
        return _beside(opened, opened.path / name, options)
    content = io.BytesIO(opened.archive.member(name, opened.max_bytes))
    label = f"{opened.file}: {name}"
    if name.endswith(".safetensors"):
        return arrays_of("PyTorch arrays in safetensors", Safetensors(label, opened.budget, content), options)
    with Archive(label, opened.budget, content) as archive:
        saved = SavedZip(archive, options.which)
        return arrays_of(f"{saved.kind} in a zip archive", saved, options, saved.described)


def read_checkpoint(opened: WeightFile, options: LoadOptions) -> Imported | Report:
    """A pickle with a checkpoint beside it: the pickle if it holds the tensors of a network, else the checkpoint."""
    if kinds.is_saved(opened):
        try:
            return read_saved(opened, options)
        except NoNetworkError:
            pass
    checkpoint = kinds.checkpoint_beside(opened.path)
    assert checkpoint is not None
    return _beside(opened, checkpoint, options)


def _beside(opened: WeightFile, path: Path, options: LoadOptions) -> Imported | Report:
    """Another file that belongs to this one; a link is not followed."""
    if path.is_symlink():
        raise opened.error("", f"holds {path.name}, which is a link and not followed; open the file itself")
    found = kinds.imported(path, options)
    if isinstance(found, Imported):
        notes = [f"{path.name} is opened", *found.notes]
        found = found._replace(notes=notes, warnings=[f"{path.name} is opened; {text}" for text in found.warnings])
    return found
