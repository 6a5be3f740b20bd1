"""Words and names for networks whose files have none: vocabularies, tokenizers, padding, unknown words, two classes."""

import inspect
import json
import os
import re
from pathlib import Path

import laws
import networks as nets
import numpy as np
import pytest
from matplotlib.text import Text
from networks import close
from samples import every_axes

import lrpnumpy as lrp
from lrpnumpy import text
from lrpnumpy.__main__ import parser
from lrpnumpy.files import hints
from lrpnumpy.methods import COSTLY, METHODS
from lrpnumpy.show import html, latex, plot, terminal
from lrpnumpy.show.parts import condensed

WORDS = ("<pad>", "<unk>", "the", "film", "is", "good")
INDEX = {"the": 1, "film": 2, "is": 3, "good": 4, "bad": 5}  # counted from 1, as Keras' Tokenizer does


def network(rng, embedding=None, outputs=1, **options):
    D = 3 if embedding is None else embedding.size
    return lrp.Model([nets.lstm(rng, D, 4), nets.dense(rng, 4, outputs)], embedding=embedding, **options)


@pytest.fixture
def path(rng, tmp_path):
    """A file with an embedding of six rows and no words."""
    lrp.save(network(rng, lrp.Embedding(rng.normal(size=(6, 3))), output="sigmoid"), tmp_path / "model.h5")
    return tmp_path / "model.h5"


# ------------------------------------------------------------------------------------------------------- vocabularies


@pytest.mark.parametrize(
    "given",
    [
        list(WORDS),
        {word: row for row, word in enumerate(WORDS)},
        {word: np.int64(row) for row, word in reversed(list(enumerate(WORDS)))},
    ],
    ids=["list", "get_stoi", "in any order"],
)
def test_vocabularies_as_people_have_them(path, given):
    model = lrp.load(path, vocabulary=given, unknown="<unk>")
    assert model.embedding.vocabulary == WORDS
    assert lrp.explain(model, "the film").tokens == ("the", "film")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("words.txt", "\n".join(WORDS)),
        ("words.txt", "\r\n".join(WORDS) + "\r\n"),
        ("words.json", json.dumps(WORDS)),
        ("words.json", json.dumps({word: row for row, word in enumerate(WORDS)})),
    ],
    ids=["lines", "lines of Windows", "list", "dict"],
)
def test_vocabularies_in_files(path, tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    for given in (tmp_path / name, str(tmp_path / name)):
        assert lrp.load(path, vocabulary=given).embedding.vocabulary == WORDS


def test_keras_counts_words_from_one(path):
    report = lrp.inspect(path, vocabulary=INDEX)
    assert report.model.embedding.vocabulary == ("<pad>", "the", "film", "is", "good", "bad")
    assert "no word for row 0, which is taken as padding" in str(report)
    assert "row 0" in report.model.provenance["assumed"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (WORDS[2:], r"must have 6 .*, got 4; name reserved rows, too: \['<pad>', '<unk>', \*words\]"),
        ([*WORDS, "bad"], r"must have 6 .*, got 7"),
        ({**INDEX, "more": 6}, r"each of the 6 rows once, got 6 .*pass \{word: row.*if row < 6\}.*index_from=3"),
        ({"the": 3, "film": 4, "is": 5}, r"none for row 0; name reserved rows"),
        ({"the": 1, "film": 1}, "each of the 6 rows once, got 2 words"),
        ({"the": "one"}, "each of the 6 rows once, got 1 words"),
        ({"the": [1]}, "each of the 6 rows once, got 1 words"),
        (["the"] * 6, "'the' twice"),
    ],
)
def test_what_is_off_is_said_with_what_to_pass(path, given, message):
    with pytest.raises(lrp.LrpError, match=message):
        lrp.load(path, vocabulary=given)


def test_the_advice_works(path):
    index = {**INDEX, "more": 6, "words": 7}
    model = lrp.load(path, vocabulary={word: row for word, row in index.items() if row < 6})
    assert model.embedding.vocabulary[1:] == tuple(INDEX)


