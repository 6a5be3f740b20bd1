"""An example and related names for each public function, shown in the reference (docs/reference.py).

`tests/project/test_api.py` runs every example, after SETUP. A key is what users write before the parenthesis.
"""

SETUP = """
import numpy as np
import lrpnumpy as lrp
from lrpnumpy import evaluate
from lrpnumpy.show import html, latex

rng = np.random.default_rng(0)
words = lrp.load("sentiment-2")
vowels = lrp.load("vowels")
text = "A moving film with a great cast."
series = [rng.normal(size=(10, 12)) for _ in range(6)]
"""

EXAMPLES = {
    "lrp.explain": """
e = lrp.explain(words, text, target="positive")
print(e.score, e.top(2), e.evidence())
""",
    "lrp.explain_all": """
many = lrp.explain_all(vowels, series, "deeplift", unit="feature")
print(len(many), many[0].feature_relevance.shape)
""",
    "lrp.explain_windows": """
windows = lrp.explain_windows(vowels, rng.normal(size=(40, 12)), target=0, length=20, stride=10)
print(len(windows), windows.scores.shape)
""",
    "lrp.compare": """
print(lrp.compare(words, text, ["lrp-all", "deeplift"]))
""",
    "lrp.counterfactual": """
result = lrp.counterfactual(words, "A dull film.", "positive")
print(result.changes)
""",
    "lrp.decompose": """
e = lrp.explain(vowels, series[0], "deeplift", unit="feature")
parts = lrp.decompose(e, periods=(4,), by="part")
print(parts.features, parts.feature_relevance.sum(axis=0))
""",
    "lrp.methods": """
print([method.name for method in lrp.methods()])
""",
    "lrp.cite": """
lrp.cite("deeplift")
""",
    "lrp.evidence": """
e = lrp.Explanation.from_json(lrp.explain(words, text).to_json())    # read from a file, so without its model
print(lrp.evidence(words, text, e))
""",
    "lrp.predict": """
print(lrp.predict(words, text))
""",
    "lrp.predict_all": """
print(lrp.predict_all(vowels, series).shape)
""",
    "lrp.trace": """
print({name: values.shape for name, values in lrp.trace(vowels, series[0]).items()})
""",
    "lrp.reconstruction_error": """
error = lrp.reconstruction_error(lrp.load("pump"))
print(lrp.predict(error, np.zeros((24, 3))))
""",
    "lrp.check_cell": """
print(lrp.check_cell(lrp.layers.MinGRU).holds)
""",
    "lrp.back_through_sum": """
from lrpnumpy.rules.propagation import back_through_sum    # see the class Scale in docs/howto/extend.md
print(back_through_sum.__doc__.splitlines()[0])
""",
    "lrp.load": """
model = lrp.load("sentiment-2", isolate=True)    # or the path of a weight file
print(model)
""",
    "lrp.sample": """
weather = lrp.sample("river")
print(weather.features, weather.labels[0], weather.values.shape)
""",
    "lrp.save": """
lrp.save(vowels, "vowels-copy.h5", overwrite=True)
""",
    "lrp.inspect": """
lrp.save(vowels, "vowels-copy.h5", overwrite=True)
print(lrp.inspect("vowels-copy.h5"))
""",
    "lrp.convert": """
lrp.save(vowels, "vowels-copy.h5", overwrite=True)
lrp.convert("vowels-copy.h5", "native.h5", overwrite=True)
""",
    "lrp.from_torch": """
# import torch
# model = lrp.from_torch(torch.nn.GRU(3, 8, batch_first=True), readout="last")
arrays = {"weight_ih_l0": np.ones((24, 3)), "weight_hh_l0": np.ones((24, 8)) / 8, "bias_ih_l0": np.zeros(24),
          "bias_hh_l0": np.zeros(24)}
model = lrp.from_torch(arrays, readout="last")    # the arrays of a state_dict work, too
print(lrp.predict(model, np.ones((5, 3))).shape)
""",
    "lrp.from_keras": """
# import keras
# network = keras.Sequential([keras.Input((None, 5)), keras.layers.GRU(8), keras.layers.Dense(2)])
# model = lrp.from_keras(network, classes=["usual", "odd"])
""",
    "lrp.explain_bag": """
import dask.bag
bag = dask.bag.from_sequence(["A moving film.", "It isn't funny."])
print(lrp.explain_bag(words, bag).compute(scheduler="sync"))
""",
    "lrp.explain_corpus": """
stored = lrp.explain_corpus(words, ["A moving film.", "It isn't funny."], out="explained")
print(len(stored), stored.rejected)
""",
    "lrp.explain_partition": """
from lrpnumpy.corpus import explain_partition
print(explain_partition(["A moving film."], words))
""",
    "lrp.open_explanations": """
lrp.explain_corpus(words, ["A moving film.", "It isn't funny."], out="opened")
print(lrp.open_explanations("opened")[0])
""",
    "evaluate.rank_methods": """
ranking = lrp.rank_methods(vowels, series, ["lrp-all", "random"], measures=["removal"], unit="step")
print(ranking.advice)
""",
    "lrp.plot.bars": """
lrp.plot.bars(lrp.explain_all(vowels, series, target=0, unit="feature")).savefig("bars.png")
""",
    "lrp.plot.beeswarm": """
lrp.plot.beeswarm(lrp.explain_all(vowels, series, target=0, unit="feature")).savefig("beeswarm.png")
""",
    "lrp.plot.counterfactual": """
lrp.plot.counterfactual(lrp.counterfactual(words, "A dull film.", "positive")).savefig("counterfactual.png")
""",
    "lrp.plot.feature_map": """
lrp.plot.feature_map(lrp.explain(vowels, series[0], unit="feature")).savefig("map.png")
""",
    "lrp.plot.gates": """
lrp.plot.gates(vowels, series[0], units=[0, 1]).savefig("gates.png")
""",
    "lrp.plot.heatmap": """
lrp.plot.heatmap(lrp.explain_all(vowels, series, target=0, unit="feature")).savefig("heatmap.png")
""",
    "lrp.plot.interactions": """
e = lrp.explain(vowels, series[0], lrp.Shapley(players=4, order=2))
lrp.plot.interactions(e).savefig("interactions.png")
""",
    "lrp.plot.horizons": """
lrp.plot.horizons(lrp.explain(vowels, series[0], target="all")).savefig("horizons.png")
""",
    "lrp.plot.ledger": """
lrp.plot.ledger(lrp.explain(words, text)).savefig("ledger.png")
""",
    "lrp.plot.memory": """
lrp.plot.memory(lrp.explain_all(vowels, series, target=0)).savefig("memory.png")
""",
    "lrp.plot.sentence": """
lrp.plot.sentence(lrp.explain(words, text)).savefig("sentence.png")
""",
    "lrp.plot.series": """
lrp.plot.series(lrp.explain(vowels, series[0], unit="feature")).savefig("series.png")
""",
    "lrp.plot.waterfall": """
lrp.plot.waterfall(lrp.explain(words, text)).savefig("waterfall.png")
""",
    "lrp.write_page": """
lrp.write_page("page.html", lrp.explain_all(words, [text, "A dull film."]))
""",
    "html.page": """
page = html.page([lrp.explain(words, text)], heading="Why?")
print(len(page))
""",
    "latex.document": """
print(latex.document(lrp.explain(words, text))[:40])
""",
    "latex.table": """
print(latex.table(lrp.compare(words, text, ["lrp-all", "deeplift"]))[:40])
""",
}

