"""Geweke's joint distribution test and simulation-based calibration of a combination.

A combination (``combinations.py``) is built once: its model, its compiled steps and the draws of
its prior in NumPy (``simulators.py``). Observed data sit in shared variables that take the place
of the constants PyMC made of them, so that new data need no compilation and the steps see them
at their next call.

Geweke (2004): the marginal-conditional simulator draws parameters from the prior and then data
given them; the successive-conditional one alternates a sweep of the sampler with fresh data
given its current point. If each step leaves the posterior invariant, every statistic has the
same mean under both.

Calibration (Cook, Gelman & Rubin 2006; Talts et al. 2018): of parameters drawn from the prior and
data given them, the rank of a statistic among independent posterior draws is uniform. The chain
starts from the parameters themselves, so that every draw has the posterior's law. Ranks among
correlated draws are not uniform: those kept lie further apart than the longest
autocorrelation times (31 sweeps of phi, 54 of gamma).
"""

import warnings
import zlib

import numpy as np
import pymc as pm
import pytensor
from families import FAMILIES, SCALES, L, value_points
from pymc.exceptions import ImputationWarning
from reference import monte_carlo_error
from scipy import stats
from simulators import (
    declare_prior,
    draw_paths,
    first_rows,
    natural,
    parameters_at,
    prior_points,
    statistics,
    transition_matrices,
)

import pymc_dshdp as dshdp

LARGE, LARGEST = 4.0, 5.0  # of |z|: at most one statistic above the first, none above the second
T = 16
LENGTHS = {"one": [16], "ragged": [9, 1, 6], "missing": [10, 6]}
MISSING = np.array([0, 3, 4, 9, 10, 15])
GRID = (4, 4)  # coarse, so that the Metropolis correction of the refined draw has much to correct
MIDPOINTS = (8, 8)
RANKED_DRAWS = 9  # so that each of 10 cells holds one rank
THIN = 60  # sweeps from the truth to the first ranked draw, and from one to the next


def seed_of(kind, combination, seed=1):
    """Seed of one run of the suite: each has its own, the same in the tests as in the benchmark."""
    return seed + zlib.crc32(f"{kind} {combination.name}".encode()) % 1_000_000


def share_observations(model):
    """Put the observed constants of a model into shared variables; returns them by name."""
    shared = {}
    for rv in model.observed_RVs:
        constant = model.rvs_to_values[rv]
        data = np.asarray(constant.data)
        value = pytensor.shared(data, name=constant.name, shape=data.shape)
        model.rvs_to_values[rv] = value
        del model.values_to_rvs[constant]
        model.values_to_rvs[value] = rv
        shared[rv.name] = value
    return shared