def test_words_need_an_embedding_and_a_vocabulary(path, rng, tmp_path):
    lrp.save(network(rng), tmp_path / "numbers.h5")
    with pytest.raises(lrp.LrpError, match="vocabulary must be left out, as the network takes numbers"):
        lrp.load(tmp_path / "numbers.h5", vocabulary=WORDS)
    with pytest.raises(lrp.LrpError, match="lowercase must be said with vocabulary="):
        lrp.load(path, lowercase=True)
    with pytest.raises(lrp.LrpError, match="row from 0 to 5, got 6"):
        lrp.load(path, vocabulary=WORDS, unknown=6)
    assert lrp.load(path, vocabulary=WORDS, unknown=1).embedding.unknown == "<unk>"


def test_files_of_words_are_read_within_limits(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.txt").write_bytes(b"a\n" * (9 << 20))
    (tmp_path / "twice.json").write_text('{"a": 1, "a": 2}')
    (tmp_path / "latin.txt").write_bytes("\xe9\n".encode("latin-1"))
    for name, message in {
        "pipe": "must be a regular file",
        "large.txt": "over the limit",
        "twice.json": "occurs twice",
        "latin.txt": "cannot be read",
        "missing.txt": "cannot be read",
    }.items():
        with pytest.raises(lrp.WeightFileError, match=message):
            lrp.load(path, vocabulary=tmp_path / name)


# --------------------------------------------------------------------------------------------------------- tokenizers


@pytest.mark.parametrize(
    ("tokenizer", "sentence", "words"),
    [
        ("keras-tokenizer", "It ISN'T well-made; (at all)\tÉté.", ["it", "isn't", "well", "made", "at", "all", "été"]),
        ("keras-tokenizer", " ... ", []),
        ("keras", "It ISN'T well-made.", ["it", "isnt", "wellmade"]),
    ],
)
def test_tokenizers_of_keras(tokenizer, sentence, words):
    assert text.tokens(sentence, tokenizer) == words


def test_a_tokenizer_of_ones_own(path, tmp_path):
    model = lrp.load(path, vocabulary=WORDS, tokenizer=lambda sentence: iter(re.findall(r"\w+", sentence.lower())))
    assert lrp.explain(model, "The... FILM?").tokens == ("the", "film")
    with pytest.raises(lrp.LrpError, match="save: tokenizer must be one by name; save with tokenizer='space'"):
        lrp.save(model, tmp_path / "new.h5")
    for wrong in (lambda sentence: sentence, lambda sentence: [1, 2]):
        with pytest.raises(lrp.LrpError, match="tokenizer must give a list of words"):
            lrp.predict(lrp.load(path, vocabulary=WORDS, tokenizer=wrong), "the film")
    with pytest.raises(lrp.LrpError, match="tokenizer must be one of 'space', 'treebank', 'keras', 'keras-tokenizer'"):
        lrp.load(path, vocabulary=WORDS, tokenizer="nltk")


def cut_one(sentence):
    return sentence.split()


def cut_other(sentence):
    return sentence.lower().split()


def test_a_run_is_resumed_by_the_same_tokenizer_only(path, tmp_path):
    one, other, third = (
        lrp.load(path, vocabulary=WORDS, unknown="<unk>", tokenizer=function)
        for function in (cut_one, cut_other, re.compile("[a-z]+").findall)
    )
    out = tmp_path / "out"
    lrp.explain_corpus(one, ["the film"], out=out, progress=False)
    assert len(lrp.explain_corpus(one, ["the film"], out=out, progress=False)) == 1
    for model in (other, third):
        with pytest.raises(lrp.LrpError, match="has another run"):
            lrp.explain_corpus(model, ["the film"], out=out, progress=False)


# ------------------------------------------------------------------------------------------------------ unknown words


def test_unknown_words_are_marked_in_every_picture(path):
    e = lrp.explain(lrp.load(path, vocabulary=WORDS, unknown="<unk>"), "the blorf is good")
    assert e.unknown == (1,) and e.padding == () and e.tokens[1] == "blorf"
    shown = "blorf[?]"
    assert str(e).count(shown) == 2 and "[?] not in the vocabulary" in str(e)
    assert shown in html.page(e) and "[?] not in the vocabulary" in html.page(e)
    assert shown in latex.document(e)
    assert shown in {one.get_text() for one in plot.sentence(e).axes[0].texts}
    both = lrp.compare(lrp.load(path, vocabulary=WORDS, unknown="<unk>"), "the blorf is good", ["cd", "gradient"])
    assert shown in str(both) and shown in html.page(both) and "[?] not in" in terminal.render_comparison(both)
    known = lrp.explain(lrp.load(path, vocabulary=WORDS, unknown="<unk>"), "the film is good")
    page = html.page(known).partition("<iframe")[0]
    assert known.marks is None and "[?]" not in str(known) + page + latex.document(known)


def test_marks_survive_json_and_frames(path):
    e = lrp.explain(lrp.load(path, vocabulary=WORDS, unknown="<unk>", pad=(5, "post", 0)), "the blorf is")
    again = lrp.Explanation.from_json(e.to_json())
    assert again.unknown == (1,) and again.padding == (3, 4) and again.tokens == e.tokens
    pytest.importorskip("pandas")
    assert e.to_frame()["mark"].tolist() == ["", "unknown", "", "padding", "padding"]


@pytest.mark.parametrize("said", [{"unknown": "<unk>"}, {"unknown": False}, {"unknown": "<unk>", "pad": (3, "pre", 0)}])
def test_corpora_keep_marks(path, tmp_path, said):
    model = lrp.load(path, vocabulary=WORDS, **said)
    texts = ["the film", "blorf the", "good", "of the blorf is"]
    found = lrp.explain_corpus(model, texts, out=tmp_path / "out", progress=False)
    for e, same in zip(found, lrp.explain_all(model, texts), strict=True):
        assert e.unknown == same.unknown and e.padding == same.padding and e.tokens == same.tokens
    assert found[1].unknown == (0 + ("pad" in said),)


def test_unknown_words_may_be_left_out(path):
    model = lrp.load(path, vocabulary=WORDS, unknown=False)
    e = lrp.explain(model, "blorf the of film", spans=[(1, 2), (1, 4)])
    same = lrp.explain(model, "the film", spans=[(0, 1), (0, 2)])
    assert e.unknown == (0, 2) and e.padding == ()
    close(e.relevance[[1, 3]], same.relevance)
    assert e.relevance[0] == e.relevance[2] == 0
    for found, expected in zip(e.spans, same.spans, strict=True):
        close(found.relevance, expected.relevance)
    with pytest.raises(lrp.LrpError, match="at least one word of the vocabulary, got none among 2"):
        lrp.predict(model, "blorf of")
    with pytest.raises(lrp.LrpError, match="must hold steps that the network sees"):
        lrp.explain(model, "blorf the", spans=[(0, 1)])


# ------------------------------------------------------------------------------------------------------------ padding

SIDES = [("pre", "pre"), ("post", "post"), ("post", "pre"), ("pre", "post")]


def filled(rows, length, side, cut, row):
    """The steps that the network gets, and how many are put before them."""
    rows = rows[-length:] if cut == "pre" else rows[:length]
    more = [row] * (length - len(rows))
    return ([*more, *rows], len(more)) if side == "pre" else ([*rows, *more], 0)


@pytest.mark.parametrize(("side", "cut"), SIDES)
@pytest.mark.parametrize("length", [2, 4, 7])
def test_padded_input_is_what_the_framework_got(path, side, cut, length):
    ids = [2, 3, 4, 5]
    wanted, _ = filled(ids, length, side, cut, 0)
    plain = lrp.load(path, vocabulary=WORDS)
    for value in (0, "<pad>")[: 1 + (length == 7)]:
        model = lrp.load(path, vocabulary=WORDS, pad=(length, side, value, cut))
        for x in ("the film is good", ["the", "film", "is", "good"], ids, plain.embedding.E[ids]):
            close(lrp.predict(model, x), lrp.predict(plain, wanted))
        for method in ("lrp-all", "cd", "occlusion-f"):
            e = lrp.explain(model, ids, method)
            close(e.relevance, lrp.explain(plain, wanted, method).relevance)
        assert e.tokens == tuple(WORDS[k] for k in wanted)
        assert e.padding == tuple(t for t, k in enumerate(wanted) if k == 0) and len(e) == length


def test_the_fourth_entry_may_be_left_out(path):
    model = lrp.load(path, vocabulary=WORDS, pad=(2, "post", 0))
    assert model.inputs["x"].pad == (2, "post", 0, "post")
    assert lrp.explain(model, "the film is").tokens == ("the", "film")


@pytest.mark.parametrize(("side", "cut"), SIDES)
def test_series_are_padded_and_keep_their_labels(rng, side, cut):
    model = network(rng)
    x = rng.normal(size=(4, 3))
    for length in (2, 6):
        wanted, before = filled(list(x), length, side, cut, np.full(3, -1.5))
        padded = lrp.Model(model.layers, inputs={"x": lrp.Input(3, pad=(length, side, -1.5, cut))})
        e, same = lrp.explain(padded, x), lrp.explain(model, np.array(wanted))
        close(e.feature_relevance, same.feature_relevance)
        close(e.values, np.array(wanted))
        assert [e.step_names[t] == "<pad>" for t in range(length)] == [t in e.padding for t in range(length)]
        assert len(e.padding) == max(0, length - 4) and ("<pad>" in str(e)) == (length == 6)
        many = lrp.explain_all(padded, [x, x[:1], x[:3]])
        close(many[0].feature_relevance, e.feature_relevance)
        assert many[1].padding == tuple(range(1, length) if side == "post" else range(length - 1))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, pandas.date_range("2024-02-27", periods=4))
    e = lrp.explain(padded, frame)
    days = ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"]
    assert list(e.step_names) == (["<pad>"] * 2 + days if before else days + ["<pad>"] * 2)
    again = lrp.Explanation.from_json(e.to_json())
    assert list(again.step_names) == list(e.step_names)
    assert "<pad>" in {label.get_text() for label in _tick_labels(plot.feature_map(e))}
    assert {*days} <= {text.get_text() for text in plot.waterfall(e, by="step").findobj(Text)}
    signals = [line for axes in every_axes(plot.series(e)) for line in axes.lines if len(line.get_ydata()) == length]
    assert len(signals) >= 3  # one for each feature
    assert "<pad>" in {label.get_text() for label in _tick_labels(plot.gates(padded, frame))}


