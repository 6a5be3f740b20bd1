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
from lrpnumpy.layers import GRU, LSTM, RNN, Bidirectional, Cell, Dense, Embedding, Layer
from lrpnumpy.methods import CD, LRP, DeepLIFT, Gradient, IntegratedGradients, Method, Occlusion, Shapley, methods
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

# fmt: off
__all__ = [  # noqa: RUF022  # by topic
    # models and files
    "Model", "Node", "Input", "load", "save", "convert", "inspect", "sample", "from_keras", "from_torch",
    # layers; all others are in lrpnumpy.layers
    "LSTM", "GRU", "RNN", "Bidirectional", "Cell", "Dense", "Embedding", "Layer", "layers", "check_cell",
    # methods and rules
    "LRP", "DeepLIFT", "IntegratedGradients", "Gradient", "Occlusion", "CD", "Shapley", "Method", "Rule", "rules",
    "methods", "cite",
    # predictions and explanations
    "predict", "predict_all", "trace", "explain", "explain_all", "explain_windows", "compare", "Table",
    "reconstruction_error", "Attribution",
    # results, and questions about them
    "Explanation", "InputPart", "Comparison", "Evidence", "evidence", "decompose", "Counterfactual", "counterfactual",
    "rank_methods", "plot", "write_page",
    # corpora
    "Corpus", "Output", "explain_corpus", "explain_bag", "open_explanations",
    # errors and warnings
    "LrpError", "WeightFileError", "AssumptionWarning", "RelevanceWarning",
]
# fmt: on

# What is for corpora, pictures, pages, evaluation and live networks is loaded when it is first asked for: the import
# stays light. By module, its names.
_LATER = {
    "corpus": ("Corpus", "Output", "explain_bag", "explain_corpus", "open_explanations"),
    "evaluate": ("rank_methods",),
    "exchange": ("Attribution",),
    "files.keras.live": ("from_keras",),
    "files.torch.live": ("from_torch",),
    "laws": ("check_cell",),
    "page": ("write_page",),
}


def __getattr__(name: str) -> Any:
    """One of these names, from the module that has it."""
    if name == "plot":
        return import_module("lrpnumpy.show.plot")
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"lrpnumpy.{module}"), name)
    raise AttributeError(f"module 'lrpnumpy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
