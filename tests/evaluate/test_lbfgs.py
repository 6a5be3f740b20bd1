"""The optimizer: on a convex problem, by its stopping rules, and against torch where it is present."""

import numpy as np
import pytest

from benchmarks.paper.lbfgs import LBFGS, direction

RNG = np.random.default_rng(5)
ROOT = RNG.normal(size=(6, 6))
HESSIAN = ROOT @ ROOT.T + 0.1 * np.eye(6)
MINIMUM = RNG.normal(size=6)
CENTRES = RNG.normal(size=(20, 6))


def quadratic(x):
    d = x - MINIMUM
    return 0.5 * d @ HESSIAN @ d, HESSIAN @ d


def logarithms(x):
    """Sum of log cosh: convex, and no quadratic."""
    d = x - CENTRES
    return np.log(np.cosh(d)).sum(), np.tanh(d).sum(axis=0)


@pytest.mark.parametrize("lr", [0.5, 1.0])
def test_finds_the_minimum_of_a_convex_function(lr):
    x, optimizer = np.zeros(6), LBFGS(lr=lr, tolerance_change=1e-14)
    for _ in range(30):
        x, _ = optimizer.step(quadratic, x)
    np.testing.assert_allclose(x, MINIMUM, atol=1e-6)  # 1e-7 on the gradient, over the curvature


def test_returns_the_value_at_the_old_point():
    x = np.ones(6)
    new, value = LBFGS(lr=0.1).step(quadratic, x)
    assert value == quadratic(x)[0] > quadratic(new)[0]


def test_a_step_makes_20_moves_with_20_evaluations():
    optimizer = LBFGS(lr=1e-3)
    optimizer.step(quadratic, np.zeros(6))
    assert (optimizer.moves, optimizer.evaluations) == (20, 20)


def test_max_eval_ends_a_step():
    optimizer = LBFGS(lr=1e-3, max_eval=7)
    optimizer.step(quadratic, np.zeros(6))
    assert (optimizer.moves, optimizer.evaluations) == (6, 7)


def test_at_rest_the_point_itself_comes_back():
    x = MINIMUM.copy()
    new, _ = LBFGS().step(quadratic, x)
    assert new is x


def test_small_changes_end_a_step():
    optimizer = LBFGS(lr=1e-3, tolerance_change=1e3)
    optimizer.step(lambda x: (quadratic(x)[0], 1e4 * quadratic(x)[1]), np.zeros(6))
    assert optimizer.evaluations == 2


def test_the_direction_is_that_of_the_bfgs_matrix():
    """The inverse Hessian written out, for one past move and for three."""
    S = RNG.normal(size=(3, 6))
    Y, g = S @ HESSIAN, RNG.normal(size=6)
    for past in (1, 3):
        H = np.eye(6) * (S[past - 1] @ Y[past - 1]) / (Y[past - 1] @ Y[past - 1])
        for s, y in zip(S[:past], Y[:past], strict=True):
            rho = 1 / (s @ y)
            V = np.eye(6) - rho * np.outer(y, s)
            H = V.T @ H @ V + rho * np.outer(s, s)
        np.testing.assert_allclose(direction(g, S[:past], Y[:past]), -H @ g, rtol=1e-12)
    np.testing.assert_array_equal(direction(g, S[:0], Y[:0]), -g)


def test_only_the_newest_moves_are_remembered():
    x, points = np.zeros(6), []

    def noted(x):
        points.append(x)
        return quadratic(x)

    optimizer = LBFGS(lr=0.1, history=2, max_iter=6)
    optimizer.step(noted, x)
    moves = np.diff(points, axis=0)
    np.testing.assert_allclose(optimizer._S, moves[-2:], rtol=1e-9)
    np.testing.assert_allclose(optimizer._Y, moves[-2:] @ HESSIAN, rtol=1e-9)


@pytest.mark.parametrize("function", [quadratic, logarithms])
@pytest.mark.parametrize("settings", [{"lr": 0.1}, {"lr": 0.002}, {"lr": 0.3, "history": 3, "max_iter": 7}])
def test_agrees_with_torch_step_by_step(function, settings):
    torch = pytest.importorskip("torch")
    parameter = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    names = {"history": "history_size"}
    theirs = torch.optim.LBFGS([parameter], **{"history_size": 100} | {names.get(k, k): v for k, v in settings.items()})
    ours, x = LBFGS(**settings), np.zeros(6)

    def closure():
        value, gradient = function(parameter.detach().numpy())
        parameter.grad = torch.from_numpy(gradient.copy())
        return torch.tensor(value)

    for step in range(4):
        ours.lr = theirs.param_groups[0]["lr"] = settings["lr"] * 0.95**step
        x, value = ours.step(function, x)
        their_value = theirs.step(closure)
        assert ours.evaluations == theirs.state[parameter]["func_evals"]
        np.testing.assert_allclose(value, float(their_value), rtol=1e-9)  # rounding grows along the path
        np.testing.assert_allclose(x, parameter.detach().numpy(), rtol=1e-9, atol=1e-9)
