r"""Splits and merges of states alike whose parameters do not integrate out.

The state of the move is (z, beta, theta) with a vector theta_k of each state (``StateParameters``),
given alpha, gamma, rho and whatever the states share; rows, kappa and the w are integrated out,
and redrawn after an acceptance. A split of a at the time i, as in ``kernels.split_merge``, chooses
one b of the E empty states and divides the times S of a by ``prior_division``, with B for b.
theta_a stays, and theta_b comes from a density g about what one Newton step makes of theta_a for
the data of B,

    H = (|B| / |S|) sum_{t in S} s_t s_t' + 1 / spread^2,
    m = theta_a + H^-1 (sum_{t in B} s_t + (middle - theta_a) / spread^2)

with the scores s_t = d log p(y_t | theta_a) / d theta_a; g is Student t with 5 degrees of freedom
about m with precision H. A merge with b draws theta_b anew from its prior, as that of an empty
state; g is the same then, as S, B and theta_a are. The prior of theta_b of the empty state cancels
with that draw, so that, with pi of (z, beta) and q of path and share as there,

    log ratio of a split = log pi(divided) - log pi(merged) + log E
        + log q(share | merged) - log q(share | divided) - log q(path) + log s(b | a; divided)
        + log p(theta_b) - log g(theta_b)
        + sum_{t in B} [log p(y_t | theta_b) - log p(y_t | theta_a)]

and a merge has minus that. s(b | a) rises with sum_{t: z_t = b} [log p(y_t | theta_a)
- log p(y_t | theta_b)].
"""

import logging
import math

import numpy as np
from pymc.exceptions import SamplingError

from pymc_dshdp.kernels.split_merge import (
    Proposal,
    accept,
    partner_probabilities,
    vacant_states,
    weigh,
)
from pymc_dshdp.likelihood.laplace import LaplaceMarginals
from pymc_dshdp.likelihood.state_parameters import NoVectors, StateParameters
from pymc_dshdp.steps.configuration import Configuration
from pymc_dshdp.steps.divisions import PriorDivision
from pymc_dshdp.steps.folding import fold
from pymc_dshdp.steps.improving import improve
from pymc_dshdp.steps.path_moves import PathMoves
from pymc_dshdp.steps.split_merge import Moves

__all__ = ["ExplicitSplitMerge"]

_log = logging.getLogger(__name__)

FREEDOM = 5.0
STEP = 1e-5  # of forward differences, in spreads of the prior
UNUSABLE = SamplingError, np.linalg.LinAlgError
"""Where the likelihood cannot have a parameter, or scores overflow: g is as little there for the
way back, so that no move is made in either direction."""
MERGED, SPLIT = 4_000_000, 40_000  # T L^2 and T L up to which tuning merges, and splits too


