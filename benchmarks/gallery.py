"""Draw the pictures of docs/pictures.md: run the code of the page, and save each figure under the name that follows.

Run with: python -m benchmarks.gallery
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

PAGE = Path(__file__).parents[1] / "docs" / "pictures.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:!\[[^\]]*\]\((\S+)\))?", re.DOTALL)


def draw(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Each figure of the page with the file that it is saved to, below the folder."""
    names: dict[str, Any] = {}
    for code, file in BLOCK.findall(PAGE.read_text("utf-8")):
        exec(code, names)
        if file:
            (folder / file).parent.mkdir(exist_ok=True)
            names["figure"].savefig(folder / file, dpi=80)
            with Image.open(folder / file) as image:  # 256 colours take half the room
                small = image.convert("RGB").quantize(256, kmeans=1)
            small.save(folder / file, optimize=True)
            yield folder / file, names["figure"]


def main() -> None:
    for file, _ in draw(PAGE.parent):
        print(f"{file.relative_to(PAGE.parents[1])}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
