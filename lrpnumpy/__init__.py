"""Explain the decisions of trained recurrent networks, from a weight file, without a deep-learning framework."""

from lrpnumpy import interrupt as _interrupt  # isort: skip  # noqa: F401  # first: from here on Ctrl-C is one line

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lrpnumpy import layers, rules
from lrpnumpy.checks import AssumptionWarning, LrpError, RelevanceWarning, WeightFileError
from lrpnumpy.cite import cite
from lrpnumpy.counterfactual import Counterfactual, counterfactual
from lrpnumpy.evidence import evidence
from lrpnumpy.explain import compare, explain, explain_all
from lrpnumpy.files import convert, inspect, load, sample, save
from lrpnumpy.inputs import Input
from lrpnumpy.layers import (
    GRU,
    LSTM,
    RNN,
    Bidirectional,
    Cell,
    Dense,
    Embedding,
    Layer,
)
from lrpnumpy.methods import (
    CD,
    LRP,
    DeepLIFT,
    Gradient,
    IntegratedGradients,
    Method,
    Occlusion,
    Shapley,
    methods,
)
from lrpnumpy.model import Model, Node
from lrpnumpy.parts import decompose
from lrpnumpy.predict import predict, predict_all, trace
from lrpnumpy.protocol import Comparison
from lrpnumpy.reconstruction import reconstruction_error
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.rules import Rule
from lrpnumpy.tables import Table
from lrpnumpy.verdict import Evidence
from lrpnumpy.windows import explain_windows

if TYPE_CHECKING:
    from lrpnumpy.corpus import Corpus, Output, explain_bag, explain_corpus, open_explanations
    from lrpnumpy.evaluate import rank_methods
    from lrpnumpy.exchange import Attribution
    from lrpnumpy.files.keras.live import from_keras
    from lrpnumpy.files.torch.live import from_torch
    from lrpnumpy.laws import check_cell
    from lrpnumpy.page import write_page
    from lrpnumpy.show import plot

__version__ = "0.3.0"

__all__ = [
    "CD",
    "GRU",
    "LRP",
    "LSTM",
    "RNN",
    "AssumptionWarning",
    "Attribution",
    "Bidirectional",
    "Cell",
    "Comparison",
    "Corpus",
    "Counterfactual",
    "DeepLIFT",
    "Dense",
    "Embedding",
    "Evidence",
    "Explanation",
    "Gradient",
    "Input",
    "InputPart",
    "IntegratedGradients",
    "Layer",
    "LrpError",
    "Method",
    "Model",
    "Node",
    "Occlusion",
    "Output",
    "RelevanceWarning",
    "Rule",
    "Shapley",
    "Table",
    "WeightFileError",
    "check_cell",
    "cite",
    "compare",
    "convert",
    "counterfactual",
    "decompose",
    "evidence",
    "explain",
    "explain_all",
    "explain_bag",
    "explain_corpus",
    "explain_windows",
    "from_keras",
    "from_torch",
    "inspect",
    "layers",
    "load",
    "methods",
    "open_explanations",
    "plot",
    "predict",
    "predict_all",
    "rank_methods",
    "reconstruction_error",
    "rules",
    "sample",
    "save",
    "trace",
    "write_page",
]


# What is for corpora, pictures, pages, evaluation and live networks is loaded when it is first asked for: the import
# stays light.
_LATER = {
    "Attribution": "lrpnumpy.exchange",
    "Corpus": "lrpnumpy.corpus",
    "Output": "lrpnumpy.corpus",
    "check_cell": "lrpnumpy.laws",
    "explain_bag": "lrpnumpy.corpus",
    "explain_corpus": "lrpnumpy.corpus",
    "from_keras": "lrpnumpy.files.keras.live",
    "from_torch": "lrpnumpy.files.torch.live",
    "open_explanations": "lrpnumpy.corpus",
    "plot": "lrpnumpy.show.plot",
    "rank_methods": "lrpnumpy.evaluate",
    "write_page": "lrpnumpy.page",
}


def __getattr__(name: str) -> Any:
    """One of these names, from the module that has it."""
    if name not in _LATER:
        raise AttributeError(f"module 'lrpnumpy' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if name == "plot" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
