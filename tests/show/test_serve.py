"""The live page, without a browser: who is let in, what is answered, and how fast."""

import base64
import dataclasses
import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from serving import Live, served

import lrpnumpy as lrp
from lrpnumpy.series import read_csv
from lrpnumpy.serve import answers, door, worker

ROOT = Path(__file__).parents[2]
TEXT = "This isn't a good movie."


@pytest.fixture(scope="module")
def live():
    with served() as found:
        yield found


def array(one):
    """What the page makes of an array of a payload."""
    return np.frombuffer(base64.b64decode(one["base64"]), f"<{one['dtype']}").reshape(one["shape"])


# -- who is let in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "listens", "is_own"),
    [
        ("127.0.0.1:8000", "127.0.0.1", True),
        ("localhost:8000", "127.0.0.1", True),
        ("LOCALHOST:8000", "127.0.0.1", True),
        ("[::1]:8000", "127.0.0.1", True),
        ("127.0.0.1:8001", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", False),
        ("evil.example:8000", "127.0.0.1", False),
        ("127.0.0.1.evil.example:8000", "127.0.0.1", False),
        ("evil.example@127.0.0.1:8000", "127.0.0.1", False),
        ("192.168.1.5:8000", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        (":8000", "127.0.0.1", False),
        ("192.168.1.5:8000", "0.0.0.0", True),
        ("box.local:8000", "box.local", True),
        ("evil.example:8000", "0.0.0.0", False),
    ],
)
def test_a_host_is_ours_or_refused(host, listens, is_own):
    head = door.parsed(f"GET / HTTP/1.1\r\nHost: {host}\r\nX-Lrpnumpy-Token: t\r\n\r\n".encode())
    if is_own:
        door.Door("t", listens, 8000).check(head)
    else:
        with pytest.raises(door.Refusal, match="Host"):
            door.Door("t", listens, 8000).check(head)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        "GET /ü HTTP/1.1\r\n\r\n".encode(),
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        b"GET /?" + b"a=1&" * 20 + b" HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_a_head_that_is_not_plain_is_refused(head):
    with pytest.raises(door.Refusal) as refusal:
        door.parsed(head)
    assert refusal.value.status == 400


def test_the_bucket_fills_up_again():
    limits = door.Limits(rate=10, burst=3)
    bucket = door.Bucket(limits, 0.0)
    for _ in range(3):
        bucket.take(0.0)
    with pytest.raises(door.Refusal) as refusal:
        bucket.take(0.05)
    assert refusal.value.status == 429
    bucket.take(0.2)
    for _ in range(3):
        bucket.take(1000.0)
    with pytest.raises(door.Refusal):
        bucket.take(1000.0)


def test_the_page_has_a_policy_and_its_headers(live):
    found = live.get(f"/?token={live.token}", token="")
    assert found.status == 200 and found.body.startswith(b"<!doctype html>")
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    for name, value in {
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "deny",
        "cache-control": "no-store",
        "cross-origin-resource-policy": "same-origin",
    }.items():
        assert found.headers[name] == value
    assert not re.search(rb"""(src|href)\s*=\s*["']?(https?:)?//""", found.body)


def test_refusals_have_a_status_and_a_sentence(live):
    assert live.get(token="wrong").status == 403
    assert live.get(token="").status == 403
    assert live.get("/nothing").status == 404
    assert live.get("/explain").status == 405
    assert live.get(Host="evil.example").status == 403
    good = {"text": TEXT}
    assert live.post(good, Origin="http://evil.example").status == 403
    assert live.post(good, Origin="null").status == 403
    assert live.post(good, Origin=f"http://{live.host}:{live.port}").status == 200
    assert live.post(good, Content_Type="text/plain").status == 415
    assert live.post(good, Content_Length=None).status == 411
    assert live.post(good, Content_Length=2 << 20).status == 413
    found = live.post({"text": TEXT, "methods": ["magic"]})
    assert found.status == 200 and "unknown method 'magic'" in found.json["error"]
    assert live.get().status == 200


# -- what is answered ----------------------------------------------------------------------------------------


def test_an_answer_is_the_explanation(live, sentiment):
    found = live.post({"text": TEXT, "methods": ["lrp-abs", "cd"], "options": {"eps": 0.1}, "phrase": [0, 3]}).json
    expected = lrp.explain(sentiment, TEXT, "lrp-abs", "all", eps=0.1)
    page = found["page"]
    np.testing.assert_allclose(array(page["methods"][0]["inputs"][0]["relevance"]), expected.relevance, rtol=1e-5)
    np.testing.assert_allclose(array(page["scores"])[0], expected.scores, rtol=1e-5)
    assert [one["method"] for one in page["methods"]] == ["lrp-abs", "cd"]
    assert found["tokens"] == list(expected.tokens) and found["predicted"] == expected.predicted
    phrase = lrp.explain(sentiment, TEXT, "cd", "all", spans=[(0, 3)]).spans[0]
    assert found["phrase"]["start"] == 0 and found["phrase"]["stop"] == 3
    np.testing.assert_allclose(found["phrase"]["scores"], phrase.relevance, rtol=1e-5)


def test_a_sentence_is_answered_at_once(live):
    """About 15 ms on an idle machine; a process that is started, or a model that is read anew, takes a second."""
    live.post({"text": TEXT})
    seconds = []
    for word in ("good", "bad", "fine", "dull", "great", "odd", "long", "short", "nice"):
        start = time.perf_counter()
        assert live.post({"text": f"This isn't a {word} movie, and it isn't funny at all."}).status == 200
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.25, seconds


@pytest.mark.parametrize("method", lrp.methods(), ids=lambda one: one.name)
def test_every_method_has_an_answer_for_words_and_numbers(method, sentiment, river):
    found = answers.answer(sentiment, {"text": TEXT, "methods": [method.name]})
    assert found["page"]["methods"][0]["method"] == method.name
    short = {"values": np.ones((3, 5)).tolist(), "methods": [method.name]}
    if method.name == "occlusion-p":
        with pytest.raises(lrp.LrpError, match="probabilities"):
            answers.answer(river, short)
    else:
        assert answers.answer(river, short)["values"] == short["values"]


def test_the_facts_name_every_method_and_option(sentiment, river):
    facts = answers.facts(sentiment, "sentiment", {})
    assert [one["name"] for one in facts["methods"]] == [one.name for one in lrp.methods()]
    options = {one["name"]: {o["name"]: o for o in one["options"]} for one in facts["methods"]}
    assert options["lrp-all"]["eps"]["default"] == 0.001 and options["lrp-all"]["eps"]["kind"] == "number"
    assert options["lrp-all"]["attention"]["choices"] == ["fixed", "attnlrp"]
    assert options["occlusion-f"]["reference"]["kind"] == "text" and "sums" not in options["lrp-all"]
    assert facts["kind"] == "words" and answers.facts(river, "river", {})["kind"] == "series"
    assert "occlusion-p" not in [one["name"] for one in answers.facts(river, "river", {})["methods"]]
    json.dumps(facts)


def test_a_counterfactual_on_request(sentiment, river):
    found = answers.answer(sentiment, {"text": TEXT, "counterfactual": True})
    assert answers.answer(sentiment, {"text": TEXT})["counterfactual"] is None
    changed = answers.answer(sentiment, found["counterfactual"]["input"])
    assert changed["predicted"] != found["predicted"] and found["counterfactual"]["changes"]
    start = answers.example(river, "river")
    moved = answers.answer(river, {**start, "counterfactual": True})["counterfactual"]
    assert "mm → discharge" in moved["headline"] and len(moved["input"]["values"]) == 365


@pytest.mark.parametrize("name", ["river", "vowels"])
def test_the_example_is_one_of_the_data_that_the_examples_have(name):
    given = read_csv((ROOT / "weights" / f"{name}.csv").read_text("utf-8"))
    folder = {"river": ROOT / "weights" / "sample-river.csv", "vowels": ROOT / "examples" / "vowels.csv"}
    whole = read_csv(folder[name].read_text("utf-8"))
    places = [whole.features.index(one) for one in given.features]
    rows = {row.tobytes() for row in whole.values[:, places].copy()}
    assert all(row.tobytes() in rows for row in given.values.copy())
    model = lrp.load(name)
    found = answers.answer(model, answers.example(model, name))
    assert np.shape(found["values"]) == given.values.shape


@pytest.mark.parametrize("name", ["pump", "sentiment"])
def test_there_is_an_example_for_a_model_without_data(name):
    model = lrp.load(name)
    assert answers.answer(model, answers.example(model, ""))["page"]["numbers"] == [0]


def test_a_series_may_be_pasted_in_many_forms():
    plain = "1,2\n3,4\n"
    for text in (
        plain,
        "a,b\n1,2\n3,4",
        "1;2\n3;4",
        "1\t2\r\n3\t4\r\n",
        "1 2\n3   4",
        "\ufeffdate,a,b\n2020-01-01,1,2\n2020-01-02,3,4",
        "2020-01-01 12:00,1,2\n2020-01-01 13:00,3,4",
        '"a","b"\n"1","2"\n"3","4"',
        "1,0;2,0\n3,0;4,0",
    ):
        found = read_csv(text)
        assert found.values.tolist() == [[1, 2], [3, 4]], text
    assert read_csv("date,a\n2020-01-01,1\n2020-01-02,2").labels.dtype.kind == "M"
    assert read_csv("day,a\nmonday,1\ntuesday,2").labels.tolist() == ["monday", "tuesday"]
    assert read_csv("a,b\n1,2\n3,4").features == ("a", "b")
    assert read_csv(plain).features is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("a,b", "must have numbers, got 'b' in row 1"),
        ("1,2\n3", "as many cells in each row"),
        ("a,b\n1,2\nx,4", "'x' in row 2"),
        ("1," * 999 + "1\n" + ("1," * 999 + "1\n") * 300, "at most 200,000"),
    ],
)
def test_a_series_that_is_none_is_refused(text, message):
    with pytest.raises(lrp.LrpError, match=re.escape(message)):
        read_csv(text, 200_000)