def test_a_run_of_padding_is_one_word_of_a_sentence(path):
    model = lrp.load(path, vocabulary=WORDS, unknown="<unk>", pad=(50, "pre", 0))
    e = lrp.explain(model, "the blorf")
    short = condensed(e)
    assert short.tokens == ("<pad>×48", "the", "blorf[?]")
    close(short.relevance, [e.relevance[:48].sum(), *e.relevance[48:]])
    pictures = [html.page(e), latex.document(e), " ".join(one.get_text() for one in plot.sentence(e).axes[0].texts)]
    pictures += [str(e).split("\n\n")[1], str(lrp.compare(model, "the blorf", ["cd", "gradient"]))]
    for picture in pictures:
        assert picture.count("×48") == 1 and "blorf[?]" in picture
    one = lrp.explain(model, " ".join(["the"] * 49))
    assert condensed(one).tokens[:2] == ("<pad>", "the")
    curves = [line for axes in every_axes(plot.gates(model, "the blorf")) for line in axes.lines]
    assert len([line for line in curves if line.get_label().startswith("unit")]) >= 6


def _tick_labels(figure):
    places = [*figure.axes]
    for ax in places:
        places += ax.child_axes
    return [label for ax in places for label in ax.get_xticklabels()]


def test_padding_is_what_the_network_gets_after_scaling(rng):
    model = network(rng)
    x = rng.normal(size=(2, 3))
    scaled = lrp.Model(model.layers, inputs={"x": lrp.Input(3, pad=(4, "pre", 0.0), scaler=([1, 2, 3], [4, 5, 6]))})
    zeros = np.zeros((2, 3))
    close(lrp.predict(scaled, x * [4, 5, 6] + [1, 2, 3]), lrp.predict(model, np.concatenate([zeros, x])))


