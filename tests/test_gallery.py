"""The gallery of docs/pictures.md: its code runs, and its pictures are those that the code draws."""

import re

from benchmarks import gallery
from lrpnumpy.show import plot


def test_the_gallery_shows_what_its_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(gallery.PAGE.parents[1])
    figures = dict(gallery.draw(tmp_path))
    page = gallery.PAGE.read_text("utf-8")
    there = {path.name for path in (gallery.PAGE.parent / "pictures").iterdir()}
    assert {path.name for path in figures} == there == set(re.findall(r"\(pictures/(\S+)\)", page))
    assert all(f"`plot.{name}(" in page for name in plot.__all__ if name != "right_to_left")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.png")) < 600_000
    assert "2005-04-25" in capsys.readouterr().out