def test_columns_are_found_by_name_or_by_order(river):
    names = river.features
    rows = np.arange(15.0).reshape(3, 5)
    lines = [",".join(map(str, row)) for row in rows]
    backwards = [",".join(map(str, row[::-1])) for row in rows]
    one = answers.answer(river, {"csv": "\n".join([",".join(names), *lines])})
    other = answers.answer(river, {"csv": "\n".join([",".join(names[::-1]), *backwards])})
    bare = answers.answer(river, {"csv": "\n".join(lines)})
    assert one["values"] == other["values"] == bare["values"] == rows.tolist()
    with pytest.raises(lrp.LrpError, match="must have the columns"):
        answers.answer(river, {"csv": "\n".join([",".join(["rain", *names[1:]]), *lines])})


@pytest.mark.parametrize(
    "question",
    [
        [],
        "text",
        {},
        {"text": "a", "values": [[1]]},
        {"text": 1},
        {"text": ""},
        {"text": "a " * 501},
        {"text": "a" * 20_001},
        {"text": "a", "path": "/etc/passwd"},
        {"text": "a", "methods": "lrp-all"},
        {"text": "a", "methods": []},
        {"text": "a", "methods": [["cd"]]},
        {"text": "a", "methods": ["cd", "cd"]},
        {"text": "a", "methods": ["shapley"], "options": {"players": 10**6}},
        {"text": "a", "methods": ["shapley"], "options": {"players": "no"}},
        {"text": "a", "methods": ["integrated-gradients"], "options": {"nodes": 10**9}},
        {"text": "a", "methods": ["integrated-gradients"], "options": {"nodes": 1.5}},
        {"text": "a", "options": {"eps": -1}},
        {"text": "a", "options": {"eps": [1]}},
        {"text": "a", "options": {"eps": "x"}},
        {"text": "a", "options": {"hidden": 1}},
        {"text": "a", "options": 1},
        {"text": "a", "phrase": [0, 2]},
        {"text": "a", "phrase": "ab"},
        {"text": "a", "phrase": {}},
        {"text": "a", "step": 1},
        {"values": [[1.0] * 60] * 2001},
        {"values": [[1.0] * 59]},
        {"values": []},
        {"values": [[]]},
        {"values": [[1], [1, 2]]},
        {"values": [[None] * 60]},
        {"values": [["1"] * 60], "features": [1]},
        {"values": [[1.0] * 60], "labels": ["a", "b"]},
        {"values": 10**400},
        {"csv": "a,b"},
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_question_that_makes_no_sense_is_an_error_in_one_sentence(question, sentiment):
    with pytest.raises(lrp.LrpError) as error:
        answers.answer(sentiment, question)
    assert len(str(error.value)) < 3000


@pytest.mark.parametrize("values", [[], [[]], [[1], [1, 2]], [["a"] * 60], [[[1.0] * 60]]])
def test_values_that_are_no_series_are_refused_in_words_of_the_page(values, sentiment):
    with pytest.raises(lrp.LrpError, match=r"values must be a list of steps with as many numbers each, got \["):
        answers.answer(sentiment, {"values": values})


def test_a_number_that_is_missing_has_a_place(river):
    values = np.ones((30, river.input_size)).tolist()
    values[2][0] = None
    with pytest.raises(lrp.LrpError, match=r"must be finite, got nan at index \[2, 0\]"):
        answers.answer(river, {"values": values})


def test_of_many_classes_one_is_explained_at_a_time(rng):
    def draw(*shape):
        return rng.normal(size=shape)

    many = lrp.Model([lrp.LSTM(draw(4, 3, 2), draw(4, 3, 3), draw(4, 3)), lrp.Dense(draw(20, 3), draw(20))])
    question = {"values": [[1.0, 2.0], [0.5, -1.0]]}
    found = answers.answer(many, question)
    assert found["page"]["methods"][0]["targets"].tolist() == [found["predicted"]]
    assert answers.answer(many, {**question, "target": 7})["page"]["methods"][0]["targets"].tolist() == [7]
    assert not answers.facts(many, "many", {})["every_class"]
    with pytest.raises(lrp.LrpError, match="from 0 to 19"):
        answers.answer(many, {**question, "target": 20})


def test_padding_is_no_word_to_edit(sentiment):
    padded = dataclasses.replace(
        sentiment, embedding=None, inputs={"x": dataclasses.replace(sentiment.inputs["x"], pad=(6, "pre", 0))}
    )
    found = answers.answer(padded, {"text": "not funny", "phrase": [0, 1]})
    assert found["tokens"] == ["not", "funny"] and found["positions"] == [4, 5] and found["phrase"]["start"] == 4


def test_a_model_that_the_page_cannot_show_is_refused():
    with pytest.raises(lrp.LrpError, match="one input"):
        answers.check_model(lrp.load("reverse"))


class Asked:
    """Lines for the child; where there are no more, it is idle until it has nothing to prepare, and then it ends."""

    def __init__(self, *questions):
        self.lines = [one if isinstance(one, str) else json.dumps(one) for one in questions]

    def get(self, timeout=None):
        if self.lines:
            return self.lines.pop(0)
        raise EOFError if timeout is None else queue.Empty


def test_the_child_answers_line_by_line_and_prepares_every_method_while_nobody_asks(monkeypatch):
    monkeypatch.setattr(worker, "START", 1)  # kernels that other tests have asked for may never be compiled here
    out, start = io.StringIO(), {"model": "vowels", "hints": {}}
    with pytest.raises(EOFError):
        worker.work(Asked(start, {"values": [[0.5] * 12] * 3}, {"text": 5}, "no JSON"), out)
    facts, found, wrong, broken, *progress = map(json.loads, out.getvalue().splitlines())
    assert facts["model"] == "vowels" and facts["warnings"] == [] and len(facts["first"]["values"][0]) == 12
    assert found["values"] == [[0.5] * 12] * 3 and "text" in wrong["error"] and "JSONDecodeError" in broken["internal"]
    cheap = [one["name"] for one in facts["methods"] if not one["costly"]]
    assert [one["progress"]["name"] for one in progress] == [*sorted(cheap, key=lambda one: one != "deeplift"), ""]


def test_the_child_says_that_a_model_cannot_be_opened():
    out = io.StringIO()
    worker.work(Asked({"model": "nosuchmodel", "hints": {}}), out)
    assert "nosuchmodel" in json.loads(out.getvalue())["error"]


def test_a_model_that_is_not_there_is_an_error_of_one_line():
    with pytest.raises(lrp.LrpError, match="nosuchmodel"), served("nosuchmodel"):
        pass


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal")
def test_the_command_serves_until_ctrl_c():
    command = [sys.executable, "-m", "lrpnumpy", "serve", "vowels"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(5)]
        live = Live(lines[2].strip(), None)
        assert live.host == "127.0.0.1" and len(live.token) >= 32
        with live.connect():  # a connection that stays open keeps nobody
            assert live.get().status == 200
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "Ctrl-C" in lines[4] and out == ""
    assert errors == "lrpnumpy: interrupted\n"  # and nothing besides: no traceback
    with pytest.raises(ConnectionRefusedError):
        live.connect()
