"""What the samplers of the states share: their priors, the start, the hold and the warning."""

import warnings
from dataclasses import field

import numpy as np
from pymc.model import modelcontext
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.graph.traversal import ancestors
from rich.progress import TextColumn
from rich.table import Column

from pymc_dshdp._compat import ChainStep
from pymc_dshdp.kernels.blocks import PIECE_ELEMENTS
from pymc_dshdp.kernels.counts import occupied_states
from pymc_dshdp.kernels.simulation import first_impossible_time
from pymc_dshdp.likelihood.missing import MissingValues, is_missing_observation
from pymc_dshdp.likelihood.table import LogLikelihoodTable, terms_involving
from pymc_dshdp.steps._common import PathReader, chain_number, select_priors
from pymc_dshdp.steps.conjugate import ConjugateStep
from pymc_dshdp.steps.grid_rho import GridRhoStep
from pymc_dshdp.steps.impossible import raise_impossible
from pymc_dshdp.steps.joint import JointDensity
from pymc_dshdp.steps.pilots import best_of_pilots, cross_paths, plan_of
from pymc_dshdp.steps.split_merge import SplitMerge
from pymc_dshdp.steps.starting import alike, default_path, initial_paths, possible_path
from pymc_dshdp.transitions import find_transitions

__all__ = ["HELD_ITERATIONS", "PriorSampler", "StatesStep", "StatesStepState"]

HELD_ITERATIONS = 50
FULL_SHARE = 0.01
FULL_DRAWS = 100
PLAIN = 4  # one chain in so many starts plainly
SHORTEST_TUNING = 50  # iterations; below, a chain is not improved
IMPROVED = (0.05, 0.2, 0.5, 0.8)  # of the tuning iterations


@dataclass_state
class StatesStepState(StepMethodState):
    """Sampling state of a step that draws hidden states."""

    tune: bool
    hold: int
    held: int
    draws: int
    full: int
    warned: bool
    piloted: bool
    tuned: int
    n_tune: int
    plain: bool
    pilots: bool = field(metadata={"frozen": True})


