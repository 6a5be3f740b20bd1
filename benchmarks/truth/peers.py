"""Other libraries on the same torch networks, by their own code: captum and shap.

A peer is a function from a network, inputs x (B, T, D), the classes explained (B,) and a `View` to relevance (B, T, D).
Options are the libraries' defaults unless they are named here; those of GradientShap, and zero as the reference, are
the ones that time_interpret used for its published State rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SAMPLES = 50  # of captum GradientShap and Lime, and of shap GradientExplainer


class View(NamedTuple):
    """What one value of relevance is wanted for."""

    whole_steps: bool = False  # Lime and Occlusion take the features of a step together
    last_only: bool = (
        False  # only the relevance of the last step is used: Occlusion leaves the others, Lime takes them as one
    )


def integrated_gradients(network: Any, x: Any, targets: Any, view: View) -> Any:
    from captum.attr import IntegratedGradients

    return IntegratedGradients(network).attribute(x, baselines=0 * x, target=targets, internal_batch_size=200)


def deep_lift(network: Any, x: Any, targets: Any, view: View) -> Any:
    from captum.attr import DeepLift

    return DeepLift(network).attribute(x, baselines=0 * x, target=targets)


def gradient_shap(network: Any, x: Any, targets: Any, view: View) -> Any:
    import torch
    from captum.attr import GradientShap

    return GradientShap(network).attribute(
        x, baselines=torch.cat([0 * x, x]), target=targets, n_samples=SAMPLES, stdevs=0.0001
    )


def lime(network: Any, x: Any, targets: Any, view: View) -> Any:
    import torch
    from captum.attr import Lime

    _, T, D = x.shape
    groups = torch.arange(T * D).reshape(1, T, D)
    if view.whole_steps:
        groups = torch.arange(T).reshape(1, T, 1).expand(1, T, D)
    if view.last_only:
        groups = torch.clamp(groups - (T - 1) * D + 1, min=0)
    samples = max(SAMPLES, int(groups.max()) // 5)
    return Lime(network).attribute(
        x, target=targets, feature_mask=groups, n_samples=samples, perturbations_per_eval=SAMPLES
    )


def occlusion(network: Any, x: Any, targets: Any, view: View) -> Any:
    import torch
    from captum.attr import Occlusion

    window = (1, x.shape[2]) if view.whole_steps else (1, 1)
    if not view.last_only:
        return Occlusion(network).attribute(x, window, target=targets, perturbations_per_eval=16)
    out = torch.zeros_like(x)
    out[:, -1:] = Occlusion(lambda last, rest: network(torch.cat([rest, last], dim=1))).attribute(
        x[:, -1:], window, target=targets, additional_forward_args=x[:, :-1]
    )
    return out


def gradient_explainer(network: Any, x: Any, targets: Any, view: View) -> Any:
    import shap
    import torch

    background = torch.cat([0 * x, x])
    # Only the class with the largest score: `targets` are the predicted classes.
    values, _ = shap.GradientExplainer(network, background).shap_values(x, nsamples=SAMPLES, ranked_outputs=1, rseed=0)
    return torch.tensor(np.asarray(values, np.float64)).reshape(x.shape)


PEERS: dict[str, Callable[[Any, Any, Any, View], Any]] = {
    "captum IntegratedGradients": integrated_gradients,
    "captum DeepLift": deep_lift,
    "captum GradientShap": gradient_shap,
    "captum Lime": lime,
    "captum Occlusion": occlusion,
    "shap GradientExplainer": gradient_explainer,
}


class Failure(Exception):
    """A peer that cannot explain this network; its message is the library's."""


def run(name: str, network: Any, x: np.ndarray, targets: np.ndarray, view: View, seed: int = 0) -> np.ndarray:
    """Relevance (B, T, D) by a peer, in float64."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # what these libraries draw from
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = PEERS[name](network, torch.from_numpy(x), torch.from_numpy(targets), view)
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {str(error).splitlines()[0][:80]}") from error
    return found.detach().numpy().astype(np.float64)
