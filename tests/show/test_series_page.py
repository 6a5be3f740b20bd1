"""docs/series.md: its blocks run, one after another."""

import re
from pathlib import Path

import pytest


def test_the_page_about_series_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    page = (Path(__file__).parents[2] / "docs" / "series.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    told = capsys.readouterr().out
    assert len(blocks) == 4 and "deeplift: discharge" in told and "(20, 20, 2)" in told and "wet (" in told
    assert (tmp_path / "day.png").exists() and (tmp_path / "average.png").exists()
