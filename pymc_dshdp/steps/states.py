"""What the samplers of the states share: their priors, the start, the hold and the warning."""

import shutil
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
from pymc_dshdp.likelihood.missing import MissingValues, is_missing_observation
from pymc_dshdp.likelihood.table import terms_involving
from pymc_dshdp.steps._common import chain_number, select_priors
from pymc_dshdp.steps.conjugate import ConjugateStep
from pymc_dshdp.steps.grid_rho import GridRhoStep
from pymc_dshdp.steps.pilots import best_of_pilots, plan_of
from pymc_dshdp.steps.prior_sampler import PriorSampler
from pymc_dshdp.steps.slice_emission import SliceEmissionStep
from pymc_dshdp.steps.split_merge import proposals_in_time
from pymc_dshdp.transitions import find_transitions
from pymc_dshdp.transitions.renumbered import record_variables

__all__ = ["HELD_ITERATIONS", "StatesStep", "StatesStepState"]

HELD_ITERATIONS = 50  # where not all that a likelihood depends on is drawn given the states
HELD_SLICED = 10  # where all is, some of it by slice sampling
FULL_SHARE = 0.01
FULL_DRAWS = 100
PLAIN = 4  # one chain in so many starts plainly
SHORTEST_TUNING = 50  # iterations; below, a chain is not improved
LEGIBLE = 80  # columns of a terminal that has room for one of ours in the progress bar
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
    split_merge: bool = field(metadata={"frozen": True})
    pilots: bool = field(metadata={"frozen": True})


class StatesStep(ChainStep):
    """A step that owns hidden states and the transition block of their priors.

    Subclasses call ``_prepare`` in their constructor, then ``_prepare_moves``, and implement
    ``step``, which calls ``_improve_if_due`` and ``_move``.
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
        record_variables(model)
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

    def _prepare_moves(self, start, split_merge, pilots):
        """Set which moves between modes are made, and have those of split-merge compiled."""
        for name, flag in (("split_merge", split_merge), ("pilots", pilots)):
            if not isinstance(flag, (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, received {flag!r}")
        self.split_merge, self.pilots = bool(split_merge), bool(pilots)
        moving = [prior for prior in self._priors if prior.moves.available]
        numbers = [p.moves.effort * proposals_in_time(p.n_times, p.n_states) for p in moving]
        self.n_proposals = sum(numbers) / max(1, len(numbers))
        if self.split_merge:
            for prior in moving:
                prior.moves.rehearse(start)

    @staticmethod
    def _progressbar_config(n_chains=1):
        column = TextColumn(
            "{task.fields[n_occupied]}", table_column=Column("States", no_wrap=True)
        )
        narrow = shutil.get_terminal_size().columns < LEGIBLE  # PyMC's own columns come first
        return [] if narrow else [column], {"n_occupied": [0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions():
        def update_stats(step_stats):
            return {"n_occupied": step_stats["n_occupied"]}

        return (update_stats,)

    def _start(self, point):
        """Replace default starting paths; where their evidence is known, by the best of pilots.

        One chain in four keeps a plain start, so that it means something if they agree.
        """
        n_entries = sum(p.n_times * p.n_states * p.joint.parts for p in self._priors)
        plan = plan_of(self.n_tune, n_entries)
        able = self.hold < HELD_ITERATIONS and all(
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

        def apart(point, other):
            return sum(prior.apart(point, other) for prior in self._priors)

        def evidence(point):
            return sum(prior.evidence(point, self.rng) for prior in self._priors)

        held, self.held = self.held, self.hold  # iterations draw the paths
        n_tune, self.n_tune = self.n_tune, 0
        moves = start, iterate, self._improve, cross, apart, evidence
        best = best_of_pilots(*moves, plan, self.rng)
        self.held, self.n_tune, self.tuned = held, n_tune, 0
        return best

    def _improve(self, point, splits=True):
        """Merge, and split, states wherever that raises the joint density; for tuning alone."""
        for prior in self._priors:
            if prior.moves.available:
                point = prior.moves.improve(point, self.rng, splits)
        return point

    def _improve_if_due(self, point):
        """Improve the point at some of the tuning iterations; any rule is allowed there."""
        if not self.tune or self._holds or not self.split_merge:
            return point
        self.tuned += 1
        due = self.n_tune >= SHORTEST_TUNING and any(
            self.tuned == round(share * self.n_tune) for share in IMPROVED
        )
        return self._improve(point) if due else point

    def _move(self, point, hold):
        """Split and merge the states of every prior that can: (point, statistics)."""
        stats = {"splits": 0, "merges": 0, "resplits": 0, "proposals": 0, "log_joint": 0.0}
        if hold or not self.split_merge or self.n_proposals == 0.0:
            return point, {**stats, "log_joint": self._log_joint(point)}
        n = int(self.n_proposals + self.rng.random())
        for prior in self._priors:
            if not prior.moves.available:
                stats["log_joint"] += prior.joint(point)
                continue
            point, moves, density = prior.moves(point, self.rng, n)
            stats["log_joint"] += density
            for kind, done in moves._asdict().items():
                stats[kind] += done
            stats["proposals"] += n
            if prior.moves.sums_out_missing and any(moves):
                point = self._missing.draw(point, self.rng)
        return point, stats

    def _log_joint(self, point):
        """Sum of the priors' ``JointDensity`` at a point."""
        return sum(prior.joint(point) for prior in self._priors)

    def _truncation_warning(self, full):
        if self.tune:
            return None
        self.draws += 1
        self.full += bool(full)
        expected = FULL_SHARE * self.draws
        by_chance = expected + 3.0 * np.sqrt(expected)  # looked at again and again
        if self.warned or self.draws < FULL_DRAWS or self.full <= by_chance:
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
        sliced = [v.name for s in exact if isinstance(s, SliceEmissionStep) for v in s.vars]
        self.hold = 1 if self._emission_values.isdisjoint(sliced) else HELD_SLICED
        if not self._emission_values <= drawn:
            self.hold = HELD_ITERATIONS

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
        exact = [step for step in steps if isinstance(step, ConjugateStep | SliceEmissionStep)]
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
