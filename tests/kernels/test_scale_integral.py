"""Scales of regressions: their integrals, their draws, and moves that keep them."""

import itertools

import numpy as np
import pytest
import test_split_merge as moves
from reference import LARGEST_Z, all_paths
from scipy import integrate, stats
from scipy.special import logsumexp

from pymc_dshdp.kernels import scale_integral
from pymc_dshdp.kernels.scale_integral import ScaleIntegral, prior_mode, profile
from pymc_dshdp.likelihood.regression_marginals import RegressionMarginals, ScaledMarginals

T, L = 6, 3
MEAN, ROOT = np.array([0.5, -0.2]), np.array([[0.8, 0.3], [0.0, 1.4]])  # of the coefficients
PRIOR = np.column_stack([ROOT, ROOT @ MEAN])[None]
PRIORS = {
    "half-normal": lambda u: 0.5 * np.log(2 / np.pi) - np.log(1.5) + u - np.exp(2 * u) / 4.5,
    "half-Cauchy": lambda u: stats.halfcauchy.logpdf(np.exp(u), scale=0.5) + u,
    "narrow": lambda u: stats.norm.logpdf(u, 1.0, 0.01),
    "inverse gamma": lambda u: stats.invgamma.logpdf(np.exp(2 * u), 2.0) + 2 * u + np.log(2),
}


def regression(n, seed=0):
    """Rows (x, y) of n numbers."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    return np.column_stack([x, x @ [2.0, -1.0] + rng.normal(0.0, 0.7, n)])


def log_density(rows, u, log_prior):
    """log p(y, u) by the normal density of all numbers together."""
    x, y = rows[:, :2], rows[:, 2]
    added, turn = np.linalg.eigh(x @ np.linalg.inv(ROOT.T @ ROOT) @ x.T)
    scale = np.sqrt(added + np.exp(2.0 * np.asarray(u))[..., None])
    return stats.norm.logpdf(turn.T @ (y - x @ MEAN), 0.0, scale).sum(axis=-1) + log_prior(u)


def integral(rows, log_prior, copies=1):
    """Of some states that have the same rows."""
    marginals = ScaledMarginals(
        side_by_side(rows), PRIOR[:, None], log_prior, None, np.zeros((1, 1))
    )
    visits, factors, _ = marginals.moments(np.zeros(len(rows), int), 1)
    data = profile(np.tile(visits[0], copies), np.tile(factors[0], (copies, 1, 1)), PRIOR)
    return ScaleIntegral(data, log_prior, np.tile(prior_mode(log_prior, 1), copies))


def side_by_side(rows):
    """Rows of one regression of one number at a time."""
    return rows[None, :, None]


@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("kind", PRIORS)
def test_evidence_is_the_integral(kind, n):
    """Against SciPy's quadrature of the normal density of all numbers together."""
    rows, log_prior = regression(n), PRIORS[kind]
    found = integral(rows, log_prior)
    [mode], [spread] = found.mode, found.spread
    top = log_density(rows, mode, log_prior)
    edges = mode + spread * np.array([-50.0, -6.0, -1.0, 1.0, 6.0, 50.0])
    expected = sum(
        integrate.quad(
            lambda u: np.exp(log_density(rows, u, log_prior) - top), *ends, epsabs=1e-11, limit=200
        )[0]
        for ends in itertools.pairwise(edges)
    )
    assert found.log_evidence[0] == pytest.approx(top + np.log(expected), abs=1e-7)


@pytest.fixture
def coarse(monkeypatch):
    make_coarse(monkeypatch.setattr)


def make_coarse(setattr):
    """Few nodes, to one side and apart: draws are biased, and their weights have to mend it."""
    peak = ScaleIntegral._peak
    setattr(scale_integral, "STEP", 0.8)
    setattr(scale_integral, "T_NODES", 0.8 * np.arange(-5, 6))
    setattr(ScaleIntegral, "_peak", lambda self: [peak(self)[0] + 1.0, 2.0 * peak(self)[1]])


def test_draws_and_weights_agree(coarse):
    """Averages of weighted draws are those of the density; the weights' is one.

    Fails if the density of a draw leaves out the width of its cell.
    """
    rows, log_prior = regression(5), PRIORS["half-normal"]
    found = integral(rows, log_prior, 200_000)
    u, log_weights = found.draw(np.random.default_rng(1))
    weights = np.exp(log_weights + found._evidence())
    total = integral(rows, log_prior)._evidence()[0]
    grid = np.linspace(-6.0, 8.0, 2_000)
    density = np.exp(log_density(rows, grid, log_prior))
    assert weights.std() > 0.1 * weights.mean()
    for value in (np.ones_like, np.tanh, np.square):
        expected = integrate.simpson(density * value(grid), x=grid)
        terms = weights * value(u)
        error = terms.std() / np.sqrt(len(terms))
        assert abs(terms.mean() - expected) < LARGEST_Z * error
    assert total != pytest.approx(np.log(density.sum() * (grid[1] - grid[0])), abs=1e-4)


def configuration(rows, log_prior, scale, states=(0,) * T):
    """Of one sequence."""
    now, lengths = moves.start("ds", L, (T,), "weak-limit", states=states)
    prior = np.repeat(PRIOR, L, axis=0)
    draw = lambda rng: np.log(np.abs(rng.normal(0.0, scale, 1)))  # noqa: E731
    kept = np.log(np.full((L, 1), scale))
    marginals = ScaledMarginals(side_by_side(rows), prior[:, None], log_prior, draw, kept)
    return moves.Configuration(marginals, now.path, now.prior), lengths