def test_padding_that_is_skipped_changes_nothing(rng):
    model = network(rng, lrp.Embedding(rng.normal(size=(6, 3)), vocabulary=WORDS, mask=0))
    port = lrp.Input(embedding=model.embedding, pad=(5, "pre", 0))
    padded = lrp.Model(model.layers, inputs={"x": port})
    e, same = (lrp.explain(m, "the film") for m in (padded, model))
    close(e.relevance, [0, 0, 0, *same.relevance])
    assert e.padding == (0, 1, 2) and e.tokens == ("<pad>", "<pad>", "<pad>", "the", "film")


def test_phrases_count_in_what_was_passed_in(path):
    plain = lrp.load(path, vocabulary=WORDS)
    model = lrp.load(path, vocabulary=WORDS, pad=(3, "pre", 0))
    (span,) = lrp.explain(model, "the film", "cd", spans=[(0, 1)]).spans
    (same,) = lrp.explain(plain, [0, 2, 3], "cd", spans=[(1, 2)]).spans
    assert (span.start, span.stop) == (1, 2)
    close(span.relevance, same.relevance)
    (span,) = lrp.explain(model, "the film is good", spans=[(0, 2)]).spans
    assert (span.start, span.stop) == (0, 1)  # the first word is cut off
    for wrong, message in (((0, 1), "that the network sees, not only padding"), ((0, 5), "stop <= 4")):
        with pytest.raises(lrp.LrpError, match=message):
            lrp.explain(model, "the film is good", spans=[wrong])