class ExplicitSplitMerge:
    """Split-merge moves of one prior at the parameters as they are.

    Parameters
    ----------
    model : pymc.Model
    prior : TransitionModel
    sampler : PriorSampler
        With ``paths``, ``tables``, ``transition`` and ``joint``.
    start : dict
    missing : list of random variables
        Missing observations, which the table is without.

    Attributes
    ----------
    available : bool
        False where kappa or the rows do not integrate out, the prior has several states variables
        or observed ones, or the states have no ``StateParameters``.
    effort : float
        See ``SplitMerge``: fewer proposals are accepted than there, and iterations take longer.
    """

    effort, sums_out_missing = 2.0, True

    def __init__(self, model, prior, sampler, start, missing):
        persistence = sampler.joint.persistence
        self.available = persistence.available and prior.gamma is not None
        self.available &= len(prior.states) == 1 and not prior.observed
        if not self.available:
            return
        try:
            [z] = prior.states
            self._vectors = StateParameters(model, z, prior.n_states, start, missing)
        except NoVectors as error:
            _log.debug("no splits and merges: %s", error)
            self.available = False
            return
        [self._table] = sampler.tables
        self._moves = PathMoves(sampler.paths, sampler.transition, persistence)

    def __call__(self, point, rng, n_proposals):
        """Make proposals; (point, ``Moves``, NaN in the place of ``log_joint``)."""
        if n_proposals == 0:
            return point, Moves(0, 0, 0), np.nan
        now = _Configuration(self._vectors, self._table, self._moves, point)
        done = [now.propose(rng) for _ in range(n_proposals)]
        moves = Moves(done.count("split"), done.count("merge"), 0)
        if any(moves):
            point = self._vectors.write(point, now.theta)
            point = self._moves.write(point, now.path, now.prior, rng)
        return point, moves, np.nan

    def improve(self, point, rng, splits=True):
        """Merge, split and resplit, while tuning, wherever that raises Laplace's evidence.

        Parameters of states that were changed are put at their modes.
        """
        path, prior = self._moves.read(point)
        T, L = len(path.states), len(path.log_beta)
        if T * L**2 > MERGED:
            return point
        marginals = LaplaceMarginals(self._vectors, self._table, point)
        try:
            now = Configuration(marginals, path, prior)
            improve(now, rng, splits and T * L <= SPLIT)
            fold(now, rng)
        except UNUSABLE:
            return point
        return self._moves.write(self._vectors.write(point, now.kept), now.path, now.prior, rng)

    def rehearse(self, point):
        """Have the kernels compiled."""
        now = _Configuration(self._vectors, self._table, self._moves, point)
        rng = np.random.default_rng(0)
        for _ in range(12):
            now.propose(rng, always=True)
        self._moves.write(point, now.path, now.prior, rng)