# Related functions, and the page of the documentation about the subject.
SEE_ALSO = {
    "lrp.explain": ("explain_all", "explain_windows", "compare", "../trust.md"),
    "lrp.explain_all": ("explain", "../series.md"),
    "lrp.explain_windows": ("explain_all", "../series.md"),
    "lrp.compare": ("explain", "../concepts/disagree.md"),
    "lrp.counterfactual": ("explain", "../howto/counterfactual.md"),
    "lrp.decompose": ("explain", "../howto/parts.md"),
    "lrp.methods": ("cite", "../methods.md"),
    "lrp.cite": ("methods", "../license.md"),
    "lrp.evidence": ("../concepts/evidence.md",),
    "lrp.predict": ("predict_all", "trace"),
    "lrp.predict_all": ("predict",),
    "lrp.trace": ("predict", "../pictures.md"),
    "lrp.reconstruction_error": ("../layers/reconstruction.md",),
    "lrp.check_cell": ("../howto/extend.md",),
    "lrp.back_through_sum": ("../howto/extend.md",),
    "lrp.load": ("inspect", "save", "from_torch", "from_keras", "../files.md"),
    "lrp.sample": ("load", "../series.md"),
    "lrp.save": ("load", "../format.md"),
    "lrp.inspect": ("load", "../files.md"),
    "lrp.convert": ("load", "save", "../files.md"),
    "lrp.from_torch": ("load", "../start/pytorch.md"),
    "lrp.from_keras": ("load", "../start/keras.md"),
    "lrp.explain_corpus": ("open_explanations", "../corpora.md"),
    "lrp.open_explanations": ("explain_corpus", "../corpora.md"),
    "lrp.explain_bag": ("explain_corpus", "../corpora.md"),
    "lrp.explain_partition": ("explain_bag", "../corpora.md"),
    "evaluate.rank_methods": ("../trust.md",),
    "lrp.write_page": ("../page.md",),
    "html.page": ("../howto/share.md",),
    "latex.document": ("table", "../howto/share.md"),
    "latex.table": ("document", "../howto/share.md"),
}