class PriorSampler:
    """The states and the transition block of one prior."""

    def __init__(self, model, prior, step, start, missing):
        self.n_states = prior.n_states
        self.truncated = prior.gamma is not None and bool(prior.states)
        self.paths = PathReader(model, prior, start)
        self.tables = [
            LogLikelihoodTable(model, z, prior.n_states, missing, start) for z in prior.states
        ]
        self.transition = prior.update(model, step)
        self._constrained = prior.constrained
        self.n_times = int(sum(lengths.sum() for lengths in self.paths.lengths))
        self.joint = JointDensity(model, prior, self.paths, self.transition)
        self.split_merge = SplitMerge(model, prior, self.paths, self.transition, self.joint)
        for i, (value, table) in enumerate(zip(self.paths.values, self.tables, strict=True)):
            _refuse_hopeless(value.name, table, start)
            self._refuse_impossible(i, start, start[value.name], "the starting path of")
            if self.paths.initial[i] is not None:
                self._refuse_impossible(i, start, self.paths.initial[i], "initial_states of")
        self.exclusive = [model.rvs_to_values[rv] for rv in self.transition.rvs]
        self.vars = self.paths.values + self.exclusive

    def starts_from_data(self, point):
        """Whether all paths of a point are default starting paths, and none is declared."""
        return all(
            path is None and self._is_default(i, point) for i, path in enumerate(self.paths.initial)
        )

    def _is_default(self, i, point):
        path, known = np.ravel(point[self.paths.values[i].name]), self.tables[i].known
        given = self.transition.transitions(point, self.tables[i].shape)
        lengths = self.paths.lengths[i]
        return np.array_equal(path, default_path(*given, lengths, self._constrained, known))

    def _refuse_impossible(self, i, point, path, what):
        """Raise if a path takes a transition, or begins in a state, of probability 0."""
        path, lengths, shape = np.ravel(path), self.paths.lengths[i], self.tables[i].shape
        if path.min() < 0 or path.max() >= self.n_states:
            return  # said elsewhere
        time = first_impossible_time(path, *self.transition.transitions(point, shape), lengths)
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
        found = {}
        for i in range(len(self.tables)):
            if self._is_default(i, point):
                found[i] = self.paths.initial[i]
        unknown = [i for i, path in found.items() if path is None]
        for group in alike([self.tables[i] for i in unknown]):
            members = [unknown[i] for i in group]
            lengths = np.concatenate([self.paths.lengths[i] for i in members])
            tables = [self.tables[i] for i in members]
            paths = initial_paths(tables, lengths, self.n_states, rng, kind)
            for i, path in zip(members, paths, strict=True):
                if self._constrained:
                    given = self.transition.transitions(point, self.tables[i].shape)
                    path = possible_path(path, *given, self.paths.lengths[i], self.tables[i].known)
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
        names, known = [value.name for value in self.paths.values], self.paths.known
        one, two = (np.concatenate([np.ravel(p[name]) for name in names]) for p in (point, other))
        crossed = cross_paths(one, two, self.n_states)
        new, low = {}, 0
        for value, given in zip(self.paths.values, known, strict=True):
            path = crossed[low : low + point[value.name].size]
            low += path.size
            path = path if given is None else np.where(given >= 0, given, path)
            new[value.name] = path.astype(value.dtype).reshape(point[value.name].shape)
        return self._opened({**point, **new})

    def draw_states(self, point, rng, threads=1):
        """Draw new paths by forward filtering and backward sampling.

        Returns the point and the log marginal likelihood of the data.
        """
        total = 0.0
        for value, table, lengths in zip(
            self.paths.values, self.tables, self.paths.lengths, strict=True
        ):
            uniforms = rng.random(lengths.sum())
            draw = self.transition.draw_path(table, point, lengths, uniforms, threads)
            if draw.impossible_time >= 0:
                raise_impossible(value.name, table, table.rows(point), draw.impossible_time)
            path = draw.states.astype(value.dtype).reshape(point[value.name].shape)
            point = {**point, value.name: path}  # the next path may share its likelihood
            total += draw.log_marginal_likelihood.sum()
        return point, total

    def path_entropy(self, point, rng):
        """Estimate H(z | y, theta, P) by log p(y | theta, P) - log p(y, z | theta, P) of a draw."""
        drawn, entropy = self.draw_states(point, rng)
        pi_init, P = self.transition.transition_probabilities(point)
        rows, counts = np.vstack([pi_init, P]), self.paths.free_counts(drawn)
        entropy -= (counts[counts > 0] * np.log(rows[counts > 0])).sum()
        for value, table in zip(self.paths.values, self.tables, strict=True):
            path, here = np.ravel(drawn[value.name]), table.rows(drawn)
            for low in range(0, path.size, PIECE_ELEMENTS // self.n_states):
                piece = path[low : low + PIECE_ELEMENTS // self.n_states]
                rows = here(low, low + piece.size)
                entropy -= rows[np.arange(piece.size), piece].sum()
        return entropy

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


class StatesStep(ChainStep):
    """A step that owns hidden states and the transition block of their priors.

    Subclasses call ``_prepare`` in their constructor, and implement ``step``.
    """

    _state_class = StatesStepState

    def _prepare(self, vars, model, rng, initial_point, blocked, sampler=PriorSampler, **settings):
        """Set up the priors of the given variables; ``settings`` go to each prior's sampler.

        Returns the point that the step starts from.
        """
        model = modelcontext(model)
        vars = get_value_vars_from_user_vars(vars, model)
        start = model.initial_point() if initial_point is None else initial_point
        name = type(self).__name__
        priors = _complete_priors(model, vars, name)
        behind = [z for prior in priors for z in (*prior.states, *prior.observed)]
        self._missing = MissingValues(model, behind)
        strangers = [
            v.name
            for v in vars
            if is_missing_observation(model.values_to_rvs[v])
            and model.values_to_rvs[v] not in self._missing.rvs
        ]
        if strangers:
            raise ValueError(f"{name}: {strangers} do not depend on the states given")
        self._priors = [
            sampler(model, prior, name, start, self._missing.rvs, **settings) for prior in priors
        ]
        self.vars = [v for prior in self._priors for v in prior.vars]
        self.vars += [model.rvs_to_values[rv] for rv in self._missing.rvs]
        self._others = sorted(v.name for v in model.value_vars if v not in self.vars)
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self.tune = True
        self.held = self.draws = self.full = 0
        self.tuned = self.n_tune = 0
        self.warned = self.piloted = self.plain = False
        self._beside = []
        self._emission_values = _emission_values(model, priors, self._missing.rvs)
        self._set_hold([self])
        return start

    @staticmethod
    def _progressbar_config(n_chains=1):
        column = TextColumn(
            "{task.fields[n_occupied]}", table_column=Column("States", no_wrap=True)
        )
        return [column], {"n_occupied": [0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions():
        def update_stats(step_stats):
            return {"n_occupied": step_stats["n_occupied"]}

        return (update_stats,)

    def _start(self, point):
        """Replace default starting paths; where their evidence is known, by the best of pilots.

        One chain in four keeps a plain start, so that it means something if they agree.
        """
        plan = plan_of(self.n_tune)
        able = self.hold == 1 and all(
            prior.joint.available and prior.starts_from_data(point) for prior in self._priors
        )
        if self.pilots and plan is not None and able and not self.plain:
            self.piloted = True
            return self._pilot(point, plan)
        for prior in self._priors:
            point = prior.start(point, self.rng)
        return point

    def _pilot(self, point, plan):
        def start(kind):
            new = point
            for prior in self._priors:
                new, _ = prior.draw_transitions(prior.start(new, self.rng, kind), self.rng)
                new = prior.redraw(new, self.rng)
            for step in self._beside:
                new, _ = step.step(new)
            return self._missing.draw(new, self.rng)

        def iterate(point):
            for step in (self, *self._beside):
                point, _ = step.step(point)
            return point

        def cross(point, other):
            for prior in self._priors:
                if prior.split_merge.available:
                    point, _ = prior.draw_transitions(prior.cross(point, other), self.rng)
            return self._improve(point, splits=False)

        def evidence(point):
            entropy = sum(prior.path_entropy(point, self.rng) for prior in self._priors)
            return self._log_joint(point) + entropy

        held, self.held = self.held, self.hold  # iterations draw the paths
        n_tune, self.n_tune = self.n_tune, 0
        best = best_of_pilots(start, iterate, self._improve, cross, evidence, plan, self.rng)
        self.held, self.n_tune, self.tuned = held, n_tune, 0
        return best

    def _improve(self, point, splits=True):
        """Merge, and split, states wherever that raises the joint density; for tuning alone."""
        for prior in self._priors:
            if prior.split_merge.available:
                point = prior.split_merge.improve(point, self.rng, splits)
        return point

    def _improve_if_due(self, point):
        """Improve the point at some of the tuning iterations; any rule is allowed there."""
        if not self.tune:
            return point
        self.tuned += 1
        due = self.n_tune >= SHORTEST_TUNING and any(
            self.tuned == round(share * self.n_tune) for share in IMPROVED
        )
        return self._improve(point) if due else point

    def _log_joint(self, point):
        """Sum of the priors' ``JointDensity`` at a point."""
        return sum(prior.joint(point) for prior in self._priors)

    def _truncation_warning(self, full):
        if self.tune:
            return None
        self.draws += 1
        self.full += bool(full)
        if self.warned or self.draws < FULL_DRAWS or self.full <= FULL_SHARE * self.draws:
            return None
        self.warned = True
        return SamplerWarning(
            WarningType.BAD_PARAMS,
            f"All states of the truncation were occupied in {self.full} of {self.draws} draws; "
            "raise n_states, so that the truncation does not shape the posterior.",
            "warn",
        )

    @property
    def _holds(self):
        """Whether this iteration keeps the starting path, for the parameters to adapt to it."""
        return self.tune and self.held < self.hold

    def _set_hold(self, exact):
        drawn = {v.name for step in exact for v in step.vars}
        if not any(prior.paths.values for prior in self._priors):
            self.hold = 0
            return
        self.hold = 1 if self._emission_values <= drawn else HELD_ITERATIONS

    def _begin_chain(self, steps, tune):
        self.n_tune = tune
        self.plain = chain_number(self.rng, alone=steps is None) % PLAIN == PLAIN - 1
        owned = {v.name for prior in self._priors for v in prior.exclusive}
        if steps is None:
            if self._others:
                warnings.warn(
                    f"{type(self).__name__} cannot see the steps beside it, which draw "
                    f"{self._others}. None of them may draw {sorted(owned)}; run them as one "
                    "pymc.step_methods.compound.CompoundStep",
                    UserWarning,
                    stacklevel=2,
                )
            return
        exact = [step for step in steps if isinstance(step, ConjugateStep)]
        self._set_hold([self, *exact])
        self._beside = exact + [step for step in steps if isinstance(step, GridRhoStep)]
        for other in steps:
            if isinstance(other, StatesStep):
                continue
            shared = owned & {v.name for v in other.vars}
            if shared:
                raise ValueError(
                    f"{type(other).__name__} was given {sorted(shared)}, which only "
                    f"{type(self).__name__} can draw exactly; leave them out of the other step"
                )


def _emission_values(model, priors, missing):
    """Names of the value variables that the log-densities of the priors' states depend on."""
    graphs = [
        graph
        for prior in priors
        for z in prior.states
        for variable, graph in terms_involving(model, z)
        if variable not in missing
    ]
    values = set(ancestors(graphs))
    return {v.name for v in model.value_vars if v in values}


def _complete_priors(model, vars, step):
    """Priors of the given variables, all of whose states are given, as is what else must be."""
    missing = {model.rvs_to_values[v] for v in model.free_RVs if is_missing_observation(v)}
    given = set(vars) - missing
    priors = select_priors(model, find_transitions(model), [v for v in vars if v in given], step)
    for prior in priors:
        states = [model.rvs_to_values[z] for z in prior.states]
        missing = [v.name for v in states if v not in given]
        if missing:
            raise ValueError(
                f"{step}: the states {missing} share the prior of the variables given and must be "
                f"drawn by the same step; pass all of {[v.name for v in states]}, and none of them "
                "to another step"
            )
        block = [model.rvs_to_values[rv] for rv in prior.transition_variables(model)]
        missing = [v.name for v in block if v not in given]
        if missing and len(missing) < len(block):
            raise ValueError(
                f"{step}: {missing} must be drawn together with the rest of the prior's "
                "transition variables, but another step was given them; leave them out of it"
            )
    return priors