class _Configuration:
    """Path, weights and parameters, that moves change."""

    def __init__(self, vectors, table, moves, point):
        self._vectors, self._table, self._point = vectors, table, point
        self.path, self.prior = moves.read(point)
        self.theta, self._columns = vectors.read(point), table(point)

    def propose(self, rng, always=False):
        """Make one proposal; "split" or "merge" if it was accepted, otherwise ""."""
        split, i = rng.random() < 0.5, rng.integers(len(self.path.states))
        if self.path.pinned[self.path.states[i]]:
            return ""
        level = np.inf if always else rng.standard_exponential()
        try:
            done = (self._split if split else self._merge)(rng, i, level)
        except UNUSABLE:
            return ""
        return ("split" if split else "merge") if done else ""

    def _split(self, rng, i, level):
        path, a = self.path, self.path.states[i]
        times, empty = np.flatnonzero(path.states == a), vacant_states(path, self.prior)
        if len(times) < 2 or empty.size == 0:
            return False
        slots = np.array([a, empty[rng.integers(empty.size)]])
        sides, log_q = PriorDivision(self, rng).draw(times, i, slots)
        if not sides.any():
            return False
        near = self._near(a, times, sides)
        theta = self.theta.copy()
        theta[slots[1]] = near.draw(rng)
        point, columns = self._at(theta, slots[1:])
        log_prior = self._vectors.log_prior(point)[slots[1]]
        gain = self._gain(times[sides == 1], columns[:, 0], a)
        if not np.isfinite(gain):
            return False
        proposal = Proposal(True, *slots, times, sides)
        weighing = weigh(rng, path, self.prior, proposal)
        partners, gains = self._partners(a)
        log_s = np.log(partner_probabilities(np.append(gains, -gain))[-1])
        log_ratio = weighing.log_ratio + log_s + np.log(empty.size) - log_q
        log_ratio += gain + log_prior - near.log_density(theta[slots[1]])
        if not -level < log_ratio:
            return False
        accept(path, proposal, weighing)
        self.theta, self._columns[:, slots[1]] = theta, columns[:, 0]
        return True

    def _merge(self, rng, i, level):
        path, a = self.path, self.path.states[i]
        partners, gains = self._partners(a)
        if partners.size == 0:
            return False
        s = partner_probabilities(gains)
        c = min(np.searchsorted(np.cumsum(s), rng.random()), len(s) - 1)
        slots = np.array([a, partners[c]])
        times = np.flatnonzero((path.states == a) | (path.states == slots[1]))
        sides = (path.states[times] == slots[1]).astype(np.int64)
        log_q = PriorDivision(self, rng).log_probability(times, i, slots, sides)
        proposal = Proposal(False, *slots, times, sides)
        weighing = weigh(rng, path, self.prior, proposal)
        n_empty = vacant_states(path, self.prior).size + 1
        log_ratio = weighing.log_ratio + np.log(s[c]) + np.log(n_empty) - log_q
        near = self._near(a, times, sides)
        log_prior = self._vectors.log_prior(self._vectors.write(self._point, self.theta))
        log_ratio += log_prior[slots[1]] - near.log_density(self.theta[slots[1]]) - gains[c]
        drawn = self._vectors.draw(self._point, rng, slots[1])
        if not -level < -log_ratio or not np.isfinite(drawn).all():
            return False
        accept(path, proposal, weighing)
        self.theta[slots[1]] = drawn
        return True

    def _partners(self, a):
        """(states that a can be merged with, what their data gain by theta_a)."""
        states, L = self.path.states, len(self.theta)
        own = self._columns[np.arange(len(states)), states]
        with np.errstate(invalid="ignore"):
            lost = np.where(own > -np.inf, self._columns[:, a] - own, 0.0)  # -inf at a start alone
        gains = np.bincount(states, lost, minlength=L)
        others = (np.bincount(states, minlength=L) > 0) & ~self.path.pinned
        others[a] = False
        return np.flatnonzero(others), gains[others]

    def _gain(self, times, column, a):
        return (column[times] - self._columns[times, a]).sum()

    def _at(self, theta, states):
        """(point, columns of the table of some states) with other vectors."""
        point = self._vectors.write(self._point, theta)
        return point, self._table.rows(point, states)(0, len(self.path.states))

    def _near(self, a, times, sides):
        """Build g: what is known of the parameters of the times of side 1, from theta_a."""
        v, own = self._vectors, self.theta[a]
        h, d, L = STEP * v.spread, v.size, len(self.theta)
        scores = np.empty((len(times), d))
        for low in range(0, d, L):
            which = np.arange(low, min(low + L, d))
            theta = np.tile(own, (L, 1))
            theta[which - low, which] += h[which]
            _, columns = self._at(theta, which - low)
            scores[:, which] = columns[times] - self._columns[times, a, None]
        with np.errstate(invalid="ignore"):
            scores /= h
        scores[~np.isfinite(scores)] = 0.0
        weight = v.spread**-2.0
        with np.errstate(over="ignore"):
            H = sides.mean() * scores.T @ scores + np.diag(weight)
        slope = scores[sides == 1].sum(axis=0) + weight * (v.middle - own)
        return _StudentT(own + np.linalg.solve(H, slope), np.linalg.cholesky(H))


class _StudentT:
    """Student t about ``middle`` with precision ``root @ root.T``."""

    def __init__(self, middle, root):
        self._middle, self._root = middle, root

    def draw(self, rng):
        normal = rng.standard_normal(len(self._middle))
        scale = math.sqrt(FREEDOM / rng.chisquare(FREEDOM))
        return self._middle + scale * np.linalg.solve(self._root.T, normal)

    def log_density(self, x):
        d, z = len(x), self._root.T @ (x - self._middle)
        out = math.lgamma(0.5 * (FREEDOM + d)) - math.lgamma(0.5 * FREEDOM)
        out += np.log(np.diag(self._root)).sum() - 0.5 * d * math.log(FREEDOM * math.pi)
        return out - 0.5 * (FREEDOM + d) * math.log1p(z @ z / FREEDOM)
