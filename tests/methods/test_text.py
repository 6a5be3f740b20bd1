"""Sentences to words and words to rows: worked examples, and laws that hold for any text."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lrpnumpy import Embedding, LrpError
from lrpnumpy.text import lookup, tokens

# What a person types, and the words the treebank writes for it.
EXAMPLES = [
    ("", ""),
    ("It isn't funny.", "It is n't funny ."),
    ("I can't, won't and don't; they cannot!", "I ca n't , wo n't and do n't ; they can not !"),
    ("I'm sure she'd say it's what we've all seen, you'll see.",
     "I 'm sure she 'd say it 's what we 've all seen , you 'll see ."),
    ("You shouldn't've. IT ISN'T.", "You should n't 've . IT IS N'T ."),
    ("Chaplin's film, the boys' room", "Chaplin 's film , the boys ' room"),
    ('He said "no," and left.', "He said `` no , '' and left ."),
    ('("Two" films)', "-LRB- `` Two '' films -RRB-"),
    ('an " open " quote', "an `` open '' quote"),
    ("a 'wow' factor", "a ` wow ' factor"),
    ("“It’s”—she said—‘fine’…", "`` It 's '' -- she said -- ` fine ' ..."),
    ("[F]rom {a}", "-LRB- F -RRB- rom -LCB- a -RCB-"),
    ("well--made. . .", "well -- made . . ."),
    ("so-so, a well-made writer/director; S&M", "so-so , a well-made writer/director ; S&M"),
    ("Mr. Drew vs. Dr. No.", "Mr. Drew vs. Dr. No ."),
    ("in the U.S. by J. K. Rowling, i.e. No. 1", "in the U.S. by J. K. Rowling , i.e. No. 1"),
    ("Neither did I. It ended.", "Neither did I . It ended ."),
    ("Plan B.", "Plan B ."),
    ("$9.50 at 9:30, 2,500 seats, 50% off: #1", "$ 9.50 at 9:30 , 2,500 seats , 50 % off : # 1"),
    ("'70s rock 'n' roll, let 'em, 'til, 'tis", "'70s rock 'n' roll , let 'em , 'til , 't is"),
    ("M*A*S*H", "M * A * S * H"),
    ("O'Neill's raison d'etre", "O'Neill 's raison d'etre"),
    ("they're-good <unk> wow!!", "they 're - good <unk> wow ! !"),
    ("writer\\/director", "writer/director"),
    ("cliche\u0301s", "clich\u00e9s"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "words"), EXAMPLES)
def test_treebank_examples(sentence, words):
    assert tokens(sentence, "treebank") == words.split()


def test_space_cuts_at_blanks_only():
    assert tokens(" It isn't\tfunny. \n", "space") == ["It", "isn't", "funny."]
    assert tokens(" \n", "space") == []


def test_keras_removes_punctuation_and_capitals_of_ascii():
    assert tokens("It isn't [so] Funny -- ÄRGER!\n", "keras") == ["it", "isnt", "so", "funny", "Ärger"]


TRICKY = st.text(st.sampled_from("aIBn tTds019'`\"’“”.,:;!?-—…()[]\\/*&$#@%é\u0301\u00ad\n"), max_size=30)
PIECES = st.builds(
    str.join,
    st.sampled_from([" ", ""]),
    st.lists(st.sampled_from([*(w for _, words in EXAMPLES for w in words.split()), '"', "no."])),
)


@given(st.one_of(TRICKY, PIECES, st.text(max_size=30)))
@example("isn't.x")
@example("\\\\/")
@example("e\u00ad\u0301")
def test_treebank_leaves_its_own_words_alone(sentence):
    words = tokens(sentence, "treebank")
    assert tokens(" ".join(words), "treebank") == words
    assert all(word and not any(c.isspace() for c in word) for word in words)
    assert bool(words) == bool(sentence.replace("\u00ad", "").replace("\u200b", "").replace("\ufeff", "").strip())


@given(st.lists(st.from_regex(r"[a-zA-Z0-9]+", fullmatch=True)))
def test_plain_words_are_never_cut(words):
    words = [word for word in words if word.lower() != "cannot"]
    assert tokens(" ".join(words), "treebank") == words


@pytest.mark.parametrize("text", ["a" * 100_000, '" ' * 50_000, "a.b." * 25_000 + "c", "'" * 100_000, "n't" * 50_000])
def test_hostile_text_takes_linear_time(text):
    assert tokens(text, "treebank")


def embedding(**options):
    return Embedding(np.eye(4), vocabulary=["<unk>", "not", "Funny", "funny"], **options)


def test_lookup():
    assert lookup(embedding(), [["not", "Funny"], ["funny"]], ["x", "y"]).tolist() == [1, 2, 3]
    assert lookup(embedding(lowercase=True), [["NOT", "Funny"]], ["x"]).tolist() == [1, 3]
    assert lookup(embedding(unknown="<unk>"), [["very", "funny"]], ["x"]).tolist() == [0, 3]
    assert lookup(embedding(), [], []).tolist() == []


def test_unknown_word_is_named_with_its_position():
    with pytest.raises(
        LrpError, match=r"^sequence 7 .* got 'very' at position 1; name a word for unknown ones, unknown="
    ):
        lookup(embedding(), [["not"], ["not", "very", "funny"]], ["sequence 6", "sequence 7"])


def test_words_and_numbers_are_not_mixed():
    with pytest.raises(LrpError, match=r"^x must be words, or numbers, not both, got 5 at position 1\.$"):
        lookup(embedding(), [["not", 5]], ["x"])
