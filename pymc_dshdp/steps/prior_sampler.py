"""What a sampler of the states does for one prior: starts, paths and the transition block."""

import numpy as np

from pymc_dshdp.kernels.blocks import PIECE_ELEMENTS
from pymc_dshdp.kernels.counts import occupied_states
from pymc_dshdp.kernels.simulation import first_impossible_time
from pymc_dshdp.likelihood.table import LogLikelihoodTable
from pymc_dshdp.steps._common import PathReader
from pymc_dshdp.steps.explicit_split_merge import ExplicitSplitMerge
from pymc_dshdp.steps.impossible import raise_impossible
from pymc_dshdp.steps.joint import JointDensity
from pymc_dshdp.steps.pilots import cross_paths, paths_apart
from pymc_dshdp.steps.split_merge import SplitMerge
from pymc_dshdp.steps.starting import (
    alike,
    default_path,
    initial_paths,
    numbered,
    numbered_by_time,
    possible_path,
)

__all__ = ["PriorSampler"]

FEWEST = 16  # free times that start from the data; fewer may be given any path by initvals


class PriorSampler:
    """The states and the transition block of one prior."""

    keeps_parameters = True  # integrates none of the states' out

    def __init__(self, model, prior, step, start, missing):
        self.n_states = prior.n_states
        self.truncated = prior.gamma is not None and bool(prior.states)
        self.paths = PathReader(model, prior, start)
        self.tables = [
            LogLikelihoodTable(model, z, prior.n_states, missing, start) for z in prior.states
        ]
        self.transition = prior.update(model, step)
        self._constrained = prior.constrained
        self._initial = start  # other steps may have moved parameters before the path is there
        self.n_times = int(sum(lengths.sum() for lengths in self.paths.lengths))
        self._n_free = [
            lengths.sum() if known is None else (known < 0).sum()
            for lengths, known in zip(self.paths.lengths, self.paths.known, strict=True)
        ]
        self.joint = JointDensity(model, prior, self.paths, self.transition)
        self.split_merge = SplitMerge(model, prior, self.paths, self.transition, self.joint)
        self.moves = self.split_merge
        if not self.moves.available and self.keeps_parameters:
            self.moves = ExplicitSplitMerge(model, prior, self, start, missing)
        for i, (value, table) in enumerate(zip(self.paths.values, self.tables, strict=True)):
            _refuse_hopeless(value.name, table, start)
            self._refuse_impossible(i, start, start[value.name], "the starting path of")
            if self.paths.initial[i] is not None:
                self._refuse_impossible(i, start, self.paths.initial[i], "initial_states of")
        self.exclusive = [model.rvs_to_values[rv] for rv in self.transition.rvs]
        self.vars = self.paths.values + self.exclusive

    def starts_from_data(self, point):
        """Whether all paths of a point are replaced by segmentations of the data."""
        return len(self._of_data(point)) == len(self.tables)

    def _of_data(self, point):
        """Which of the states start from the data: those whose path is the default one."""
        initial = self.paths.initial
        here = [i for i, x in enumerate(initial) if x is None and self._is_default(i, point)]
        return here if sum(self._n_free[i] for i in here) >= FEWEST else []

    def _is_default(self, i, point):
        path, known = np.ravel(point[self.paths.values[i].name]), self.tables[i].known
        given = self.transition.transitions(point, self.tables[i].shape, i)
        lengths = self.paths.lengths[i]
        return np.array_equal(path, default_path(*given, lengths, self._constrained, known))

    def _refuse_impossible(self, i, point, path, what):
        """Raise if a path takes a transition, or begins in a state, of probability 0."""
        path, lengths, shape = np.ravel(path), self.paths.lengths[i], self.tables[i].shape
        if path.min() < 0 or path.max() >= self.n_states:
            return  # said elsewhere
        time = first_impossible_time(path, *self.transition.transitions(point, shape, i), lengths)
        if time >= 0:
            name, first = self.paths.values[i].name, time in np.cumsum(lengths) - lengths
            move = "begin in" if first else f"go from state {path[time - 1]} to"
            raise ValueError(
                f"{what} {name!r} has probability 0: it cannot {move} state {path[time]} at "
                f"position {time}, where the transition has probability 0; give a path that is "
                "possible"
            )

    def start(self, point, rng, kind=None):
        """Replace default starting paths by those declared, or by segmentations of the data."""
        unknown = self._of_data(point)
        found = {
            i: path
            for i, path in enumerate(self.paths.initial)
            if path is not None and self._is_default(i, point)
        }
        for group in alike([self.tables[i] for i in unknown]):
            members = [unknown[i] for i in group]
            lengths = np.concatenate([self.paths.lengths[i] for i in members])
            tables = [self.tables[i] for i in members]
            paths = initial_paths(tables, lengths, self.n_states, rng, kind)
            told = None
            if all(table.known is None for table in tables):
                told = numbered(paths, tables, self._initial, self.n_states)
            for i, path in zip(members, paths if told is None else told, strict=True):
                if self._constrained:
                    given = self.transition.transitions(point, self.tables[i].shape, i)
                    lengths = self.paths.lengths[i]
                    path = path if told is not None else numbered_by_time(path, lengths)
                    path = possible_path(path, *given, lengths, self.tables[i].known)
                found[i] = path
        new = {}
        for i, path in found.items():
            value = self.paths.values[i]
            new[value.name] = path.astype(value.dtype).reshape(point[value.name].shape)
        return self._opened({**point, **new})

    def _opened(self, point):
        return self.transition.opened(point, self.paths.counts(point))

    def cross(self, point, other):
        """Divide the states of a point by those of another; see ``cross_paths``."""
        known, crossed = self.paths.known, cross_paths(*self._both(point, other), self.n_states)
        new, low = {}, 0
        for value, given in zip(self.paths.values, known, strict=True):
            path = crossed[low : low + point[value.name].size]
            low += path.size
            path = path if given is None else np.where(given >= 0, given, path)
            new[value.name] = path.astype(value.dtype).reshape(point[value.name].shape)
        return self._opened({**point, **new})

    def apart(self, point, other):
        """Find how much the paths of two points differ; see ``paths_apart``."""
        return paths_apart(*self._both(point, other), self.n_states)

    def _both(self, point, other):
        names = [value.name for value in self.paths.values]
        return (np.concatenate([np.ravel(p[name]) for name in names]) for p in (point, other))

    def draw_states(self, point, rng, threads=1):
        """Draw new paths by forward filtering and backward sampling.

        Returns the point and the log marginal likelihood of the data.
        """
        total = 0.0
        for i, (value, table, lengths) in enumerate(
            zip(self.paths.values, self.tables, self.paths.lengths, strict=True)
        ):
            uniforms = rng.random(lengths.sum())
            draw = self.transition.draw_path(table, point, lengths, uniforms, threads, i)
            if draw.impossible_time >= 0:
                raise_impossible(value.name, table, table.rows(point), draw.impossible_time)
            path = draw.states.astype(value.dtype).reshape(point[value.name].shape)
            point = {**point, value.name: path}  # the next path may share its likelihood
            total += draw.log_marginal_likelihood.sum()
        return point, total

    def log_path_posterior(self, point, rng):
        """Log p(z | y, theta, P) of the path of a point."""
        _, log_marginal = self.draw_states(point, rng)
        pi_init, P = self.transition.transition_probabilities(point)
        rows = np.vstack([pi_init, P.reshape(-1, self.n_states)])
        counts = self.paths.free_counts(point)
        out = (counts[counts > 0] * np.log(rows[counts > 0])).sum() - log_marginal
        for value, table in zip(self.paths.values, self.tables, strict=True):
            path, here = np.ravel(point[value.name]), table.rows(point)
            for low in range(0, path.size, PIECE_ELEMENTS // self.n_states):
                piece = path[low : low + PIECE_ELEMENTS // self.n_states]
                rows = here(low, low + piece.size)
                out += rows[np.arange(piece.size), piece].sum()
        return out

    def evidence(self, point, rng):
        """About log p(y | beta, alpha, rho) of the mode that a point is in; see ``pilots``."""
        return self.joint(point) - self.log_path_posterior(point, rng)

    def redraw(self, point, rng):
        """Draw what only this sampler draws beside paths and transitions: nothing."""
        return point

    def draw_transitions(self, point, rng):
        """Draw the transition block; returns the point and the number of occupied states."""
        counts = self.paths.counts(point)
        switches, persistences = self.transition.split(point, counts, self.paths, rng)
        new = self.transition(point, switches, persistences, rng)
        return {**point, **new}, occupied_states(counts)


def _refuse_hopeless(name, table, start):
    """Raise if an observation has no finite log-density at the starting point."""
    rows, T = table.rows(start), int(np.prod(table.shape))
    size = max(1, PIECE_ELEMENTS // table.n_states)
    for low in range(0, T, size):
        ell = rows(low, min(low + size, T))
        hopeless = np.flatnonzero(~np.isfinite(ell).any(axis=1) | np.isnan(ell).any(axis=1))
        if hopeless.size:
            raise_impossible(name, table, rows, low + hopeless[0], " at the starting point")
