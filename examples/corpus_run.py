"""A whole corpus: explain every line of a file, see what was rejected, and find the words that decide most.

Run with: python examples/corpus_run.py [FOLDER]. The same from a shell:
    python -m lrpnumpy corpus reviews.txt.gz reviews --target "very positive" --export reviews.csv
"""

import gzip
import itertools
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import lrpnumpy as lrp

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())

# A file of 960 reviews, one per line, and two lines that cannot be explained.
parts = (
    ["This film", "The story", "The acting", "Every scene"],
    ["is", "is not", "is hardly", "was rather"],
    ["charming", "a mess", "moving", "dull", "a masterpiece"],
    ["from start to finish", "at times", "and nobody cares"],
    [".", "!", ", I thought .", ", they say ."],
)
reviews = [" ".join(words) for words in itertools.product(*parts)]
lines = [*(review.encode() for review in reviews), b"", b"\xff\xfe not text"]
(folder / "reviews.txt.gz").write_bytes(gzip.compress(b"\n".join(lines), mtime=0))  # the same bytes every time

# Run this again after a crash: it computes the missing parts.
model = lrp.load("sentiment")
output = lrp.Output(folder / "reviews", chunk=256)
explanations = lrp.explain_corpus(model, folder / "reviews.txt.gz", target="very positive", out=output)
print(f"{len(explanations)} of {explanations.records} explained, {explanations.rejected} rejected:")
print(explanations.rejected_path.read_text())

# The folder is read on demand: one explanation, or one after another.
print(explanations[0])
found = defaultdict(list)
for explanation in explanations:
    for word, relevance in zip(explanation.tokens, explanation.relevance, strict=True):
        found[word.lower()].append(float(relevance))
explanations.export(folder / "reviews.csv", overwrite=True)

means = sorted(((sum(values) / len(values), word) for word, values in found.items()), reverse=True)
print("words that support 'very positive' most:", ", ".join(f"{word} {mean:+.2f}" for mean, word in means[:5]))
print("and contradict it most:", ", ".join(f"{word} {mean:+.2f}" for mean, word in means[:-6:-1]))
print(f"wrote {folder / 'reviews'} and {folder / 'reviews.csv'}")
