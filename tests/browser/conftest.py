"""A headless browser for the tests of pages: no test passes with an error in its console or a request that leaves."""

import os

import chromium
import pytest
from playwright import sync_api

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests; where there is none they are skipped, or with CI=true they fail."""
    path = chromium.find()
    if path is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("there is no Chromium: try `make browser`")
    with sync_api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """visit(address, **context) opens a page; at the end of the test it must have had no error and asked nobody."""
    contexts, problems = [], []

    def open_page(address, allowed=("file:",), **options):
        context = browser.new_context(viewport={"width": 1360, "height": 860}, **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(allowed) else problems.append(f"asked for {r.url}"))
        page.goto(str(address))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