@pytest.mark.parametrize(
    ("pad", "message"),
    [
        (5, r"pad must be \(length, side, value\)"),
        ((5, "pre"), r"pad must be \(length, side, value\)"),
        ((2**40, "pre", 0), "length of pad must be at most 1,000,000"),
        ((0, "pre", 0), "length of pad must be a whole number of at least 1"),
        ((5, "left", 0), "side of pad must be one of 'pre', 'post'"),
        ((5, "pre", 6), "value of pad must be a token id from 0 to 5, got 6"),
        ((5, "pre", "<none>"), "value of pad must be one of"),
        ((5, "pre", 0.5), "value of pad must be a whole number"),
    ],
)
def test_padding_is_checked(path, pad, message):
    with pytest.raises(lrp.LrpError, match=message):
        lrp.load(path, vocabulary=WORDS, pad=pad)


def test_a_native_file_keeps_all_of_it(path, tmp_path):
    said = {
        "vocabulary": WORDS,
        "tokenizer": "keras-tokenizer",
        "classes": ["bad", "good"],
        "pad": (4, "post", 0, "pre"),
    }
    for unknown in ("<unk>", False):
        model = lrp.convert(path, tmp_path / "new.h5", overwrite=True, unknown=unknown, **said)
        again = lrp.load(tmp_path / "new.h5")
        assert again.digest == model.digest and again.inputs["x"].pad == (4, "post", 0, "pre")
        assert again.embedding.unknown == unknown and again.embedding.tokenizer == "keras-tokenizer"
        np.testing.assert_array_equal(lrp.predict(again, "Good, blorf!"), lrp.predict(model, "Good, blorf!"))
    assert "filled up to 4 steps with 0 at the end, or cut at the start" in str(lrp.inspect(tmp_path / "new.h5"))
    assert "unknown words are left out" in str(lrp.inspect(tmp_path / "new.h5"))
    isolated = lrp.load(tmp_path / "new.h5", isolate=True)
    assert isolated.digest == again.digest


