"""Splits and merges at the parameters as they are, against enumeration of all labelled paths."""

import numpy as np
import pytest
import test_split_merge as moves
from reference import LARGEST_Z
from scipy.special import digamma, gammaln

from pymc_dshdp.steps.explicit_split_merge import _Configuration


class Rates:
    """Logarithms of Poisson rates with a Gamma prior, as ``StateParameters``."""

    size, middle, spread = 1, np.array([0.5]), np.array([1.2])

    def read(self, point):
        return point["theta"].copy()

    def write(self, point, theta):
        return {"theta": theta.copy()}

    def log_prior(self, point):
        theta = point["theta"][:, 0]
        constant = moves.A * np.log(moves.B) - gammaln(moves.A)
        return constant + moves.A * theta - moves.B * np.exp(theta)

    def draw(self, point, rng, k):
        return np.log(rng.gamma(moves.A, 1.0 / moves.B, 1))


class Counts:
    """Their log-likelihoods, as ``LogLikelihoodTable``."""

    def __call__(self, point):
        theta = point["theta"][:, 0]
        return moves.Y * theta - np.exp(theta)

    def rows(self, point, states):
        return lambda low, high: self(point)[low:high, states]


class Chain(_Configuration):
    """With the parameters drawn given the path before some of the proposals."""

    def __init__(self, case):
        begun, self.lengths = moves.start(*case)
        self.read = lambda point: (begun.path, begun.prior)
        self.n_states = begun.n_states
        super().__init__(Rates(), Counts(), self, {"theta": np.zeros((self.n_states, 1))})

    def propose(self, rng, always=False):
        if rng.random() < 0.3:
            sums, visits = (
                np.bincount(self.path.states, weights, self.n_states)
                for weights in (moves.Y[:, 0], None)
            )
            drawn = np.log(rng.gamma(moves.A + sums) / (moves.B + visits))
            self.theta[visits > 0, 0] = drawn[visits > 0]
            self._columns[:] = self._table({"theta": self.theta})
        return super().propose(rng, always)


def z_scores(case, rounds, seed=3):
    """Of labelled paths, partitions and numbers of states."""
    chain = Chain(case)
    return moves.scores(case, rounds, seed, chain, chain.lengths, ("split", "merge"))


@pytest.mark.parametrize(
    ("case", "rounds"),
    [
        (moves.CASES[0], 800),
        *(pytest.param(case, 2_000, marks=pytest.mark.slow) for case in moves.CASES),
    ],
    ids=str,
)
def test_labelled_paths_have_their_probabilities(case, rounds):
    """Which defects make it fail is in ``statistical/mutations.py``."""
    z = z_scores(case, rounds)
    assert np.abs(z).max() < LARGEST_Z
    assert np.mean(z**2) < 2.0


def test_parameters_of_empty_states_have_their_prior():
    """Fails if a merge leaves the parameters of the state that it empties."""
    chain, rng, n = Chain(moves.CASES[0]), np.random.default_rng(1), 20
    means = np.zeros(n)
    for batch in range(n):
        found = []
        for _ in range(400):
            chain.propose(rng)
            empty = np.bincount(chain.path.states, minlength=chain.n_states) == 0
            found += list(chain.theta[empty, 0])
        means[batch] = np.mean(found)
    expected = digamma(moves.A) - np.log(moves.B)
    assert abs(means.mean() - expected) < 4.0 * means.std(ddof=1) / np.sqrt(n)


def test_scores_that_overflow_end_no_chain(monkeypatch):
    """Their sum of squares has no root: no proposal is made, in either direction."""

    def no_root(H):
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    monkeypatch.setattr(np.linalg, "cholesky", no_root)
    chain, rng = Chain(moves.CASES[0]), np.random.default_rng(1)
    assert not any(chain.propose(rng) for _ in range(50))


def test_far_states_are_not_taken_together():
    """The partner of a merge is one whose data go with the parameters of the other."""
    chain = Chain(("ds", 4, (6,), "weak-limit"))
    chain.path.states[:] = [0, 0, 1, 1, 2, 2]
    chain.theta[:, 0] = np.log([1.0, 1.1, 50.0, 1.0])
    chain._columns[:] = chain._table({"theta": chain.theta})
    others, gains = chain._partners(0)
    np.testing.assert_array_equal(others, [1, 2])
    assert gains[0] == pytest.approx(np.sum(moves.Y[2:4, 0]) * np.log(1.0 / 1.1) + 0.2)
    assert gains[1] > 30.0


if __name__ == "__main__":
    import sys

    for case in moves.CASES:
        z = z_scores(case, int(sys.argv[1]), int(sys.argv[2]))
        print(case, np.abs(z).max(), np.mean(z**2), flush=True)
