"""NUTS on the full conditional of its variables, with a metric that knows the states."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.exceptions import SamplingError
from pymc.model import modelcontext
from pymc.model.core import ValueGradFunction
from pymc.step_methods import NUTS
from pymc.step_methods.compound import Competence
from pymc.step_methods.hmc.integration import IntegrationError
from pymc.step_methods.hmc.nuts import NUTSState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pymc.vartypes import continuous_types
from pytensor.graph.traversal import ancestors

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.terms import densities, log_densities
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.likelihood.membership import find_membership
from pymc_dshdp.steps._common import model_of
from pymc_dshdp.steps.hyperparameters import Hyperparameters
from pymc_dshdp.steps.impossible import explain
from pymc_dshdp.steps.metric import StateMetric
from pymc_dshdp.steps.scarce import slice_each
from pymc_dshdp.steps.state_blocks import StateBlocks
from pymc_dshdp.steps.state_statistics import StateStatistics
from pymc_dshdp.steps.vacant import VacantUnits
from pymc_dshdp.transitions import find_transitions
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["ConditionalNUTS"]


@dataclass_state
class ConditionalNUTSState(NUTSState):
    """Sampling state of ``ConditionalNUTS``."""

    divergences: int


class ConditionalNUTS(NUTS):
    r"""PyMC's NUTS on the terms of the log joint that involve its variables, knowing the states.

    With :math:`x` its variables and :math:`r` the rest, NUTS leaves :math:`p(x \mid r)` invariant,
    and :math:`\log p(x \mid r) = \sum_{i:\, x \in i} \log p_i(x, r) + const`: a term without x,
    such as the path given the transition rows, adds a constant to the energy and nothing to its
    gradient.

    * The metric is a function of the states and the data, learnt while tuning: a state's
      parameters are known the better the more time points it has. See ``StateMetric``.
    * Parameters of empty states are summed out and then drawn from their prior given the new x,
      where nothing but their prior and the likelihood of their state involves them; see
      ``VacantUnits``. These may be variables of other steps if their prior depends on x: a
      hyperparameter moves as if there were no empty states.
    * Parameters of a state of few times, at most two for each of its d <= 16 numbers and two more,
      are slice sampled one by one, which no shape of their density makes diverge; the trajectory is
      of the rest (see ``steps.scarce``).
    * So are up to 16 numbers that nothing but priors of the states' parameters depends on, such as
      the mean and the spread of the states' means; see ``Hyperparameters``.

    ``pm.sample()`` uses it in place of ``pm.NUTS`` in models that have ``HiddenStates``, with the
    same keyword, ``nuts={"target_accept": 0.9}``. Its function is compiled with PyTensor's numba
    backend unless ``compile_kwargs`` names another mode.

    Parameters
    ----------
    vars : list
        Continuous variables.
    model : pymc.Model, optional
    initial_point : dict, optional
    compile_kwargs : dict, optional
    **kwargs
        As for ``pm.NUTS``. With ``potential`` or ``scaling`` the metric is that one, and nothing
        is summed out.

    Raises
    ------
    ValueError
        If a variable is discrete.

    Notes
    -----
    The statistics ``lp`` and ``energy`` contain these terms only.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.ConditionalNUTS([model["rate"]])])
    """

    _state_class = ConditionalNUTSState

    def __init__(
        self,
        vars: Sequence[Tensor],
        *,
        model: pm.Model | None = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        dtype: Any = None,
        potential: Any = None,
        scaling: Any = None,
        rng: RandomSource = None,
        **kwargs: Any,
    ) -> None:
        model = modelcontext(model)
        values = get_value_vars_from_user_vars(vars, model)
        discrete = [v.name for v in values if v.dtype not in continuous_types]
        if discrete:
            raise ValueError(
                f"ConditionalNUTS: {discrete} are discrete and have no gradient; leave them to "
                "other steps"
            )
        start = model.initial_point() if initial_point is None else initial_point
        terms = _terms(model)
        self._vacant = None
        if potential is None and scaling is None:
            rng = get_random_generator(rng)
            potential = self._know_states(model, values, terms, start, rng, dtype)
        function = ValueGradFunction(
            [self._log_density(model, values, terms)],
            values,
            {v: np.asarray(start[v.name]) for v in model.value_vars if v not in values},
            dtype=dtype,
            model=model,
            initial_point=start,
            ravel_inputs=True,
            on_unused_input="ignore",
            **{"mode": "NUMBA", **(compile_kwargs or {})},
        )
        function.set_extra_values(start)
        function.trust_input = True
        super().__init__(
            values,
            model=model,
            initial_point=start,
            logp_dlogp_func=function,
            potential=potential,
            scaling=scaling,
            rng=rng,
            **kwargs,
        )
        self.integrator._logp_dlogp_func = _without_overflow(self.integrator._logp_dlogp_func)

    def _know_states(self, model, values, terms, start, rng, dtype):
        """Find out what belongs to which state; the metric."""
        membership = find_membership(model, find_transitions(model), terms, start)
        self._vacant = VacantUnits(model, terms, membership, values, start)
        self._state_statistics = StateStatistics(model, membership, terms, start)
        self._hyperparameters = Hyperparameters(model, values, terms, self._vacant, start)
        self._blocks = StateBlocks(
            model,
            values,
            start,
            membership,
            self._vacant,
            self._state_statistics.number,
            self._hyperparameters.values,
        )
        return StateMetric(
            self._blocks.blocks,
            self._blocks.size,
            dtype=pytensor.config.floatX if dtype is None else dtype,
            rng=rng.spawn(1)[0],
        )

    def _log_density(self, model, values, terms):
        total = 0.0
        for term, graph in _terms_with(values, terms):
            if self._vacant is not None:
                graph = self._vacant.masked(model.rvs_to_values.get(term), graph)
            total = total + graph.sum()
        return total

    def step(self, point):
        """Move the variables, then draw what was summed out; see the class.

        An energy that is not finite is explained by the terms of the model.
        """
        try:
            return self._step(point)
        except SamplingError as error:
            terms = [term for term, _ in _terms_with(self.vars, _terms(self._model))]
            variables = [self._model.values_to_rvs[v] for v in self.vars]
            found = explain(self._model, terms, variables, point)
            if found is None:
                raise
            raise SamplingError(found) from error

    def _step(self, point):
        if self._vacant is None:
            return super().step(point)
        statistics = self._state_statistics(point)
        self._vacant.look(statistics[:, 0])
        active = np.concatenate(
            [self._vacant.active_elements(v, point[v.name].size) for v in self.vars]
        )
        scarce = active & self._blocks.scarce(statistics[:, 0])
        above = self._hyperparameters.elements
        of_blocks, moving = self._blocks.statistics(statistics), active & ~scarce & ~above
        self.potential.at(of_blocks, active)
        if (moving != active).any():
            scales = self.potential.scales()
            self.potential.at(of_blocks, moving, learnt=active & ~scarce)
        point, stats = self._trajectory(point, bool(moving.any()))
        if scarce.any():
            names, elements = [v.name for v in self.vars], np.flatnonzero(scarce)
            log_density = self.integrator._logp_dlogp_func
            point = slice_each(log_density, point, names, elements, scales[elements], self.rng)
        if above.any():
            point = self._hyperparameters.update(point, scales[above], self.rng)
        return self._vacant.draw(point, self.rng), stats

    def _trajectory(self, point, moves):
        """Take a step of NUTS; nothing is learnt of the step size from one in which none moves."""
        adapts, self.adapt_step_size = self.adapt_step_size, self.adapt_step_size and moves
        try:
            return super().step(point)
        finally:
            self.adapt_step_size = adapts

    @staticmethod
    def competence(var, has_grad):
        """Claims what ``pm.NUTS`` would, in models with hidden states."""
        competence = NUTS.competence(var, has_grad)
        if competence == Competence.INCOMPATIBLE:
            return competence
        model = model_of(var)
        if model is None or not any(has_op(rv, HiddenPathRV) for rv in model.free_RVs):
            return Competence.INCOMPATIBLE
        return competence


def _without_overflow(function):
    """Call a density so that what overflows far out, as ``expm`` does, ends a trajectory there.

    PyMC takes the errors of linear algebra for a divergence, and this one for a fault.
    """

    def call(q, point_map_info):
        try:
            return function(q, point_map_info)
        except OverflowError as error:
            raise IntegrationError("Overflow during leapfrog step.") from error

    return call


def _terms(model):
    """Random variables and potentials, each with its elementwise log-density."""
    terms = densities(model)
    return list(zip(terms, log_densities(model, terms), strict=True))


def _terms_with(values, terms):
    """Those terms whose log-density contains one of the value variables."""
    moving = set(values)
    return [(term, graph) for term, graph in terms if moving & set(ancestors([graph]))]
