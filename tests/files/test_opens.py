"""docs/opens.md, the table of what opens, knows the layers that the readers know."""

from interop import opens


def test_the_table_and_the_lists_of_layers_are_the_same():
    """After a change to a reader: python -m tests.interop.opens, or python -m pytest tests/interop --opens."""
    rows, unseen = opens.parse(opens.PAGE.read_text())
    for framework, known in opens.LISTS.items():
        seen = [layer for name, layer in rows if name == framework]
        assert sorted([*seen, *unseen.get(framework, [])]) == known
    assert {framework for framework, _ in rows} == set(opens.LISTS)


def test_a_page_is_what_it_says():
    rows, _ = opens.parse(opens.PAGE.read_text())
    assert opens.page(rows) == opens.PAGE.read_text()
    fewer = {key: row for key, row in rows.items() if key[1] != "LSTM"}
    found, unseen = opens.parse(opens.page(fewer))
    assert found == fewer and "LSTM" in unseen["PyTorch"] and "LSTM" in unseen["Keras"]