# -------------------------------------------------------------------------------------------------------- two classes


@pytest.mark.parametrize("every", [False, True])
def test_one_sigmoid_explains_both_classes(rng, every):
    readout = "every" if every else "last"
    one = network(rng, output="sigmoid", readout=readout)
    two = lrp.Model(one.layers, output="sigmoid", readout=readout, classes=["bad", "good"])
    x = rng.normal(size=(5, 3))
    f = lrp.predict(one, x)
    close(lrp.predict(two, x), np.concatenate([-f, f], axis=-1))
    for method in METHODS:
        score = lrp.explain(one, x, method)
        sign = 1 if method == "gradient" else -1  # a sum of squares
        for bad, good in (("bad", "good"), (0, 1)):
            close(lrp.explain(two, x, method, target=good).relevance, score.relevance)
            close(lrp.explain(two, x, method, target=bad).relevance, sign * score.relevance)
        every_class = lrp.explain(two, x, method, target="all")
        close(every_class.for_class("bad").relevance, sign * score.relevance)
        if method == "gradient-x-input":
            close(lrp.explain(two, x, method, target="bad", versus="good").relevance, -2 * score.relevance)
    e = lrp.explain(two, x)
    p = 1 / (1 + np.exp(-score.scores[0]))
    close(e.probabilities, [1 - p, p])
    assert e.predicted == e.target == int(p > 0.5) and e.name_of(e.target) in ("bad", "good")
    close(lrp.explain(two, x, target="bad").ledger.total, -score.scores[0])
    assert len(lrp.compare(two, x, nets.every_method(two), target="bad")) == len(METHODS) - len(COSTLY)


