r"""Linear regressions whose coefficients are drawn together, state by state.

Where :math:`y_t \sim N(o_t + x_t' b_{z_t}, \sigma_t^2)` with normal priors on the coefficients
:math:`b_k \sim N(m_k, S_k)`, several variables end to end, and anything for the offset, the
covariates and the scale that does not depend on them,

.. math::

   b_k \mid y, z \sim N(\Lambda_k^{-1} h_k, \Lambda_k^{-1}), \quad
   \Lambda_k = S_k^{-1} + \sum_{t: z_t = k} \frac{x_t x_t'}{\sigma_t^2}, \quad
   h_k = S_k^{-1} m_k + \sum_{t: z_t = k} \frac{x_t (y_t - o_t)}{\sigma_t^2}

So it is, given Polya-Gamma variables, where :math:`y_t \sim Binomial(n_t, p_t)` and
:math:`\psi_t = logit(p_t) = o_t + x_t' b_{z_t}` (Polson, Scott & Windle 2013): with
:math:`\omega_t \sim PG(n_t, \psi_t)` drawn first,

.. math:: p(y_t \mid \psi) \, p(\omega_t \mid \psi) \propto
   \exp(-\omega_t (\psi_t - \kappa_t / \omega_t)^2 / 2), \quad \kappa_t = y_t - n_t / 2.

Where trials are many there is a faster way; see ``LogisticTerm``. That the mean, or the logit, is
affine in the coefficients, time by time, is proved from its graph; the covariates are its
derivative.
"""

from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, MvNormalRV, NormalRV

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.emissions.binomial import BernoulliProbability, BinomialProbability
from pymc_dshdp.emissions.normal import NormalScale
from pymc_dshdp.graph.elements import NotElementwise, element_axes
from pymc_dshdp.graph.linear import NotLinear, linear_part, rows_of_states
from pymc_dshdp.graph.path import n_states_of
from pymc_dshdp.graph.pointwise import is_pointwise
from pymc_dshdp.graph.readers import in_values
from pymc_dshdp.graph.walks import (
    concrete_shape,
    declared_parameters,
    depends_on_random_variables,
    has_op,
)
from pymc_dshdp.likelihood.completed import completed
from pymc_dshdp.likelihood.conjugate import NotConjugate, dependents, find_conjugate
from pymc_dshdp.likelihood.regression_terms import LogisticTerm, RegressionTerm

__all__ = ["RegressionMatch", "find_closed_form", "find_regression"]

READ_BY = {NormalRV: NormalScale(), BernoulliRV: BernoulliProbability(),
           BinomialRV: BinomialProbability()}  # fmt: skip


def find_closed_form(model, rv, among=None):
    """Match a free random variable to a family, or else to a regression.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable
    among : list of TensorVariable, optional
        The variables that a regression may draw together with it: all by default.

    Returns
    -------
    Match or RegressionMatch

    Raises
    ------
    NotConjugate
        Saying what is missing.
    """
    try:
        return find_conjugate(model, rv)
    except NotConjugate as error:
        if not has_op(rv, (NormalRV, MvNormalRV)):
            raise
        try:
            return find_regression(model, rv, among)
        except NotConjugate as other:
            raise NotConjugate(f"{error}; {other}") from None


def find_regression(model, rv, among=None):
    """Match a free random variable to the regression that it is a coefficient of.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable
    among : list of TensorVariable, optional
        The variables that may be drawn together with it: all by default.

    Returns
    -------
    RegressionMatch

    Raises
    ------
    NotConjugate
        Saying what is missing.
    """
    found = dependents(model, rv)
    whole = completed(model, found[0]) if found else None
    likelihood = whole.rv if whole else found[0] if found else None
    if likelihood is None or not has_op(likelihood, tuple(READ_BY)):
        raise NotConjugate(
            f"{rv.name!r} is not in the mean of a Normal, nor the logit of a Bernoulli or Binomial"
        )
    _, others = _predictor(likelihood)
    blockers = [v for v in model.basic_RVs if v is not likelihood]
    behind = list(ancestors([likelihood], blockers=blockers))
    reason = NotConjugate(f"{likelihood.name!r} does not depend on hidden states")
    for z in behind:
        if not (has_op(z, HiddenPathRV) and z in model.basic_RVs):
            continue
        parts = {likelihood} if whole is None else set(whole.parts)
        elsewhere = set(ancestors(others, blockers))
        able = [
            v
            for v in (model.free_RVs if among is None else among)
            if v in behind and v not in elsewhere and _is_able(model, v, z, parts)
        ]
        if rv not in able:
            reason = NotConjugate(
                f"{rv.name!r} has no normal prior with a row for each of the states, or more than "
                f"the mean of {likelihood.name!r} depends on it"
            )
            continue
        if able == [rv] and _is_one_dimensional(likelihood, rv, z, set(blockers)):
            reason = NotConjugate(
                f"{likelihood.name!r} depends on its times through few numbers, given which "
                f"the elements of {rv.name!r} are independent"
            )
            continue
        for variables in (able, [rv]):
            try:
                return RegressionMatch(model, variables, likelihood, z, whole)
            except NotLinear as error:
                reason = NotConjugate(f"the mean of {likelihood.name!r} in {rv.name!r}: {error}")
    raise reason


