"""The weak-limit sampler: states by forward filtering, then the transition block."""

import numpy as np
from pymc.exceptions import SamplingError
from pymc.model import modelcontext
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from rich.progress import TextColumn
from rich.table import Column

from pymc_dshdp._compat import ChainStep
from pymc_dshdp.distributions import (
    HiddenPathRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
from pymc_dshdp.kernels.counts import occupied_states
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.loglik import LogLikelihoodTable
from pymc_dshdp.missing import MissingValues, is_missing_observation
from pymc_dshdp.starting import initial_path, is_default_start
from pymc_dshdp.steps._common import PathReader, select_priors
from pymc_dshdp.steps.transition import transition_update
from pymc_dshdp.structure import find_priors, has_op, role_of

__all__ = ["WeakLimitFFBS"]

HELD_ITERATIONS = 50
FULL_SHARE = 0.01
FULL_DRAWS = 100
OWN_OPS = (
    HiddenPathRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
OWN_ROLES = {"alpha", "gamma", "s", "sticky_phi"}


@dataclass_state
class WeakLimitFFBSState(StepMethodState):
    """Sampling state of ``WeakLimitFFBS``."""

    tune: bool
    held: int
    draws: int
    full: int
    warned: bool


class _PriorSampler:
    """The states and the transition block of one prior."""

    def __init__(self, model, prior, step, start, missing):
        self.n_states = prior.n_states
        self.truncated = prior.gamma is not None
        self.paths = PathReader(model, prior, start)
        self.tables = [
            LogLikelihoodTable(model, z, prior.n_states, missing, start) for z in prior.states
        ]
        self.transition = transition_update(model, prior, step)
        for value, table in zip(self.paths.values, self.tables, strict=True):
            ell = table(start)
            hopeless = np.flatnonzero(~np.isfinite(ell).any(axis=1) | np.isnan(ell).any(axis=1))
            if hopeless.size:
                _impossible(value.name, table, ell, hopeless[0])
        self.vars = self.paths.values + [model.rvs_to_values[rv] for rv in self.transition.rvs]
        self.required = [*prior.states, *self.transition.rvs]

    def start(self, point, rng):
        """Replace default starting paths by segmentations of the data."""
        new = {}
        for value, table in zip(self.paths.values, self.tables, strict=True):
            if is_default_start(point[value.name], self.n_states):
                path = initial_path(table, self.n_states, rng)
                new[value.name] = path.astype(value.dtype).reshape(point[value.name].shape)
        return {**point, **new}

    def draw_states(self, point, rng):
        """Draw new paths; returns the point and the log marginal likelihood of the data."""
        pi_init, P = self.transition.transition_probabilities(point)
        new, total = {}, 0.0
        for value, table, lengths in zip(
            self.paths.values, self.tables, self.paths.lengths, strict=True
        ):
            ell = table(point)
            draw = forward_filter_backward_sample(
                ell, pi_init, P, lengths, rng.random(ell.shape[0])
            )
            if draw.impossible_time >= 0:
                _impossible(value.name, table, ell, draw.impossible_time)
            new[value.name] = draw.states.astype(value.dtype).reshape(point[value.name].shape)
            total += draw.log_marginal_likelihood.sum()
        return {**point, **new}, total

    def draw_transitions(self, point, rng):
        """Draw the transition block; returns the point and the number of occupied states."""
        counts = self.paths.counts(point)
        switches, persistences = self.transition.split(point, counts, rng)
        new = self.transition(point, switches, persistences, rng)
        return {**point, **new}, occupied_states(counts)


def _impossible(name, table, ell, time):
    index = np.unravel_index(time, table.shape)
    where = int(index[0]) if len(index) == 1 else tuple(int(i) for i in index)
    row = ell[time]
    if np.isnan(row).any():
        what = "is NaN for some state"
        hint = "a parameter has left its support, or the data contain NaN (mask them instead)"
    elif np.isposinf(row).any():
        what = "is infinite for some state"
        hint = "a scale parameter has collapsed to 0; give it a prior that keeps away from 0"
    else:
        what = "is -inf in every state that can be reached"
        hint = "the observation is impossible under the model; check it, or widen the likelihood"
    raise SamplingError(
        f"The log-density of {', '.join(table.names)} at {name}[{where}] {what}: {hint}."
    )


class WeakLimitFFBS(ChainStep):
    r"""Draw the hidden states by forward filtering and backward sampling, then the transitions.

    Each iteration draws, exactly and in this order: all states
    :math:`z \mid y, \theta, P, \pi_\mathrm{init}` at once, by the forward filter and a backward
    sample with :math:`P = \mathrm{diag}(\kappa) + (1 - \kappa)\bar\pi`; the self-persistence
    counts :math:`W`; the table counts :math:`m`; :math:`\gamma \mid m`; :math:`\alpha \mid m, n`;
    :math:`\beta \mid m, \gamma`; and the rows :math:`\bar\pi_j \sim \mathrm{Dir}(\alpha\beta +
    n_j)`, :math:`\pi_\mathrm{init}`. Any likelihood of the model that indexes with the states
    enters through its own log-density (see ``LogLikelihoodTable``). Missing observations (PyMC's
    ``y_unobserved`` of a masked array) are summed out of it and redrawn given the states.

    ``pm.sample()`` chooses this step by itself. The self-persistence variables belong to
    ``GridRhoStep``, emission parameters to PyMC's own steps.

    Parameters
    ----------
    vars : list
        All the ``HiddenStates`` variables of one or more priors. The step also owns gamma,
        alpha, beta (or v), pi_bar and pi_init of these priors.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError
        Before sampling: if ``vars`` has anything else, only some of a prior's states, or lacks a
        variable that another step was given; if a variable outside the prior depends on one that
        this step draws; if a likelihood couples the states at several times.
    pymc.exceptions.SamplingError
        If an observation has log-density -inf in every state that can be reached, or NaN, with
        its time point.

    Notes
    -----
    Sampler statistics: ``n_occupied``, the number of states visited (over all priors of the
    step), and ``log_marginal_likelihood``, log p(y | theta, P) with the path summed out, for the
    parameters that the iteration started from (NaN while the states are held).

    Starting path: with tuning, states are held at their starting path for the first 50
    iterations, while everything else adapts to it. The path is ``initvals["z"]`` if given; the
    default is a k-means segmentation of the observed data with the chain's generator (see
    ``pymc_dshdp.starting``). This touches the tuning phase only.

    When all L states were occupied in more than 1% of at least 100 draws, the statistic
    ``warning`` says, once per chain, to raise the number of states.
    """

    name = "weak_limit_ffbs"
    stats_dtypes_shapes = {
        "n_occupied": (np.int64, []),
        "log_marginal_likelihood": (np.float64, []),
        "warning": (SamplerWarning, None),
    }
    _state_class = WeakLimitFFBSState

    def __init__(
        self,
        vars,
        *,
        model=None,
        rng=None,
        initial_point=None,
        compile_kwargs=None,
        blocked=True,
    ):
        model = modelcontext(model)
        vars = get_value_vars_from_user_vars(vars, model)
        start = model.initial_point() if initial_point is None else initial_point
        name = type(self).__name__
        priors = _complete_priors(model, vars, name)
        self._missing = MissingValues(model, [z for prior in priors for z in prior.states])
        self._priors = [
            _PriorSampler(model, prior, name, start, self._missing.rvs) for prior in priors
        ]
        self.vars = [v for prior in self._priors for v in prior.vars]
        self.vars += [model.rvs_to_values[rv] for rv in self._missing.rvs]
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self.tune = True
        self.held = self.draws = self.full = 0
        self.warned = False

    def step(self, point):
        """Draw the states and the transition block of each prior; see the class."""
        hold = self.tune and self.held < HELD_ITERATIONS
        occupied, total, full = 0, 0.0, False
        for prior in self._priors:
            if hold:
                if self.held == 0:
                    point = prior.start(point, self.rng)
                log_marginal = np.nan
            else:
                point, log_marginal = prior.draw_states(point, self.rng)
            point, n_occupied = prior.draw_transitions(point, self.rng)
            occupied += n_occupied
            total += log_marginal
            full |= prior.truncated and n_occupied == prior.n_states
        point = self._missing.draw(point, self.rng)
        self.held += hold
        stats = {
            "n_occupied": occupied,
            "log_marginal_likelihood": total,
            "warning": self._truncation_warning(full),
        }
        return point, [stats]

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

    def _begin_chain(self, steps):
        owned = {v.name for v in self.vars}
        for other in steps:
            if other is self or hasattr(other, "_owns_transitions"):
                continue
            shared = owned & {v.name for v in other.vars}
            if shared:
                raise ValueError(
                    f"{type(other).__name__} was given {sorted(shared)}, which only "
                    f"{type(self).__name__} can draw exactly; leave them out of the other step"
                )

    _owns_transitions = True

    @staticmethod
    def competence(var, has_grad):
        """Claims the states and transition variables of the priors of this package."""
        mine = has_op(var, OWN_OPS) or role_of(var) in OWN_ROLES
        mine = mine or is_missing_observation(var)
        return Competence.IDEAL if mine else Competence.INCOMPATIBLE

    @staticmethod
    def _progressbar_config(n_chains=1):
        columns = [
            TextColumn("{task.fields[n_occupied]}", table_column=Column("States", ratio=1)),
            TextColumn(
                "{task.fields[log_marginal_likelihood]:0.1f}",
                table_column=Column("Log-lik", ratio=1),
            ),
        ]
        stats = {"n_occupied": [0] * n_chains, "log_marginal_likelihood": [0.0] * n_chains}
        return columns, stats

    @staticmethod
    def _make_progressbar_update_functions():
        def update_stats(step_stats):
            return {key: step_stats[key] for key in ("n_occupied", "log_marginal_likelihood")}

        return (update_stats,)


def _complete_priors(model, vars, step):
    """Priors of the given variables, all of whose states are given, as is what else must be."""
    missing = {model.rvs_to_values[v] for v in model.free_RVs if is_missing_observation(v)}
    given = set(vars) - missing
    priors = select_priors(model, find_priors(model), [v for v in vars if v in given], step)
    for prior in priors:
        states = [model.rvs_to_values[z] for z in prior.states]
        missing = [v.name for v in states if v not in given]
        if missing:
            raise ValueError(
                f"{step}: the states {missing} share the prior of the variables given and must be "
                f"drawn by the same step; pass all of {[v.name for v in states]}"
            )
        block = [model.rvs_to_values[rv] for rv in prior.transition_variables(model)]
        missing = [v.name for v in block if v not in given]
        if missing and len(missing) < len(block):
            raise ValueError(
                f"{step}: {missing} must be drawn together with the rest of the prior's "
                "transition variables, but another step was given them; leave them out of it"
            )
    return priors
