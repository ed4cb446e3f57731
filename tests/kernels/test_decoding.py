"""Filter scores, smoother and Viterbi against enumeration of all paths."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_dshdp.kernels.decoding import filter_with_scores, most_probable_path, smooth_backward
from pymc_dshdp.kernels.messages import forward_filter

L = 3
LENGTHS = np.array([4, 1, 3])


def log_joints(ell, initial, P):
    """All paths of one sequence with log p(y, z)."""
    paths = np.array(list(itertools.product(range(len(initial)), repeat=len(ell))))
    with np.errstate(divide="ignore"):
        out = np.log(initial)[paths[:, 0]] + ell[np.arange(len(ell)), paths].sum(axis=1)
        out += np.log(P)[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return paths, out


def chain(seed, zeros=False, spread=3.0):
    rng = np.random.default_rng(seed)
    initial, P = rng.dirichlet(np.ones(L)), rng.dirichlet(np.ones(L), size=L)
    ell = rng.normal(0.0, spread, size=(LENGTHS.sum(), L))
    if zeros:  # left to right from state 0, and a state that some data exclude
        initial, P = np.array([1.0, 0.0, 0.0]), np.triu(P) / np.triu(P).sum(1, keepdims=True)
        ell[2, 0] = -np.inf
    return ell, initial, P


def sequences():
    stops = np.cumsum(LENGTHS)
    return [slice(stop - n, stop) for n, stop in zip(LENGTHS, stops, strict=True)]


CASES = [chain(0), chain(1, zeros=True), chain(2, spread=400.0), chain(3, zeros=True, spread=400.0)]


@pytest.mark.parametrize(("ell", "initial", "P"), CASES)
def test_filter_and_scores_equal_enumeration(ell, initial, P):
    """Fails if a sequence starts from the end of the one before (start from filtered[t - 1])."""
    filtered, scores = filter_with_scores(ell, initial, P, LENGTHS)
    for part in sequences():
        before = 0.0
        for t in range(part.start, part.stop):
            paths, joint = log_joints(ell[part.start : t + 1], initial, P)
            evidence = logsumexp(joint)
            np.testing.assert_allclose(scores[t], evidence - before, rtol=1e-10)
            p = np.exp(joint - evidence)
            expected = [p[paths[:, -1] == k].sum() for k in range(L)]
            np.testing.assert_allclose(filtered[t], expected, atol=1e-12)
            before = evidence


@pytest.mark.parametrize(("ell", "initial", "P"), CASES)
def test_smoother_equals_enumeration(ell, initial, P):
    """Fails if the transition matrix is read transposed (transition[k, j])."""
    filtered, _ = filter_with_scores(ell, initial, P, LENGTHS)
    smoothed = smooth_backward(filtered, P, LENGTHS)
    for part in sequences():
        paths, joint = log_joints(ell[part], initial, P)
        p = np.exp(joint - logsumexp(joint))
        for i in range(part.stop - part.start):
            expected = [p[paths[:, i] == k].sum() for k in range(L)]
            np.testing.assert_allclose(smoothed[part][i], expected, atol=1e-12)


@pytest.mark.parametrize(("ell", "initial", "P"), CASES)
def test_viterbi_equals_enumeration(ell, initial, P):
    """Fails if the path is followed back from the wrong row (came_from[t - 1, best])."""
    with np.errstate(divide="ignore"):
        path, log_joint = most_probable_path(ell, np.log(initial), np.log(P), LENGTHS)
    for n, part in enumerate(sequences()):
        paths, joint = log_joints(ell[part], initial, P)
        np.testing.assert_array_equal(path[part], paths[np.argmax(joint)])
        np.testing.assert_allclose(log_joint[n], joint.max(), rtol=1e-12)


def test_agrees_with_the_samplers_filter():
    rng = np.random.default_rng(4)
    lengths = np.array([300, 1, 99])
    ell = rng.normal(0.0, 50.0, size=(400, 6))
    initial, P = rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(6, 0.3), size=6)
    filtered, scores = filter_with_scores(ell, initial, P, lengths)
    expected, log_marginal, impossible = forward_filter(ell, initial, P, lengths)
    assert impossible == -1
    np.testing.assert_allclose(filtered, expected, atol=1e-12)
    np.testing.assert_allclose(np.add.reduceat(scores, [0, 300, 301]), log_marginal)


def test_smoother_divides_by_tiny_probabilities():
    """Fails if predicted probabilities below 1e-290 are treated as 0, or s / b overflows."""
    tiny = 1e-310
    initial, P = np.array([1.0, 0.0]), np.array([[1.0 - tiny, tiny], [0.5, 0.5]])
    ell = np.array([[0.0, 0.0], [-1000.0, 0.0], [0.0, 0.0]])
    lengths = np.array([3])
    filtered, _ = filter_with_scores(ell, initial, P, lengths)
    smoothed = smooth_backward(filtered, P, lengths)
    np.testing.assert_allclose(smoothed.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(smoothed[:2], [[1.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_impossible_observations_stay_in_their_sequence():
    ell, initial, P = chain(5)
    ell[2] = -np.inf, np.nan, -np.inf
    filtered, scores = filter_with_scores(ell, initial, P, LENGTHS)
    smoothed = smooth_backward(filtered, P, LENGTHS)
    assert np.isneginf(scores[2:4]).all() and np.isfinite(scores[[0, 1, 4, 5, 6, 7]]).all()
    assert np.isnan(filtered[2:4]).all() and np.isfinite(filtered[[0, 1, 4, 5, 6, 7]]).all()
    assert np.isnan(smoothed[:4]).all() and np.isfinite(smoothed[4:]).all()
    _, log_joint = most_probable_path(ell, np.log(initial), np.log(P), LENGTHS)
    assert np.isneginf(log_joint[0]) and np.isfinite(log_joint[1:]).all()
