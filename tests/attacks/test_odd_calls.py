"""Odd calls and odd files: a fixed few hundred of those that `odd_calls.py` and `odd_files.py` draw."""

import odd_calls
import odd_files
import pytest

pytest.importorskip("resource")  # and so signal.alarm


def test_odd_calls_give_a_result_or_an_error_of_ours(capsys):
    wrong = [f"{title}: {type(error).__name__}: {error}" for _, title, _, error in odd_calls.run(600, seed=0)]
    assert not wrong


def test_odd_files_give_explanations_or_an_error_of_ours():
    wrong, refused = odd_files.run(120, seed=0)
    assert not wrong and refused > 60


def test_the_search_finds_what_is_not_ours():
    def foreign(x):
        return x.shape

    assert odd_calls.attempt(foreign, {"x": 1}).__class__ is AttributeError
    assert odd_calls.attempt(foreign, {"x": odd_calls.np.ones(1)}) is None
