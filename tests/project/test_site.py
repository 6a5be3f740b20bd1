"""docs/check.py, which judges the built site, finds what is wrong with one."""

import pytest

from docs import check


@pytest.fixture
def site(tmp_path):
    """Five pages in a row, of which the first also has a section; every link leads somewhere."""
    for k in range(5):
        links = f'<p><a href="p{k + 1}.html">to <b>page {k + 1}</b></a></p>' if k < 4 else ""
        body = f'<h1>p{k}</h1><section id="more"><h2>more</h2>word{k}</section>{links}<a href="#more">here</a>'
        (tmp_path / f"p{k}.html").write_text(f"<html><body>{body}<img src='a.png'></body></html>", "utf-8")
    return tmp_path


def test_a_whole_site_has_nothing_wrong(site):
    assert check.broken(site, check.read(site)) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('<a href="gone.html">x</a>', "p2.html: no page gone.html"),
        ('<a href="p1.html#gone">x</a>', "p2.html: no #gone in p1.html"),
        ('<a href="#gone">x</a>', "p2.html: no #gone in p2.html"),
        ('<script src="https://elsewhere/x.js"></script>', "p2.html: fetches https://elsewhere/x.js"),
        ('<link rel="stylesheet" href="//elsewhere/x.css">', "p2.html: fetches //elsewhere/x.css"),
    ],
)
def test_what_is_broken_is_found(site, more, said):
    (site / "p2.html").write_text((site / "p2.html").read_text("utf-8") + more, "utf-8")
    assert check.broken(site, check.read(site)) == [said]


def test_three_clicks_are_near_and_four_are_not(site):
    pages = check.read(site)

    def near(called, *words):
        return not check.unreachable(pages, {"task": (called, words)}, "p0.html")

    assert near("page 3", "word3") and not near("page 4", "word4")
    assert not near("page 3", "word1")  # the place must say it
    assert not near("no such link", "word3")
    assert near("here", "word0") and not near("here", "p0")  # an anchor is its section, not the page
