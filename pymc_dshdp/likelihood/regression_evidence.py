"""Regressions whose coefficients are integrated out, and the scale of each state if it has one."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pytensor.graph.replace import vectorize_graph
from pytensor.scalar.basic import Abs, Mul, Pow, Reciprocal, Sign, Sqrt
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_dshdp.graph.pointwise import depends_on, indexed_variable
from pymc_dshdp.graph.prior_draws import PriorDraw, has_own_transform
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import (
    concrete_shape,
    constant_number,
    core_ndim,
    declared_parameters,
)
from pymc_dshdp.likelihood.conjugate import NotConjugate, dependents, named_if_singular
from pymc_dshdp.likelihood.regression import find_regression
from pymc_dshdp.likelihood.regression_marginals import RegressionMarginals, ScaledMarginals
from pymc_dshdp.likelihood.regression_terms import RegressionTerm
from pymc_dshdp.likelihood.table import terms_involving

__all__ = ["RegressionEvidence", "find_regression_evidence"]


def find_regression_evidence(model, z):
    """Find the regression of z if its coefficients and scales are all that tells states apart.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable

    Returns
    -------
    RegressionEvidence or None
    """
    terms = {rv for rv, _ in terms_involving(model, z)}
    for rv in model.free_RVs:
        try:
            match = find_regression(model, rv)
        except NotConjugate:
            continue
        if match.z is not z or match.terms != terms or not match.scale:
            continue
        value = model.rvs_to_values[z]
        if depends_on(match.mean, value) or depends_on(match.linear, value):
            continue  # something else in the mean follows the states
        scale = None
        if depends_on(match.scale[0], value):
            scale = _scale_of_each_state(model, match)
            if scale is None:
                continue
        return RegressionEvidence(model, match, scale)
    return None


def _scale_of_each_state(model, match):
    """Find the ``Scale`` of a match; None if it is another function of the states."""
    node = declared_parameters(match.likelihood)[1]
    theta, exponent = _power(node, match.z)
    if (
        theta not in model.free_RVs
        or core_ndim(theta) != 0
        or concrete_shape(theta) != (match.n_states,)
        or not set(dependents(model, theta)) <= match.terms
        or any(p.type.shape not in ((), (1,)) for p in declared_parameters(theta))
        or not has_own_transform(model, theta, np.empty(match.n_states))
        or not _is_positive(model, theta)
    ):
        return None
    try:
        return Scale(model, theta, exponent)
    except NotImplementedError:
        return None


def _is_positive(model, theta):
    """Whether the transform of a variable shows that it is positive."""
    transform = model.rvs_to_transforms[theta]
    if isinstance(transform, IntervalTransform):
        lower = transform.args_fn(*theta.owner.inputs)[0]
        lower = None if lower is None else constant_number(pt.as_tensor(lower))
        return lower is not None and lower >= 0.0
    return isinstance(transform, LogTransform | LogOddsTransform)


def _power(node, z):
    """(theta, e) where a graph is theta[z]^e for positive theta; (None, 0) otherwise."""
    theta = indexed_variable(node, z)
    if theta is not None:
        return _power_of_rows(theta)
    inner, exponent = _outermost_power(node)
    if inner is None:
        return None, 0
    theta, e = _power(inner, z)
    return theta, e * exponent


def _power_of_rows(node):
    """Find the same for theta^e that is indexed as a whole."""
    inner, exponent = _outermost_power(node)
    if inner is None:
        return node, 1.0
    theta, e = _power_of_rows(inner)
    return theta, e * exponent


def _outermost_power(node):
    """(x, e) where a graph is x^e for positive x, by its outermost operation; else (None, 0)."""
    op = getattr(node.owner, "op", None)
    if isinstance(op, DimShuffle):
        return node.owner.inputs[0], 1.0
    if not isinstance(op, Elemwise):
        return None, 0
    kind, x = type(op.scalar_op), node.owner.inputs
    if kind in (Sqrt, Abs, Reciprocal):
        return x[0], {Sqrt: 0.5, Abs: 1.0, Reciprocal: -1.0}[kind]
    if kind is Pow and constant_number(x[1]) is not None:
        return x[0], constant_number(x[1])
    if kind is Mul and len(x) == 2:  # PyMC's tau^-1/2 keeps the sign
        others = [v for v in x if not _is_sign(v)]
        if len(others) == 1:
            return others[0], 1.0
    return None, 0


def _is_sign(node):
    op = getattr(node.owner, "op", None)
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, Sign)


class Scale:
    """A scale theta_k^e of each state, of any prior that is the same for all.

    Parameters
    ----------
    model : pymc.Model
    theta : TensorVariable
        Of shape (L,).
    exponent : float
    """

    def __init__(self, model, theta, exponent):
        self.value = model.rvs_to_values[theta]
        self._draw, self._exponent = PriorDraw(model, theta), exponent
        [self._n_states] = concrete_shape(theta)
        u = natural = pt.vector(dtype="float64", shape=concrete_shape(theta))
        many = pt.matrix(dtype="float64", shape=(None, *concrete_shape(theta)))
        at = pt.exp(u / exponent)
        log_density = pm.logp(theta, at, warn_rvs=False) + u / exponent - np.log(abs(exponent))
        [log_density] = in_values(model, [log_density])
        transform = model.rvs_to_transforms[theta]
        value = natural if transform is None else transform.forward(natural, *theta.owner.inputs)
        self._log_density = point_function([vectorize_graph(log_density, {u: many})], [many])
        self._both = point_function(in_values(model, [theta, value]), [natural])

    def log_prior(self, point):
        """``f(u)``, the log-densities of log scales, elementwise."""

        def evaluate(u):
            rows = np.resize(u, (-(-u.size // self._n_states), self._n_states))
            with np.errstate(all="ignore"):
                [found] = self._log_density(point, rows)
            return found.ravel()[: u.size].reshape(u.shape)

        return evaluate

    def draw_prior(self, point):
        """``f(rng)``, the log scale of one state, drawn from the prior."""

        def draw(rng):
            while True:  # a draw may have no value in floating point
                value = self._draw(point, rng)
                if np.isfinite(value[0]):
                    return self.log_scales({**point, self.value.name: value})[:1]

        return draw

    def log_scales(self, point):
        """Read the log scales."""
        natural, _ = self._both(point, np.ones(self._n_states))
        with np.errstate(divide="ignore"):
            return self._exponent * np.log(natural)

    def values(self, point, log_scales):
        """Values of log scales by name; those that are as they were are left alone."""
        moved = log_scales != self.log_scales(point)
        _, new = self._both(point, np.exp(log_scales / self._exponent))
        old = point[self.value.name]
        return {self.value.name: np.where(moved, new, old).astype(self.value.dtype)}


class RegressionEvidence(RegressionTerm):
    """A regression as ``CollapsedEmission`` is: what is left with its parameters integrated out.

    Parameters
    ----------
    model : pymc.Model
    match : RegressionMatch
    scale : Scale or None
        None where the scales do not follow the states.
    """

    def __init__(self, model, match, scale):
        super().__init__(model, match)
        self._scale, self._name = scale, match.likelihood.name

    def named_if_singular(self):
        """Raise ``SamplingError`` with the names where scales are 0 or matrices singular."""
        return named_if_singular(self.values, self._name)

    def marginals(self, point):
        """Return marginal likelihoods of sets of times."""
        x, offset, scale = self._arrays(point)
        residual = self._likelihood.data(point) - offset
        rows = np.concatenate([x, residual[..., None]], axis=-1)
        prior = np.linalg.qr(self._prior(point), mode="r")
        if self._scale is None:
            return RegressionMarginals(rows / scale[..., None], -np.log(scale).sum(axis=1), prior)
        return ScaledMarginals(
            rows,
            prior,
            self._scale.log_prior(point),
            self._scale.draw_prior(point),
            self._scale.log_scales(point),
        )

    def log_constant(self, point):
        """Terms of the log-density that the evidence leaves out: none."""
        return 0.0

    def kept_values(self, point, kept):
        """Values, by name, of what was drawn with a division of times."""
        return {} if self._scale is None else self._scale.values(point, kept[:, 0])
