"""Emission parameters without a conjugate prior, slice-sampled one by one given the states."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.model import modelcontext
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pymc.vartypes import continuous_types

from pymc_dshdp._compat import ChainStep
from pymc_dshdp.likelihood.conditional import ConditionalTerm, NotConditional, find_conditional
from pymc_dshdp.steps._common import model_of, rehearse
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["SliceEmissionStep"]

_log = logging.getLogger(__name__)


@dataclass_state
class SliceEmissionStepState(StepMethodState):
    """Sampling state of ``SliceEmissionStep``."""

    spreads: list


class SliceEmissionStep(ChainStep):
    r"""Draw emission parameters of any prior from their one-dimensional conditionals.

    A variable qualifies if it enters one likelihood, as any elementwise function of ``theta[z]``
    with ``z`` a ``HiddenStates`` variable or of a theta shared by the states, the likelihood is
    known to depend on that parameter through a few numbers per state (see below), its elements
    are independent in their prior, and nothing else depends on it. Then

    .. math::

       \log p(\theta_k \mid z, y, \cdot) = \log p(\theta_k)
       + \sum_{t:\, z_t = k} \log p(y_t \mid \theta_k, \cdot) + const

    costs nothing per time point once those numbers are summed, at the present value of the
    likelihood's other parameters, which may be anything. (A StudentT and a Weibull have no such
    numbers: there the sum is evaluated anew at each value tried.) The elements of states without
    observations are drawn from the prior; the others, all at once, by updates of slice sampling
    in the space of PyMC's value variables (Neal 2003: stepping out and shrinkage), which leave
    their conditionals invariant. Nothing is tuned: the first interval follows from the prior's
    spread at the start and the visits of the state.

    Known are the mean and the scale of a Normal (``sigma`` or ``tau``) and of a LogNormal, the
    scale of a Laplace, the rate of a Poisson and an Exponential, the probability of a Bernoulli
    and a Binomial, the mean and the size of a NegativeBinomial, and the location, the scale and the
    degrees of freedom of a StudentT, and the shape and the scale of a Weibull.

    ``ConjugateStep`` takes what has a closed form. ``pm.sample()`` chooses this step by itself
    where a variable qualifies; give the variable to another step to switch it off:
    ``pm.sample(step=[pm.NUTS([sigma])])``.

    Parameters
    ----------
    vars : list
        Variables that qualify.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError
        If a variable does not qualify, saying why; if its conditional cannot be normalised.

    Notes
    -----
    Where a prior cannot be drawn from, or has a transform that cuts it off, the elements of empty
    states are slice-sampled alone.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.SliceEmissionStep([model["rate"]])])
    """

    name = "slice_emission"
    stats_dtypes_shapes: dict = {}
    _state_class = SliceEmissionStepState

    def __init__(
        self,
        vars: Sequence[Tensor],
        *,
        model: pm.Model | None = None,
        rng: RandomSource = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        start = model.initial_point() if initial_point is None else initial_point
        self._terms = []
        for value in get_value_vars_from_user_vars(vars, model):
            rv = model.values_to_rvs[value]
            try:
                match = find_conditional(model, rv)
            except NotConditional as error:
                raise ValueError(
                    f"SliceEmissionStep cannot draw {rv.name!r}: {error}. Leave it to PyMC's own "
                    "steps."
                ) from None
            self._terms.append(ConditionalTerm(model, match, start))
        self.vars = [term.value for term in self._terms]
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        try:
            rehearse(SliceEmissionStep.step, self, start)
        except ValueError:
            # PyMC's start has the mean itself where a value is missing: the scale of a state of
            # nothing else would be 0. The step of the states, which is before, redraws the values.
            if not any(term.has_missing for term in self._terms):
                raise

    @property
    def spreads(self):
        """Spread of the prior of each variable, from which the widths of the slices follow."""
        return [term.spread for term in self._terms]

    @spreads.setter
    def spreads(self, spreads):
        for term, spread in zip(self._terms, spreads, strict=True):
            term.spread = np.asarray(spread)

    def step(self, point):
        """Draw all variables, one after the other; see the class."""
        for term in self._terms:
            point = {**point, **term.draw(point, self.rng)}
        return point, [{}]  # PyMC expects one entry of statistics from every step

    @staticmethod
    def competence(var, has_grad):
        """Claims variables that qualify; see the class."""
        if var.dtype not in continuous_types:
            return Competence.INCOMPATIBLE
        model = model_of(var)
        if model is None:
            return Competence.INCOMPATIBLE
        try:
            find_conditional(model, var)
        except NotConditional as error:
            _log.debug("%s: %s", var.name, error)
            return Competence.INCOMPATIBLE
        return Competence.IDEAL
