"""What we want to reach: how many times faster than the peer on each workload, on one thread and maybe on two."""

# fmt: off
TARGETS: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("forward", "torch"): {
        "W1": (1.9, 2.0), "W2": (4,), "W3": (1.15,), "W4": (1.4,), "W5": (20,),
        "W6": (1.2,), "W1-GRU": (2.4,), "W3-GRU": (1.15,), "W1-RNN": (1.8,),
    },
    ("forward", "onnxruntime"): {"W1": (1.0,), "W2": (1.0,), "W3": (1.0,), "W4": (1.0,)},
    ("gradient-x-input", "torch autograd"): {
        "W1": (2.7, 3.3), "W2": (9,), "W3": (2,), "W4": (3,), "W5": (20,), "W6": (1.5,),
        "W1-GRU": (4,), "W3-GRU": (1.4,),
    },
    ("gradient-x-input", "captum"): {"W1": (3.8, 5), "W2": (13,), "W3": (2.5,), "W4": (4,), "W5": (70,)},
    ("lrp-all", "literal program"): {"W1": (60, 120), "W2": (40,), "W3": (28,), "W4": (48,), "W5": (4000,)},
    ("occlusion-f", "torch"): {"W1": (4.8,), "W2": (5.5,), "W3": (4.9,), "W4": (3,), "W5": (50,)},
    ("cd", "plain NumPy"): {"W1": (300, 600), "W2": (230,), "W3": (100,), "W4": (150,), "W5": (15000,)},
}
# fmt: on
TOL_TARGETS = {-1.0: 90.0, 0.0: 50.0, 1.0: 18.0}  # occlusion with tol 1e-7, T = 1000: forget bias -> times torch
# Forward and backward pass together, in forward passes: cell, or what is before it -> job -> at most.
OF_FORWARD = {
    "LSTM": {"lrp-all": 1.4, "gradient-x-input": 2.2, "lrp-prop": 2.5, "lrp-abs": 2.5, "lrp-half": 2.5},
    "GRU": {"lrp-all": 1.7},
    "RNN": {},
    "Conv1D": {},
}
OF_LIMIT = {"W1": 0.60, "W3": 0.75}  # share of the physical limit, at least


def target(job: str, peer: str, workload: str, threads: int) -> float | None:
    """The ratio wanted, or None where none was set."""
    wanted = TARGETS.get((job, peer), {}).get(workload)
    return None if wanted is None else wanted[min(threads, len(wanted)) - 1]