def _predictor(likelihood):
    """Split a likelihood's parameters: what is to be affine in the coefficients, and the others.

    Raises
    ------
    NotConjugate
        If a probability is no inverse logit.
    """
    parameters = declared_parameters(likelihood)
    if has_op(likelihood, NormalRV):
        return parameters[0], parameters[1:]
    *others, p = parameters
    if not (has_op(p, Elemwise) and isinstance(p.owner.op.scalar_op, Sigmoid)):
        raise NotConjugate(
            f"the probability of {likelihood.name!r} is not declared by logit_p, or as an inverse "
            "logit"
        )
    return p.owner.inputs[0], others


def _is_one_dimensional(likelihood, rv, z, blockers):
    """Whether its only coefficient is that of a logit which varies with the states alone."""
    if has_op(likelihood, NormalRV):
        return False
    predictor, _ = _predictor(likelihood)
    try:
        element_axes(predictor, rv, z, blockers)
    except NotElementwise:
        return False
    return is_pointwise(predictor, z, likelihood.type.ndim, blockers)


def _is_able(model, v, z, parts):
    """Whether a variable has a normal prior, a row for each state, and this likelihood alone."""
    if not has_op(v, (NormalRV, MvNormalRV)) or model.rvs_to_transforms[v] is not None:
        return False
    if v.type.ndim == 0 or v.type.ndim == v.owner.op.ndim_supp:
        return False
    n_states = n_states_of(z)
    return concrete_shape(v)[0] == n_states and set(dependents(model, v)) <= parts


class RegressionMatch:
    """Coefficients that are drawn together, checked on the graph only.

    Attributes
    ----------
    variables : list of TensorVariable
    likelihood, z : TensorVariable
    source : TensorVariable or None
        Where the likelihood's value is, if it has missing parts (see ``completed.py``).
    terms : set of TensorVariable
        The likelihood as the model has it: itself, or its observed and missing parts.
    n_states : int
    mean, linear : TensorVariable
        Graphs of the mean, or the logit, and its linear part, in values and ``rows``.
    rows : list of TensorVariable
        The coefficients at each time.
    scale : list of TensorVariable
        In values; none for a logit.
    family : Family or Conditional
        That reads the data.
    """

    def __init__(self, model, variables, likelihood, z, whole=None):
        self.variables, self.likelihood, self.z = variables, likelihood, z
        self.source = None if whole is None else whole.joined
        self.terms = {likelihood} if whole is None else set(whole.parts)
        self.n_states = n_states_of(z)
        mean, others = _predictor(likelihood)
        if not has_op(likelihood, NormalRV) and depends_on_random_variables(others):
            raise NotLinear(f"the number of trials of {likelihood.name!r} is random")
        if likelihood in model.free_RVs and model.rvs_to_transforms[likelihood] is not None:
            raise NotLinear(f"{likelihood.name!r} is not observed")
        n = z.type.ndim
        if concrete_shape(likelihood)[:n] != concrete_shape(z):
            raise NotLinear(f"the times of {likelihood.name!r} are not those of {z.name!r}")
        if mean.type.ndim != likelihood.type.ndim:
            raise NotLinear(f"it lacks dimensions of {likelihood.name!r}")
        mean, *self.scale = in_values(
            model, [mean, *(others if has_op(likelihood, NormalRV) else ())]
        )
        values = [model.rvs_to_values[v] for v in (*variables, z)]
        self.mean, self.rows = rows_of_states(mean, values[:-1], values[-1])
        self.linear = linear_part(self.mean, self.rows, n)

        self.family = next(f for op, f in READ_BY.items() if has_op(likelihood, op))

    def term(self, model):
        """Build the conditional."""
        return (RegressionTerm if self.scale else LogisticTerm)(model, self)
