"""Results to make pages of, and what a page has in it: shared by the tests of pages."""

import base64
import json
import re

import numpy as np

import lrpnumpy as lrp

HOSTILE = [
    "</script><script>hostile()</script>",
    "<img src=x onerror=hostile()>",
    "<!--",
    '"><b>bold</b>&amp;',
    "\u202egnp.exe",
    "\ud800",
    "__proto__",
    "@@payload@@",
]


def text_model(classes=("bad", "so so", "good"), words=None, rng=None):
    """A small network of words."""
    rng = rng or np.random.default_rng(5)
    words = words or [f"w{k}" for k in range(30)]
    H, D, C = 4, 5, len(classes)
    return lrp.Model(
        [
            lrp.LSTM(rng.normal(size=(4, H, D)), rng.normal(size=(4, H, H)), rng.normal(size=(4, H))),
            lrp.Dense(3 * rng.normal(size=(C, H)), rng.normal(size=C)),
        ],
        embedding=lrp.Embedding(rng.normal(size=(len(words) + 1, D)), [*words, "[UNK]"], unknown="[UNK]"),
        classes=tuple(classes),
    )


def sentences(count, rng, words=30):
    """Lists of words, of one to nine of them."""
    return [[f"w{k}" for k in rng.integers(words + 2, size=rng.integers(1, 10))] for _ in range(count)]


def arrays(value, blocks):
    """The payload of a page with its arrays decoded, by a few lines of our own."""
    if isinstance(value, dict) and {"dtype", "shape"} <= value.keys():
        data = base64.b64decode(blocks[value["block"]] if "block" in value else value["base64"])
        return np.frombuffer(data, f"<{value['dtype']}").reshape(value["shape"])
    if isinstance(value, dict):
        return {key: arrays(part, blocks) for key, part in value.items()}
    return [arrays(part, blocks) for part in value] if isinstance(value, list) else value


def payload_in(text):
    """The payload in the text of a page."""
    blocks = re.findall(r'<script type="application/octet-stream" id="block-\d+">(.*?)</script>', text)
    head = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL).group(1)
    return arrays(json.loads(head), blocks)