def exact(rows, log_prior):
    """Probabilities of labelled paths, and the mean of the log scale of the first state."""
    u = np.linspace(-7.0, 6.0, 700)
    sets = [s for r in range(1, T + 1) for s in itertools.combinations(range(T), r)]
    logs = {s: log_density(rows[list(s)], u, log_prior) for s in sets}
    beta, log_w = moves.nodes_of(L, "weak-limit")
    paths = all_paths(L, T)
    total, means = np.empty(len(paths)), np.empty(len(paths))
    for p, z in enumerate(paths):
        total[p] = transitions(z, beta, log_w)
        for k in set(z):
            total[p] += logsumexp(logs[tuple(np.flatnonzero(z == k))]) + np.log(u[1] - u[0])
        first = logs[tuple(np.flatnonzero(z == z[0]))]
        means[p] = np.exp(first - logsumexp(first)) @ u
    shares = np.exp(total - logsumexp(total))
    return shares, shares @ means


def transitions(z, beta, log_w):
    """log p(z): the law of paths and counts, without that of the counts given the path."""
    whole = moves.log_joint(z, "ds", L, (T,), beta, log_w, (0,) * T)
    for k in range(L):
        s, m = moves.Y[z == k, 0].sum(), np.sum(z == k)
        a, b = moves.A, moves.B
        whole -= a * np.log(b) + moves.gammaln(a + s) - moves.gammaln(a) - (a + s) * np.log(b + m)
    return whole


def kept_scores(rounds, seed):
    """Scores of labelled paths, numbers of states, and the mean of the first state's log scale."""
    rng, batches = np.random.default_rng(seed), 20
    rows, scale = regression(T, 5), 1.5
    now, lengths = configuration(rows, PRIORS["half-normal"], scale)
    shares, mean = exact(rows, PRIORS["half-normal"])
    powers = L ** np.arange(T - 1, -1, -1)
    seen, scales = np.zeros((batches, L**T)), np.zeros(batches)
    original = now.propose

    def propose(rng, always=False):
        done = original(rng, always)
        batch = propose.count // (rounds * moves.MOVES)
        seen[batch, now.path.states @ powers] += 1
        scales[batch] += now.kept[now.path.states[0], 0]
        propose.count += 1
        return done

    propose.count = 0
    now.propose = propose
    moves.run(rng, batches, rounds, now, lengths, "weak-limit")
    n = rounds * moves.MOVES
    occupied = np.array([len(set(path)) for path in all_paths(L, T)])
    groups = [occupied == k for k in range(1, L + 1)]
    groups += [np.arange(len(shares)) == i for i in np.flatnonzero(shares > moves.COMMON)]
    found = np.column_stack([*(seen[:, g].sum(axis=1) / n for g in groups), scales / n])
    expected = np.array([*(shares[g].sum() for g in groups), mean])
    error = found.std(axis=0, ddof=1) / np.sqrt(batches)
    return (found.mean(axis=0) - expected) / error


@pytest.mark.slow
def test_paths_and_scales_have_their_law(coarse):
    """Moves that keep the scales, drawn from a wrong density, against enumeration."""
    z = kept_scores(1_000, 2)
    assert np.abs(z).max() < LARGEST_Z


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("which", ["drawn", "present"])
def test_weights_are_in_every_ratio(monkeypatch, which, sign):
    """A draw of great weight is taken, and one of little is not; of what is left, the reverse.

    Fails if the weights of what is kept are left out of a ratio, or their sign is changed.
    """
    great, draw = 1e9 * sign, ScaledMarginals.draw_kept
    if which == "drawn":
        drawn = lambda *a: (draw(*a)[0], np.full(len(a[3]), great))  # noqa: E731
        monkeypatch.setattr(ScaledMarginals, "draw_kept", drawn)
    else:
        weights = lambda self, moments, slots, kept: np.full(len(slots), great)  # noqa: E731
        monkeypatch.setattr(ScaledMarginals, "log_weights", weights)
    now, _ = configuration(regression(T, 5), PRIORS["half-normal"], 1.5, [0, 0, 1, 1, 1, 0])
    rng = np.random.default_rng(1)
    done = [now.propose(rng) for _ in range(300)]
    if (which == "drawn") == (sign > 0.0):
        assert min(done.count(kind) for kind in moves.KINDS) > 10
    else:
        assert not any(done)


def test_a_known_scale_needs_no_integral():
    """The evidence is the normal density of all numbers together; nothing is kept."""
    rows = regression(7)
    marginals = RegressionMarginals(
        side_by_side(rows) / 0.7, np.full(7, -np.log(0.7)), np.repeat(PRIOR, 2, axis=0)[:, None]
    )
    states = np.array([0, 0, 0, 0, 0, 0, 0])
    evidence = marginals.evidence(marginals.moments(states, 2), np.arange(2))
    expected = log_density(rows, np.log(0.7), lambda u: 0.0)
    np.testing.assert_allclose(evidence, [expected, 0.0], atol=1e-10)
    assert marginals.kept.shape == (2, 0)


if __name__ == "__main__":
    import sys

    make_coarse(setattr)
    for seed in range(1, 4):
        print(kept_scores(int(sys.argv[1]), seed).round(2), flush=True)