class Setup:
    """Model, steps and simulators of one combination.

    Attributes
    ----------
    model : pymc.Model
    steps : list
        In the order in which a sweep calls them.
    lengths : list of int
    """

    def __init__(self, combination, seed=0):
        c = self.combination = combination
        self.family, self.lengths = FAMILIES[c.family], LENGTHS[c.layout]
        self.rng = np.random.default_rng(seed)
        self.known = self.mask = None
        first = np.zeros((T, *self.family.shape), self.family.dtype)
        first[...] = getattr(self.family, "first", 0)
        self._first = first
        if c.layout == "missing":
            self.known = [x[0] for x in self.family.prior(np.random.default_rng(5), 1).values()]
            self.mask = np.zeros(first.shape, bool)
            self.mask[MISSING] = True
            if self.family.shape:
                self.mask[7, 0] = True  # and a cell of its own
            first = np.ma.MaskedArray(first, self.mask)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImputationWarning)
            self.model = self._declare(first)
        self._shared = share_observations(self.model)
        self.steps = self._make_steps()

    def _declare(self, data):
        c = self.combination
        with pm.Model() as model:
            prior = declare_prior(c.prior, c.weights, c.groups, covariates=c.covariates)
            group = np.minimum(np.arange(len(self.lengths)), c.groups - 1)
            group = None if c.groups == 1 else group
            z = dshdp.HiddenStates("z", prior, lengths=self.lengths, group=group)
            known = self.known is not None
            theta = self.known if known else self.family.parameters()
            self.family.likelihood(z, data, *(pm.math.constant(x) if known else x for x in theta))
        return model

    def _make_steps(self):
        c, model = self.combination, self.model
        z = model["z"]
        with model:
            if c.sampler == "ffbs":
                steps = [dshdp.WeakLimitFFBS([z])]
            else:
                collapse = "auto" if c.sampler == "direct-collapsed" else False
                steps = [dshdp.DSBlockGibbs([z], collapse=collapse)]
            if c.prior == "ds" or c.covariates:
                grid = GRID if c.refine else MIDPOINTS
                steps.append(dshdp.GridRhoStep([z], grid=grid, refine=c.refine))
            owned = {v for step in steps for v in step.vars}
            theta = [v for v in model.value_vars if v not in owned]
            if c.sampler == "direct-collapsed":  # all, or what is left of two that are not joint
                assert len(theta) < len(self.family.scales)
            if theta and c.family == "laplace":
                steps.append(pm.Slice(theta, compile_kwargs={"mode": "NUMBA"}))
            elif theta:
                theta = [model.values_to_rvs[v] for v in theta]
                sliced = [v for v in theta if v.name in getattr(self.family, "sliced", ())]
                conjugate = [v for v in theta if v not in sliced]
                steps += [dshdp.ConjugateStep(conjugate)] if conjugate else []
                steps += [dshdp.SliceEmissionStep(sliced)] if sliced else []
        assert {v for step in steps for v in step.vars} == set(model.value_vars)
        for step, rng in zip(steps, self.rng.spawn(len(steps)), strict=True):
            step.stop_tuning()
            step.rng = rng
        return steps

    # -- the two simulators -----------------------------------------------------------------

    def prior(self, rng, n):
        """Draw n points with paths, and their data: (points, y)."""
        c = self.combination
        grid = None if c.refine else MIDPOINTS
        points = prior_points(rng, n, c.prior, c.weights, grid, c.groups, c.covariates)
        points["z"] = draw_paths(rng, natural(points), self.lengths)
        if self.known is None:
            points |= value_points(self.family, self.family.prior(rng, n))
        y = self.data(rng, points)
        if self.mask is not None:
            suffix, value, _ = self._missing_scale()
            points[f"y_unobserved{suffix}"] = value(y[:, self.mask])
        return points, y

    def _missing_scale(self):
        return SCALES[getattr(self.family, "data_scale", "natural")]

    def data(self, rng, points):
        """Draw data given points: (n, T, ...)."""
        at = parameters_at(self.family, points, points["z"], self.known)
        return self.family.simulate(rng, self.lengths, *at)

    def point(self, points, i):
        """One of the simulated points as a point of the model."""
        start = self.model.initial_point()
        assert start.keys() == points.keys()
        return {name: np.asarray(points[name][i], x.dtype) for name, x in start.items()}

    def observe(self, y):
        """Give the model new data; what is masked in them is not looked at."""
        y = y if self.mask is None else y[~self.mask]
        parts = getattr(self.family, "parts", {})  # where each of several likelihoods has its data
        for name, shared in self._shared.items():
            part = y[..., parts[name]] if parts else y
            shared.set_value(np.asarray(part, shared.dtype).reshape(_shape_of(shared)))

    def sweep(self, point):
        """Call every step once."""
        for step in self.steps:
            point, _ = step.step(point)
        return point

    def statistics(self, points, y):
        """Statistics by name of stacked points and data; masked entries are those of the points."""
        if self.mask is not None:
            y = y.copy()
            suffix, _, natural_scale = self._missing_scale()
            y[:, self.mask] = natural_scale(points[f"y_unobserved{suffix}"])
        weights = self.combination.weights
        return statistics(self.family, points, y, self.lengths, self.known, weights)

    def successive(self, n, start=None):
        """n points of the successive-conditional simulator and the data of each."""
        point = self.point(self.prior(self.rng, 1)[0], 0) if start is None else start
        chain, data = [], []
        for _ in range(n):
            y = self.data(self.rng, {name: x[None] for name, x in point.items()})[0]
            self.observe(y)
            point = self.sweep(point)
            chain.append(point)
            data.append(y)
        return stack(chain), np.array(data)


def _shape_of(shared):
    return shared.get_value(borrow=True).shape


def stack(chain):
    """Points of a chain, draws along the first axis."""
    return {name: np.array([point[name] for point in chain]) for name in chain[0]}


# -- Geweke -----------------------------------------------------------------------------------


def z_scores(independent, chain):
    """Differences of the means of two arrays (draws, statistics), in standard errors.

    The first array holds independent draws; the error of the second comes from its effective
    sample size.
    """
    assert np.isfinite(independent).all()
    assert np.isfinite(chain).all()
    error = np.hypot(
        independent.std(axis=0) / np.sqrt(len(independent)),
        [monte_carlo_error(column) for column in chain.T],
    )
    difference = chain.mean(axis=0) - independent.mean(axis=0)
    return np.where(difference == 0.0, 0.0, difference / np.where(error > 0.0, error, 1e-300))


def same_means(z):
    """Whether the two simulators agree: at most one |z| above 4, and none above 5."""
    return np.sum(np.abs(z) > LARGE) <= 1 and np.max(np.abs(z)) < LARGEST


def assert_same_means(names, independent, chain):
    z = z_scores(independent, chain)
    order = np.argsort(-np.abs(z))
    assert same_means(z), ", ".join(f"{names[i]} {z[i]:.1f}" for i in order[:6])


def geweke(setup, sweeps, independent=40_000):
    """Run both simulators: statistic -> (mean of independent draws, of the chain, z)."""
    expected = setup.statistics(*setup.prior(setup.rng, independent))
    found = setup.statistics(*setup.successive(sweeps))
    first, second = (np.array(list(s.values())).T for s in (expected, found))
    columns = zip(first.mean(axis=0), second.mean(axis=0), z_scores(first, second), strict=True)
    return dict(zip(expected, columns, strict=True))


