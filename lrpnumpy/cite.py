"""BibTeX of the papers that methods come from, for what was used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, shown
from lrpnumpy.meant import door
from lrpnumpy.methods import METHODS
from lrpnumpy.result import Explanation

PAPERS = {
    "Arras et al. 2019": """@inproceedings{arras2019evaluating,
  title = {Evaluating Recurrent Neural Network Explanations},
  author = {Arras, Leila and Osman, Ahmed and M{\\"u}ller, Klaus-Robert and Samek, Wojciech},
  booktitle = {Proceedings of the 2019 ACL Workshop BlackboxNLP: Analyzing and Interpreting Neural Networks for NLP},
  year = {2019}
}""",
    "Li et al. 2016": """@inproceedings{li2016visualizing,
  title = {Visualizing and Understanding Neural Models in {NLP}},
  author = {Li, Jiwei and Chen, Xinlei and Hovy, Eduard and Jurafsky, Dan},
  booktitle = {Proceedings of NAACL-HLT},
  year = {2016}
}""",
    "Denil et al. 2015": """@article{denil2015extraction,
  title = {Extraction of Salient Sentences from Labelled Documents},
  author = {Denil, Misha and Demiraj, Alban and de Freitas, Nando},
  journal = {arXiv:1412.6815},
  year = {2015}
}""",
    "Li et al. 2017": """@article{li2017understanding,
  title = {Understanding Neural Networks through Representation Erasure},
  author = {Li, Jiwei and Monroe, Will and Jurafsky, Dan},
  journal = {arXiv:1612.08220},
  year = {2017}
}""",
    "Arras et al. 2017": """@inproceedings{arras2017explaining,
  title = {Explaining Recurrent Neural Network Predictions in Sentiment Analysis},
  author = {Arras, Leila and Montavon, Gr{\\'e}goire and M{\\"u}ller, Klaus-Robert and Samek, Wojciech},
  booktitle = {Proceedings of the 8th Workshop on Computational Approaches to Subjectivity, Sentiment and Social Media
    Analysis},
  year = {2017}
}""",
    "Ding et al. 2017": """@inproceedings{ding2017visualizing,
  title = {Visualizing and Understanding Neural Machine Translation},
  author = {Ding, Yanzhuo and Liu, Yang and Luan, Huanbo and Sun, Maosong},
  booktitle = {Proceedings of ACL},
  year = {2017}
}""",
    "Arjona-Medina et al. 2018": """@article{arjonamedina2018rudder,
  title = {{RUDDER}: Return Decomposition for Delayed Rewards},
  author = {Arjona-Medina, Jose A. and Gillhofer, Michael and Widrich, Michael and Unterthiner, Thomas and
    Brandstetter, Johannes and Hochreiter, Sepp},
  journal = {arXiv:1806.07857},
  year = {2018}
}""",
    "Murdoch et al. 2018": """@inproceedings{murdoch2018beyond,
  title = {Beyond Word Importance: Contextual Decomposition to Extract Interactions from {LSTM}s},
  author = {Murdoch, W. James and Liu, Peter J. and Yu, Bin},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}""",
    "Shrikumar et al. 2017": """@inproceedings{shrikumar2017learning,
  title = {Learning Important Features Through Propagating Activation Differences},
  author = {Shrikumar, Avanti and Greenside, Peyton and Kundaje, Anshul},
  booktitle = {International Conference on Machine Learning},
  year = {2017}
}""",
    "Sundararajan et al. 2017": """@inproceedings{sundararajan2017axiomatic,
  title = {Axiomatic Attribution for Deep Networks},
  author = {Sundararajan, Mukund and Taly, Ankur and Yan, Qiqi},
  booktitle = {International Conference on Machine Learning},
  year = {2017}
}""",
    "Shapley 1953": """@incollection{shapley1953value,
  title = {A Value for n-Person Games},
  author = {Shapley, Lloyd S.},
  booktitle = {Contributions to the Theory of Games II},
  publisher = {Princeton University Press},
  year = {1953}
}""",
    "Lundberg & Lee 2017": """@inproceedings{lundberg2017unified,
  title = {A Unified Approach to Interpreting Model Predictions},
  author = {Lundberg, Scott M. and Lee, Su-In},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}""",
    "Erion et al. 2021": """@article{erion2021improving,
  title = {Improving Performance of Deep Learning Models with Axiomatic Attribution Priors and Expected Gradients},
  author = {Erion, Gabriel and Janizek, Joseph D. and Sturmfels, Pascal and Lundberg, Scott M. and Lee, Su-In},
  journal = {Nature Machine Intelligence},
  year = {2021}
}""",
    "Montavon et al. 2019": """@incollection{montavon2019layer,
  title = {Layer-Wise Relevance Propagation: An Overview},
  author = {Montavon, Gr{\\'e}goire and Binder, Alexander and Lapuschkin, Sebastian and Samek, Wojciech and
    M{\\"u}ller, Klaus-Robert},
  booktitle = {Explainable {AI}: Interpreting, Explaining and Visualizing Deep Learning},
  publisher = {Springer},
  year = {2019}
}""",
    "Achtibat et al. 2024": """@inproceedings{achtibat2024attnlrp,
  title = {{AttnLRP}: Attention-Aware Layer-Wise Relevance Propagation for Transformers},
  author = {Achtibat, Reduan and Hatefi, Sayed Mohammad Vakilzadeh and Dreyer, Maximilian and Jain, Aakriti and
    Wiegand, Thomas and Lapuschkin, Sebastian and Samek, Wojciech},
  booktitle = {International Conference on Machine Learning},
  year = {2024}
}""",
}
SEVERAL = {"deeplift": "Lundberg & Lee 2017", "integrated-gradients": "Erion et al. 2021"}  # with several references


@door
def cite(*used: Any) -> None:
    """Print BibTeX for what was `used`: explanations, comparisons, lists of them, or names of methods.

    Settings count: several references add the paper on that, a gamma or rules by layer that on these rules.
    """
    try:
        found = dict.fromkeys(_papers(used))
    except RecursionError:
        raise LrpError("cite must get explanations or names of methods, got a list that holds itself.") from None
    print("\n\n".join(PAPERS[name] for name in found))  # noqa: T201  # what it is for


def _papers(used: Iterable[Any]) -> Iterable[str]:
    for one in used:
        if isinstance(one, str) and one in METHODS:
            yield METHODS[one].paper
        elif isinstance(one, Explanation):
            options = one.options or {}
            if one.method in METHODS:  # a rule of one's own has no paper that we know
                yield METHODS[one.method].paper
            elif "eps" in options:
                yield "Arras et al. 2019"
            if isinstance(options.get("reference"), list) and one.method in SEVERAL:
                yield SEVERAL[one.method]
            if options.get("gamma") or "sums" in options:
                yield "Montavon et al. 2019"
            if options.get("attention") == "attnlrp":
                yield "Achtibat et al. 2024"
        elif isinstance(one, Iterable) and not isinstance(one, (str, bytes, np.ndarray)):
            yield from _papers(one)
        else:
            raise LrpError(f"cite must get explanations or names of methods, got {shown(one)}.")
