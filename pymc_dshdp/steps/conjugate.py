"""Emission parameters drawn exactly from their conjugate conditionals."""

import logging
from collections.abc import Sequence
from typing import Any

import pymc as pm
from pymc.model import modelcontext
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars

from pymc_dshdp._compat import ChainStep
from pymc_dshdp.emissions.base import families
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.likelihood.conjugate import NotConjugate
from pymc_dshdp.likelihood.regression import find_closed_form
from pymc_dshdp.steps._common import model_of, rehearse
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["ConjugateStep"]

_log = logging.getLogger(__name__)


@dataclass_state
class ConjugateStepState(StepMethodState):
    """Sampling state of ``ConjugateStep``."""


class ConjugateStep(ChainStep):
    r"""Draw emission parameters :math:`\theta \mid z, y` from their conjugate conditionals.

    A variable qualifies if a family knows its prior and its likelihood, it enters that likelihood
    as ``theta[z]`` with ``z`` a ``HiddenStates`` variable, and nothing else (no other random
    variable, no Potential) depends on it. All L states are drawn, those without observations
    from the prior. Hyperparameters of the prior may be random variables; they stay with the
    steps that PyMC gives them.

    So do the coefficients of a linear regression, ``pm.Normal("y", b0[z] + b1[z] * x, sigma)`` or
    any other mean that is affine in ``theta[z]`` time by time, with ``pm.Normal`` or
    ``pm.MvNormal`` priors; those of a state are drawn together, given the scale, which may be
    anything. So do those of a logistic regression, ``pm.Bernoulli("y", logit_p=...)`` or
    ``pm.Binomial("y", n, logit_p=...)``: by a Metropolis step that proposes from a Student t about
    the mode of their conditional, after a draw given Polya-Gamma variables (Polson, Scott & Windle
    2013) where a state has at most 100 trials for each of its coefficients.

    ``pm.sample()`` chooses this step by itself where a variable qualifies; give the variable to
    another step to switch it off: ``pm.sample(step=[pm.NUTS([rate])])``.

    Parameters
    ----------
    vars : list
        Variables that qualify; those that are drawn together (a mean and its covariance under a
        normal-inverse-Wishart prior) all of them.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError
        If a variable does not qualify, saying why; if an observation is outside the support of
        the likelihood, naming its position.

    Notes
    -----
    PyMC asks a step for its competence about a variable without saying in which model, but
    whether a variable qualifies is a question about the whole model; see ``model_of`` for where
    that is found. If it is not, PyMC's choice, exact but slower, stands.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.ConjugateStep([model["rate"]])])
    """

    name = "conjugate"
    stats_dtypes_shapes: dict = {}
    _state_class = ConjugateStepState

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
        values = get_value_vars_from_user_vars(vars, model)
        self._terms = [match.term(model) for match in _matches(model, values)]
        self.vars = [v for term in self._terms for v in term.values]
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        start = model.initial_point() if initial_point is None else initial_point
        rehearse(ConjugateStep.step, self, start)

    def step(self, point):
        """Draw all variables; see the class."""
        for term in self._terms:
            point = {**point, **term.draw(point, self.rng)}
        return point, [{}]  # PyMC expects one entry of statistics from every step

    @staticmethod
    def competence(var, has_grad):
        """Claims variables that qualify; see the notes of the class."""
        if not any(has_op(var, p.prior) for family in families() for p in family.parameters):
            return Competence.INCOMPATIBLE
        model = model_of(var)
        if model is None:
            return Competence.INCOMPATIBLE
        try:
            find_closed_form(model, var)
        except NotConjugate as error:
            _log.debug("%s: %s", var.name, error)
            return Competence.INCOMPATIBLE
        return Competence.IDEAL


def _matches(model, values):
    """Find the matches of value variables, in their order, each match once."""
    left, out = list(values), []
    for value in values:
        if value not in left:
            continue
        rv = model.values_to_rvs[value]
        try:
            match = find_closed_form(model, rv, [model.values_to_rvs[v] for v in left])
        except NotConjugate as error:
            raise ValueError(
                f"ConjugateStep cannot draw {rv.name!r}: {error}. Leave it to PyMC's own steps."
            ) from None
        together = [model.rvs_to_values[v] for v in match.variables]
        missing = [v.name for v in together if v not in left]
        if missing:
            raise ValueError(
                f"ConjugateStep: {missing} must be drawn together with {rv.name!r}, but another "
                "step was given them; give all of them to one step"
            )
        left = [v for v in left if v not in together]
        out.append(match)
    return out