# -- Simulation-based calibration ---------------------------------------------------------------


def log_evidence(values, log_likelihoods, lengths):
    """Log-likelihood with the paths summed out: of n parameter draws, tables (n, T, L)."""
    P, group = transition_matrices(values), first_rows(values, lengths)
    total, t = 0.0, 0
    for length in lengths:
        predicted = values["first"]
        for i in range(t, t + length):
            top = log_likelihoods[:, i].max(axis=1, keepdims=True)
            joint = predicted * np.exp(log_likelihoods[:, i] - top)
            norm = joint.sum(axis=1, keepdims=True)
            total = total + (top + np.log(norm))[:, 0]
            after = group[min(i + 1, t + length - 1)]
            own = P[:, after : after + L]
            predicted = ((joint / norm)[:, :, None] * own).sum(axis=1)
        t += length
    return total


def ranked_statistics(setup, points, held_out):
    """The quantities whose ranks are taken, of stacked points: name -> (n,).

    The held-out data are of another draw of the prior: a statistic must not know more of the
    truth than the data that the posterior is given.
    """
    values, z = natural(points), points["z"].astype(np.int64)
    out = {
        "occupied states": (z[:, :, None] == np.arange(L)).any(axis=1).sum(axis=1),
        "co-assignment": z[:, T // 3] == z[:, T // 3 + 4],
    }
    out |= {"active states": values["active"].sum(axis=1)} if "active" in values else {}
    out |= {key: values[key] for key in ("gamma", "alpha", "s", "phi", "eta") if key in values}
    n = len(z)
    y = np.repeat(held_out[None], n, axis=0)
    states = np.broadcast_to(np.arange(L)[:, None, None], (L, n, len(held_out)))
    table = np.stack(
        [
            setup.family.log_density(
                setup.lengths, y, *parameters_at(setup.family, points, path, setup.known)
            )
            for path in states
        ],
        axis=-1,
    )
    out["held-out log-likelihood"] = log_evidence(values, table, setup.lengths)
    return {key: np.asarray(x, float) for key, x in out.items()}


def calibrate(setup, replications, draws=RANKED_DRAWS, thin=THIN):
    """Ranks of the truth among posterior draws, ties broken at random: name -> (replications,).

    A rank is an integer from 0 to ``draws``, uniform if the sampler is exact.
    """
    rng = setup.rng
    truths, data = setup.prior(rng, replications)
    _, held_out = setup.prior(rng, replications)
    ranks = {}
    for i in range(replications):
        setup.observe(data[i])
        point = setup.point(truths, i)
        chain = [point]
        for _ in range(draws):
            for _ in range(thin):
                point = setup.sweep(point)
            chain.append(point)
        for name, x in ranked_statistics(setup, stack(chain), held_out[i]).items():
            below, ties = np.sum(x[1:] < x[0]), np.sum(x[1:] == x[0])
            ranks.setdefault(name, []).append(below + rng.integers(ties + 1))
    return {name: np.array(x) for name, x in ranks.items()}


def chi_square(ranks, draws):
    """p-value of uniformity of ranks in 0..draws."""
    return stats.chisquare(np.bincount(ranks, minlength=draws + 1)).pvalue


class EcdfBand:
    """Simultaneous band of the distribution function of n uniform numbers.

    Säilynoja, Bürkner & Vehtari (2022), section 3.1: at each of the points z_i the count of
    numbers up to z_i is Binomial(n, z_i); with a common pointwise level gamma, whose distribution
    under uniformity is simulated, all counts lie inside their intervals with probability 1 - a.

    Attributes
    ----------
    points : ndarray of shape (K,)
    lower, upper : ndarray of shape (K,)
        The band of the distribution function.
    """

    def __init__(self, n, coverage=0.95, K=100, simulations=10_000, seed=0):
        self.n = n
        self.points = np.arange(1, K) / K
        counts = np.arange(-1, n + 1)
        self._cdf = stats.binom.cdf(counts[:, None], n, self.points)  # row r + 1: P(R <= r)
        uniform = np.random.default_rng(seed).random((simulations, n))
        self._null = np.sort([self._level(u) for u in uniform])
        gamma = np.quantile(self._null, 1.0 - coverage)
        self.lower = stats.binom.ppf(gamma / 2.0, n, self.points) / n
        self.upper = stats.binom.ppf(1.0 - gamma / 2.0, n, self.points) / n

    def _level(self, u):
        """Smallest pointwise level at which some count leaves its interval."""
        R = np.searchsorted(np.sort(u), self.points, side="right")
        i = np.arange(len(self.points))
        return 2.0 * np.minimum(self._cdf[R + 1, i], 1.0 - self._cdf[R, i]).min()

    def p_value(self, u):
        """Share of uniform samples that stray at least as far as ``u`` does."""
        position = np.searchsorted(self._null, self._level(u), side="right")
        return (position + 1) / (len(self._null) + 1)


def unit_ranks(rng, ranks, draws):
    """Ranks as numbers in (0, 1), uniform where the ranks are."""
    return (ranks + rng.random(len(ranks))) / (draws + 1)
