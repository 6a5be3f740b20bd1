"""Representations against plain loops, and PCA against what is known of it."""

import numpy as np
import pytest
from networks import close, dense, lstm, two_way

import lrpnumpy as lrp
from benchmarks.paper.measures.representations import (
    average,
    last_hidden,
    separation,
    weighted,
    weighted_last_hidden,
    whitened_pca,
)
from lrpnumpy import LrpError


@pytest.fixture
def model(rng):
    embedding = lrp.Embedding(rng.normal(size=(9, 3)))
    return lrp.Model([two_way(rng, 3, 4), dense(rng, 8, 3, bias=False)], embedding=embedding)


@pytest.fixture
def sequences(rng):
    return [rng.integers(0, 9, T) for T in (1, 5, 3, 7, 2)]


def test_average_and_weighted_are_sums_over_words(model, sequences):
    E = model.embedding.E
    close(average(model, sequences), [np.mean([E[k] for k in row], axis=0) for row in sequences])
    cd = lrp.explain_all(model, sequences, "cd", 1)
    by_word = [
        sum(r * E[k] for r, k in zip(e.relevance, row, strict=True)) for e, row in zip(cd, sequences, strict=True)
    ]
    close(weighted(model, sequences, cd), by_word)
    every = lrp.explain_all(model, sequences, "lrp-all", 1)
    element = [(e.feature_relevance * E[row]).sum(axis=0) for e, row in zip(every, sequences, strict=True)]
    close(weighted(model, sequences, every), element)
    assert abs(np.array(element) - np.array(by_word)).max() > 1e-3


def test_last_hidden_is_what_the_output_sees(model, sequences):
    h = last_hidden(model, sequences)
    close(h @ model.layers[1].V.T, lrp.predict_all(model, sequences))


def test_relevance_of_last_hidden_adds_up_to_the_score(model, sequences):
    targets = [0, 1, 2, 1, 0]
    found = lrp.explain_all(model, sequences, "lrp-all", targets, eps=0, hidden=True)
    h = last_hidden(model, sequences)
    R = weighted_last_hidden(model, sequences, found) / h  # without the stabilizer: h_j V_cj of the target c
    close(R, h * model.layers[1].V[targets])


def test_padding_changes_nothing(rng, sequences):
    embedding = lrp.Embedding(rng.normal(size=(10, 3)), mask=9)
    model = lrp.Model([lstm(rng, 3, 4), dense(rng, 4, 2)], embedding=embedding)
    padded = [np.concatenate([row, [9, 9]]) for row in sequences]
    for method in ("cd", "lrp-all"):
        one, other = (lrp.explain_all(model, rows, method, 0) for rows in (sequences, padded))
        close(weighted(model, padded, other), weighted(model, sequences, one))
    close(average(model, padded), average(model, sequences))
    close(last_hidden(model, padded), last_hidden(model, sequences))


def test_pca_finds_the_directions_of_a_made_up_cloud(rng):
    axes = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    scales = np.array([9.0, 4, 1, 0.5, 0.1])
    Z = rng.normal(size=(4000, 5))
    points, explained = whitened_pca(Z * scales @ axes.T + rng.normal(size=5), 3)
    np.testing.assert_allclose(explained, scales**2 / sum(scales**2), atol=0.01)  # 4000 random points
    for k in range(3):
        assert abs(np.corrcoef(points[:, k], Z[:, k])[0, 1]) > 0.99
    np.testing.assert_allclose(np.cov(points.T), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-12)


def test_pca_keeps_its_signs_when_the_points_are_shuffled(rng):
    X = rng.normal(size=(50, 4)) * [4, 3, 2, 1]
    order = rng.permutation(50)
    close(whitened_pca(X[order]).points, whitened_pca(X).points[order], tol=1e-10)  # the SVD of another matrix


def test_pca_of_what_does_not_vary_is_refused(rng):
    with pytest.raises(LrpError, match="vary in 2 directions, got 1"):
        whitened_pca(np.outer(np.arange(4), [1, 0, 0]))
    with pytest.raises(LrpError, match="more than 3 rows"):
        whitened_pca(rng.normal(size=(3, 5)), 3)


def test_separation_counts_neighbors(rng):
    points = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(50, 1, (40, 2))])
    labels = np.repeat([0, 1], 40)
    assert separation(points, labels) == 100
    assert 35 < separation(points, rng.permutation(labels)) < 65


def test_what_cannot_be_is_said(rng, model, sequences):
    plain = lrp.explain_all(model, sequences, "lrp-all", 0)
    with pytest.raises(LrpError, match="hidden=True"):
        weighted_last_hidden(model, sequences, plain)
    with pytest.raises(LrpError, match="one for each of the 5 sequences"):
        weighted(model, sequences, plain[:2])
    with pytest.raises(LrpError, match="relevances of one class"):
        weighted(model, sequences, lrp.explain_all(model, sequences, "cd", "all"))
    mean = lrp.Model([lstm(rng, 3, 4), dense(rng, 4, 2)], readout="mean")
    with pytest.raises(LrpError, match="last hidden vector"):
        last_hidden(mean, [rng.normal(size=(4, 3))])


def test_no_sequences(model):
    with pytest.raises(LrpError, match="at least one, got none"):
        average(model, [])
