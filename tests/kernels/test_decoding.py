"""Filter scores, smoother and Viterbi against enumeration of all paths."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_dshdp.kernels.chain import Transitions, transition_matrix, without_persistence
from pymc_dshdp.kernels.decoding import filter_with_scores, most_probable_path, smooth
from pymc_dshdp.kernels.messages import forward_filter_backward_sample

L = 3
LENGTHS = np.array([4, 1, 3])


def log_joints(ell, initial, transitions, start):
    """All paths of times that begin a sequence at ``start``, with log p(y, z)."""
    paths = np.array(list(itertools.product(range(len(initial)), repeat=len(ell))))
    with np.errstate(divide="ignore"):
        out = np.log(initial)[paths[:, 0]] + ell[np.arange(len(ell)), paths].sum(axis=1)
        for i in range(1, len(ell)):
            r = start + i if len(transitions.kappa_logit) > 1 else 0
            g = transitions.indices[start + i] if transitions.indices.size else 0
            P = transition_matrix(transitions.kappa_logit[r], transitions.pi_bar[g])
            out += np.log(P)[paths[:, i - 1], paths[:, i]]
    return paths, out


def chain(seed, zeros=False, spread=3.0, rows=None, matrices=1):
    """Draw arrays of the kernels: P itself, or kappa of ``rows`` rows beside it."""
    rng = np.random.default_rng(seed)
    initial, P = rng.dirichlet(np.ones(L)), rng.dirichlet(np.ones(L), size=L)
    ell = rng.normal(0.0, spread, size=(LENGTHS.sum(), L))
    if zeros:  # left to right from state 0, and a state that some data exclude
        initial, P = np.array([1.0, 0.0, 0.0]), np.triu(P) / np.triu(P).sum(1, keepdims=True)
        ell[2, 0] = -np.inf
    if matrices > 1:
        P = np.stack([P, *rng.dirichlet(np.ones(L), size=(matrices - 1, L))])
        P[:, 0] = P[0, 0]
        index = rng.integers(matrices, size=LENGTHS.sum())
        logit = np.full((1, L), -np.inf) if rows is None else rng.normal(0.0, 2.0, (rows, L))
        return ell, initial, Transitions(logit, P, index)
    if rows is None:
        return ell, initial, without_persistence(P)
    logit = rng.normal(0.0, 3.0, (rows, L))
    if zeros:  # to stay is impossible, or nearly certain
        logit[0], logit[-1] = -np.inf, 50.0
    return ell, initial, Transitions(logit, P[None])


def sequences():
    stops = np.cumsum(LENGTHS)
    return [slice(stop - n, stop) for n, stop in zip(LENGTHS, stops, strict=True)]


PLAIN = chain(0), chain(1, zeros=True), chain(2, spread=400.0), chain(3, True, 400.0)
ONE_ROW = chain(6, rows=1), chain(7, zeros=True, rows=1)
VARYING = chain(8, rows=8), chain(9, zeros=True, rows=8), chain(10, False, 400.0, rows=8)
INDEXED = chain(11, matrices=2), chain(12, True, matrices=8), chain(13, False, 400.0, matrices=3)
BOTH = chain(14, True, rows=8, matrices=2), chain(15, False, 400.0, rows=1, matrices=2)
CASES = [*PLAIN, *ONE_ROW, *VARYING, *INDEXED, *BOTH]


@pytest.mark.parametrize(("ell", "initial", "transitions"), CASES)
def test_filter_and_scores_equal_enumeration(ell, initial, transitions):
    """Fails if a sequence starts from the end of the one before, or kappa_t is kappa_{t-1}."""
    filtered, scores = filter_with_scores(ell, initial, transitions, LENGTHS)
    for part in sequences():
        before = 0.0
        for t in range(part.start, part.stop):
            paths, joint = log_joints(ell[part.start : t + 1], initial, transitions, part.start)
            evidence = logsumexp(joint)
            np.testing.assert_allclose(scores[t], evidence - before, rtol=1e-10)
            p = np.exp(joint - evidence)
            expected = [p[paths[:, -1] == k].sum() for k in range(L)]
            np.testing.assert_allclose(filtered[t], expected, atol=1e-12)
            before = evidence


@pytest.mark.parametrize(("ell", "initial", "transitions"), CASES)
def test_smoother_equals_enumeration(ell, initial, transitions):
    """Fails if pi_bar is read transposed, or kappa_t stands where kappa_{t+1} belongs."""
    smoothed = smooth(ell, initial, transitions, LENGTHS)
    for part in sequences():
        paths, joint = log_joints(ell[part], initial, transitions, part.start)
        p = np.exp(joint - logsumexp(joint))
        for i in range(part.stop - part.start):
            expected = [p[paths[:, i] == k].sum() for k in range(L)]
            np.testing.assert_allclose(smoothed[part][i], expected, atol=1e-12)


@pytest.mark.parametrize(("ell", "initial", "transitions"), CASES)
def test_viterbi_equals_enumeration(ell, initial, transitions):
    """Fails if followed back from row t - 1, if kappa_{t-1} is kappa_t, or staying is left out."""
    path, log_joint = most_probable_path(ell, initial, transitions, LENGTHS)
    for n, part in enumerate(sequences()):
        paths, joint = log_joints(ell[part], initial, transitions, part.start)
        np.testing.assert_array_equal(path[part], paths[np.argmax(joint)])
        np.testing.assert_allclose(log_joint[n], joint.max(), rtol=1e-12)


def test_agrees_with_the_sampler():
    rng = np.random.default_rng(4)
    lengths = np.array([300, 1, 99])
    ell = rng.normal(0.0, 50.0, size=(400, 6))
    initial, P = rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(6, 0.3), size=6)
    transitions = without_persistence(P)
    _, scores = filter_with_scores(ell, initial, transitions, lengths)
    draw = forward_filter_backward_sample(ell, initial, transitions, lengths, rng.random(400))
    assert draw.impossible_time == -1
    np.testing.assert_allclose(
        np.add.reduceat(scores, [0, 300, 301]), draw.log_marginal_likelihood, rtol=1e-12
    )


TINY = 1e-310


@pytest.mark.parametrize(
    ("initial", "transitions", "first"),
    [
        ([1.0, 0.0], without_persistence(np.array([[1.0 - TINY, TINY], [0.5, 0.5]])), 0),
        ([1.0, TINY], Transitions(np.zeros((1, 2)), np.array([[[1.0, 0.0], [1.0, 0.0]]])), 1),
    ],
)
def test_smoother_divides_by_tiny_probabilities(initial, transitions, first):
    """Fails if predicted probabilities below 1e-290 are treated as 0, or s / b overflows.

    State 1 is reached at the second time by switching from 0, or by staying from the first on.
    """
    ell = np.array([[0.0, 0.0], [-1000.0, 0.0], [0.0, 0.0]])
    smoothed = smooth(ell, np.array(initial), transitions, np.array([3]))
    np.testing.assert_allclose(smoothed.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(smoothed[:2], np.eye(2)[[first, 1]], atol=1e-12)


def test_impossible_observations_stay_in_their_sequence():
    ell, initial, transitions = chain(5)
    ell[2] = -np.inf, np.nan, -np.inf
    filtered, scores = filter_with_scores(ell, initial, transitions, LENGTHS)
    smoothed = smooth(ell, initial, transitions, LENGTHS)
    assert np.isneginf(scores[2:4]).all() and np.isfinite(scores[[0, 1, 4, 5, 6, 7]]).all()
    assert np.isnan(filtered[2:4]).all() and np.isfinite(filtered[[0, 1, 4, 5, 6, 7]]).all()
    assert np.isnan(smoothed[:4]).all() and np.isfinite(smoothed[4:]).all()
    _, log_joint = most_probable_path(ell, initial, transitions, LENGTHS)
    assert np.isneginf(log_joint[0]) and np.isfinite(log_joint[1:]).all()