def test_two_classes_of_a_graph_a_file_and_a_corpus(rng, tmp_path, path):
    nodes = [
        lrp.Node("classes", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("head", nets.dense(rng, 4, 1), ("classes:last",)),
    ]
    model = lrp.Model(nodes, output="sigmoid", classes=("bad", "good"))
    lrp.save(model, tmp_path / "graph.h5")
    again = lrp.load(tmp_path / "graph.h5")
    assert again.digest == model.digest and again.outputs == 2 and again.astype("float32").outputs == 2
    f = lrp.predict(lrp.load(path), [2, 3])
    two = lrp.load(path, classes=["bad", "good"], check=([2, 3], f))
    close(lrp.predict(two, [2, 3]), [-f[0], f[0]])
    with pytest.raises(lrp.WeightFileError, match="expects the scores"):
        lrp.load(path, classes=["bad", "good"], check=([2, 3], -f))
    found = lrp.explain_corpus(two, [[2, 3]], target="bad", out=tmp_path / "out", progress=False)
    assert found[0].classes == ("bad", "good") and found[0].target == 0
    close(found[0].relevance, -lrp.explain(lrp.load(path), [2, 3]).relevance, 1e-10)


def test_two_names_need_a_sigmoid(rng):
    with pytest.raises(lrp.LrpError, match="two classes, the negative one first, need output='sigmoid'"):
        network(rng, classes=("bad", "good"))
    with pytest.raises(
        lrp.LrpError, match=r"input of layer 1 .TwoClasses. must be one number, the layer 0 .LSTM. gives 4"
    ):
        lrp.Model([nets.lstm(rng, 3, 4), lrp.layers.TwoClasses()])


# ----------------------------------------------------------------------------------------------- hints, output, names


def test_every_function_takes_the_same_hints():
    every = set(hints.known())
    for function in (lrp.load, lrp.inspect, lrp.convert):
        assert every <= set(inspect.signature(function).parameters)
        assert all(f"\n{name}: " in function.__doc__ for name in every)
    assert every - set(inspect.signature(lrp.from_torch).parameters) == {"config", "custom"}
    names = {"vocabulary", "unknown", "lowercase", "tokenizer", "pad", "features", "classes", "output"}
    assert names <= set(inspect.signature(lrp.from_keras).parameters)
    for command in ("explain", "corpus", "inspect", "convert"):
        given = {"explain": [], "corpus": ["a", "b"], "inspect": ["a"], "convert": ["a", "b"]}[command]
        options = vars(parser().parse_args([command, *given]))
        assert {name for name, one in hints.known().items() if one.metadata["flag"]} <= set(options)


def test_a_hint_that_there_is_not_is_named(path):
    for function in (lrp.load, lrp.inspect):
        with pytest.raises(lrp.LrpError, match=rf"{function.__name__}: unknown hint 'vocab'; use one of which"):
            function(path, vocab=WORDS)
    with pytest.raises(lrp.LrpError, match="from_torch: unknown hint 'config'; use one of which, constants, readout"):
        lrp.from_torch({}, config="a")


def test_the_command_line_takes_words(path, tmp_path, capsys):
    from lrpnumpy.__main__ import main

    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    said = ["--vocabulary", str(tmp_path / "words.txt"), "--unknown", "<unk>", "--tokenizer", "keras", "--lowercase"]
    said += ["--pad", "5,pre,0", "--classes", "bad, good"]
    assert main(["explain", "The blorf!", "--model", str(path), *said, "--target", "bad"]) == 0
    shown = capsys.readouterr().out
    assert "<pad>×3 the blorf[?]" in shown and "why 'bad'?" in shown
    assert main(["explain", "The blorf!", "--model", str(path), *said, "--unknown", ""]) == 0
    assert "<pad>×4 the blorf[?]" in capsys.readouterr().out
    assert main(["inspect", str(path), *said]) == 0
    assert "filled up to 5 steps" in capsys.readouterr().out


def test_output_is_never_guessed(rng, tmp_path):
    lrp.save(network(rng, outputs=3, output="linear"), tmp_path / "scores.h5")
    x = rng.normal(size=(4, 3))
    assert lrp.explain(lrp.load(tmp_path / "scores.h5"), x).probabilities is None
    close(lrp.explain(lrp.load(tmp_path / "scores.h5", output="softmax"), x).probabilities.sum(), 1)
    lrp.save(network(rng, output="sigmoid"), tmp_path / "sigmoid.h5")
    with pytest.raises(lrp.WeightFileError, match="has the output 'sigmoid'; leave output out, got 'linear'"):
        lrp.load(tmp_path / "sigmoid.h5", output="linear")


def test_features_and_classes_may_be_files(rng, tmp_path):
    lrp.save(network(rng, outputs=2), tmp_path / "model.h5")
    (tmp_path / "features.txt").write_text("rain\nsnow\nheat\n")
    (tmp_path / "classes.json").write_text('["low", "high"]')
    model = lrp.load(tmp_path / "model.h5", features=tmp_path / "features.txt", classes=tmp_path / "classes.json")
    assert model.features == ("rain", "snow", "heat") and model.classes == ("low", "high")
    with pytest.raises(lrp.LrpError, match="features must have 3 names, one for each, got 2"):
        lrp.load(tmp_path / "model.h5", features=["rain", "snow"])


# ----------------------------------------------------------------------------------------------------- several inputs


def two_texts(rng):
    inputs = {
        "story": lrp.Input(embedding=lrp.Embedding(rng.normal(size=(6, 3)))),
        "question": lrp.Input(embedding=lrp.Embedding(rng.normal(size=(5, 2)))),
    }
    nodes = [
        lrp.Node("one", nets.lstm(rng, 3, 4), ("story",)),
        lrp.Node("other", nets.gru(rng, 2, 3), ("question",)),
        lrp.Node("both", lrp.layers.Concat(), ("one:last", "other:last")),
        lrp.Node("head", nets.dense(rng, 7, 2), ("both",)),
    ]
    return lrp.Model(nodes, inputs=inputs)


RECORDS = [
    {"story": "the film is good", "question": "who éte blorf"},
    {"story": "film", "question": "who who"},
    {"story": "the blorf", "question": "what"},
]


@pytest.fixture
def texts(rng, tmp_path):
    lrp.save(two_texts(rng), tmp_path / "two.h5")
    words = {"story": WORDS, "question": ["<unk>", "who", "what", "éte", "ok"]}
    pad = {"question": (3, "post", 4)}
    return lrp.load(tmp_path / "two.h5", vocabulary=words, unknown={"story": "<unk>", "question": 0}, pad=pad)


@pytest.mark.parametrize("target", [None, "all"])
@pytest.mark.parametrize("method", ["lrp-all", "cd"])
def test_corpora_keep_the_words_of_every_input(texts, tmp_path, method, target):
    output = lrp.Output(tmp_path / "out", chunk=2)
    found = lrp.explain_corpus(texts, RECORDS, method, target, out=output, progress=False)
    explained = lrp.explain_all(texts, RECORDS, method, target, unit="step")
    for e, same in zip(found, explained, strict=True):
        assert e.inputs.keys() == same.inputs.keys() == {"story", "question"}
        for name, part in e.inputs.items():
            assert part.tokens == same.inputs[name].tokens and part.tokens
            np.testing.assert_array_equal(part.marks, same.inputs[name].marks)
            close(part.relevance, same.inputs[name].relevance, 1e-10)
    assert found[0].inputs["question"].tokens == ("who", "éte", "blorf")
    assert found[1].inputs["question"].tokens == ("who", "who", "<pad>")
    assert found[2].unknown == (1,) and found[0].of_input("question").unknown == (2,)
    assert found[2].of_input("question").padding == (1, 2)
    if target is None:
        assert "blorf[?]" in str(found[0])
    found.export(tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert lrp.Explanation.from_json(lines[0]).inputs["question"].tokens == ("who", "éte", "blorf")


def test_frames_and_json_of_several_inputs(texts):
    pytest.importorskip("pandas")
    e = lrp.explain(texts, RECORDS[0], unit="feature")
    frame = e.to_frame()
    assert frame["input"].tolist() == ["story"] * 4 + ["question"] * 3
    assert frame["token"].tolist() == ["the", "film", "is", "good", "who", "éte", "blorf"]
    assert frame["mark"].tolist()[4:] == ["", "", "unknown"]
    close(frame["relevance"].to_numpy(), np.concatenate([part.relevance for part in e.inputs.values()]))
    again = lrp.Explanation.from_json(e.to_json())
    for name, part in e.inputs.items():
        assert again.inputs[name].tokens == part.tokens and again.inputs[name].features == part.features
        np.testing.assert_array_equal(again.inputs[name].feature_relevance, part.feature_relevance)
    assert again.to_frame().equals(frame)


def test_the_page_about_words_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "words.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    assert len(blocks) == 3 and "<pad>×4 the film" in capsys.readouterr().out
    for row in re.findall(r'^\| `"(\S+)"`.* \| (.*) \|$', page, re.MULTILINE):
        assert ", ".join(text.tokens("It isn't well-made.", row[0])) == row[1]
    assert all(f"`{name}=" in page for name in ("vocabulary", "unknown", "lowercase", "tokenizer", "pad", "output"))


@pytest.mark.parametrize("readout", ["last", "every"])
def test_two_classes_keep_the_laws_of_every_network(rng, tmp_path, readout):
    layers = [nets.lstm(rng, 3, 4), nets.dense(rng, 4, 1)]
    model = lrp.Model(layers, readout=readout, output="sigmoid", classes=("bad", "good"))
    laws.hold(model, [rng.normal(size=(T, 3)) for T in (5, 2, 4)], rng, tmp_path)
