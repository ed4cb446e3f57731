"""Regressions whose coefficients are integrated out, and the scales of each state if it has any."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pytensor.graph.replace import vectorize_graph
from pytensor.scalar.basic import Abs, Mul, Pow, Reciprocal, Sign, Sqrt
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.basic import NormalRV

from pymc_dshdp.graph.elements import NotElementwise, element_axes
from pymc_dshdp.graph.pointwise import depends_on, indexed_variable
from pymc_dshdp.graph.prior_draws import PriorDraw, has_own_transform
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import (
    concrete_shape,
    constant_number,
    core_ndim,
    declared_parameters,
    has_op,
)
from pymc_dshdp.likelihood.conjugate import NotConjugate, dependents, named_if_singular
from pymc_dshdp.likelihood.regression import find_regression
from pymc_dshdp.likelihood.regression_marginals import RegressionMarginals, ScaledMarginals
from pymc_dshdp.likelihood.regression_terms import RegressionTerm

__all__ = ["RegressionEvidence", "regression_evidence"]

LARGEST = 10_000_000
"""Covariates that are looked through for which column has which coefficients: 80 MB."""


def regression_evidence(model, z, terms):
    """Yield the regressions of z whose coefficients and scales are all that tells states apart.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    terms : set of TensorVariable
        Terms of the model that they may stand for.

    Yields
    ------
    RegressionEvidence
    """
    for rv in model.free_RVs:
        try:
            match = find_regression(model, rv)
        except NotConjugate:
            continue
        if match.z is not z or not match.terms <= terms or not match.scale:
            continue
        value = model.rvs_to_values[z]
        if depends_on(match.mean, value) or depends_on(match.linear, value):
            continue  # something else in the mean follows the states
        scale = None
        if depends_on(match.scale[0], value):
            scale = _scale_of_each_state(model, match)
            if scale is None:
                continue
        try:
            yield RegressionEvidence(model, match, scale)
        except NotSideBySide:
            continue


def _scale_of_each_state(model, match):
    """Find the ``Scale`` of a match; None if it is another function of the states."""
    node = declared_parameters(match.likelihood)[1]
    theta, exponent = _power(node, match.z)
    if (
        theta not in model.free_RVs
        or core_ndim(theta) != 0
        or concrete_shape(theta)[0] != match.n_states
        or not set(dependents(model, theta)) <= match.terms
        or not _is_alike_in_all_states(theta)
        or not has_own_transform(model, theta, np.empty(concrete_shape(theta)))
        or not _is_positive(model, theta)
    ):
        return None
    n = match.z.type.ndim
    try:
        axes = element_axes(node, theta, match.z)
        if len(axes) != match.likelihood.type.ndim or set(axes[:n]) != {0} or 0 in axes[n:]:
            return None
        scale = Scale(model, theta, exponent, axes[n:])
    except (NotElementwise, NotImplementedError):
        return None
    return scale if scale.n_each == 1 or _design_size(match) <= LARGEST else None


def _design_size(match):
    """How many covariates there are at all times, of all numbers and coefficients."""
    coefficients = sum(int(np.prod(concrete_shape(v)[1:], dtype=int)) for v in match.variables)
    return int(np.prod(concrete_shape(match.likelihood), dtype=int)) * coefficients


def _is_alike_in_all_states(theta):
    """Whether the parameters of theta's prior are numbers, the same along its first axis."""
    try:
        parameters, cores = declared_parameters(theta), theta.owner.op.ndims_params
    except ValueError:  # PyMC does not say what the parameters are
        return False
    return not any(cores) and all(
        p.type.ndim < theta.type.ndim or p.type.shape[0] == 1 for p in parameters
    )


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
    """Scales theta_k^e of each state, of any prior that is the same for all states.

    Parameters
    ----------
    model : pymc.Model
    theta : TensorVariable
        Of shape (L, ...): B for each state.
    exponent : float
    axes : tuple of (int or None)
        Axes of theta along which those of the data at a time run.

    Attributes
    ----------
    n_each : int
        B.
    """

    def __init__(self, model, theta, exponent, axes):
        self.value = model.rvs_to_values[theta]
        self._draw, self._exponent = PriorDraw(model, theta), exponent
        self._shape, self._axes = concrete_shape(theta), axes
        self.n_each = int(np.prod(self._shape[1:], dtype=int))
        u = natural = pt.tensor(dtype="float64", shape=self._shape)
        many = pt.tensor(dtype="float64", shape=(None, *self._shape))
        at = pt.exp(u / exponent)
        log_density = pm.logp(theta, at, warn_rvs=False) + u / exponent - np.log(abs(exponent))
        [log_density] = in_values(model, [log_density])
        transform = model.rvs_to_transforms[theta]
        value = natural if transform is None else transform.forward(natural, *theta.owner.inputs)
        self._log_density = point_function([vectorize_graph(log_density, {u: many})], [many])
        self._both = point_function(in_values(model, [theta, value]), [natural])

    def of_columns(self, trail):
        """Find which of the B scales each number observed at a time has, shape (C,)."""
        own = self._shape[1:]
        which = np.arange(np.prod(own, dtype=int)).reshape(own)
        kept = [axis - 1 for axis in self._axes if axis is not None]
        which = which.transpose([*kept, *(i for i in range(len(own)) if i not in kept)])
        shape = [1 if axis is None else own[axis - 1] for axis in self._axes]
        return np.broadcast_to(which.reshape(shape), trail).ravel()

    def log_prior(self, point):
        """``f(u)``, the log-densities of log scales of shape (..., B), elementwise."""

        def evaluate(u):
            L, n = self._shape[0], u.size // u.shape[-1]
            rows = np.resize(u.reshape(n, -1), (-(-n // L) * L, u.shape[-1]))
            with np.errstate(all="ignore"):
                [found] = self._log_density(point, rows.reshape(-1, *self._shape))
            return found.reshape(rows.shape)[:n].reshape(u.shape)

        return evaluate

    def draw_prior(self, point):
        """``f(rng)``, the log scales of one state, drawn from the prior."""

        def draw(rng):
            while True:  # a draw may have no value in floating point
                value = self._draw(point, rng)
                if np.isfinite(value[0]).all():
                    return self.log_scales({**point, self.value.name: value})[0]

        return draw

    def log_scales(self, point):
        """Read the log scales, shape (L, B)."""
        natural, _ = self._both(point, np.ones(self._shape))
        with np.errstate(divide="ignore"):
            return self._exponent * np.log(natural.reshape(self._shape[0], -1))

    def values(self, point, log_scales):
        """Values of log scales by name; those that are as they were are left alone."""
        moved = (log_scales != self.log_scales(point)).reshape(self._shape)
        natural = np.exp(log_scales / self._exponent).reshape(self._shape)
        _, new = self._both(point, natural)
        old = point[self.value.name]
        return {self.value.name: np.where(moved, new, old).astype(self.value.dtype)}


class NotSideBySide(Exception):
    """The numbers of a time are no regressions side by side, each with a scale of its own.

    Or this is not known: covariates are random, or coefficients not independent.
    """


class RegressionEvidence(RegressionTerm):
    """A regression as ``CollapsedEmission`` is: what is left with its parameters integrated out.

    Where each state has scales for several columns of the data, and each column has coefficients
    of its own, it is as many regressions side by side.

    Parameters
    ----------
    model : pymc.Model
    match : RegressionMatch
    scale : Scale or None
        None where the scales do not follow the states.

    Attributes
    ----------
    terms : set of TensorVariable
        Terms of the model that it stands for.
    n_kept : int
        Numbers of a state that are drawn with a division of times: the scales.
    n_parts : int
        B, the regressions side by side.

    Raises
    ------
    NotSideBySide
        If a state has several scales, and columns of different scales share a coefficient, or may.
    """

    def __init__(self, model, match, scale):
        super().__init__(model, match)
        self.terms, self.n_kept = match.terms, 0 if scale is None else scale.n_each
        self.n_parts = max(1, self.n_kept)
        self._scale, self._name = scale, match.likelihood.name
        C, P = self._likelihood.C, sum(int(np.prod(s[1:], dtype=int)) for s in self._shapes)
        self._columns, self._coefficients = np.arange(C)[None], np.arange(P)[None]
        if self.n_kept > 1:
            if not self._of_data or not all(has_op(v, NormalRV) for v in match.variables):
                raise NotSideBySide
            self._divide(self._design({}))

    def _divide(self, x):
        """Find the columns and coefficients of each scale: (B, C / B) and (B, P / B)."""
        scales, every = self._scale.of_columns(self._likelihood.trail), range(self._scale.n_each)
        used = np.any(x, axis=0)  # (C, P)
        of_scale = np.array([used[scales == b].any(axis=0) for b in every])
        columns = [np.flatnonzero(scales == b) for b in every]
        coefficients = [np.flatnonzero(x) for x in of_scale]
        sizes = {(len(c), len(p)) for c, p in zip(columns, coefficients, strict=True)}
        if (of_scale.sum(axis=0) != 1).any() or len(sizes) > 1:
            raise NotSideBySide
        self._columns, self._coefficients = np.array(columns), np.array(coefficients)
        self._divided = x

    def named_if_singular(self):
        """Raise ``SamplingError`` with the names where scales are 0 or matrices singular."""
        return named_if_singular(self.values, self._name)

    def marginals(self, point):
        """Return marginal likelihoods of sets of times."""
        x, offset, scale = self._arrays(point)
        residual = self._likelihood.data(point) - offset
        if self.n_kept > 1 and x is not self._divided:
            self._divide(x)
        columns, own = self._columns, self._coefficients
        x = x[:, columns[:, :, None], own[:, None]].swapaxes(0, 1)  # (B, T, C, P)
        rows = np.concatenate([x, residual.T[columns].swapaxes(1, 2)[..., None]], axis=-1)
        prior = np.linalg.qr(self._prior(point), mode="r")
        place = np.concatenate([own, np.full((len(own), 1), prior.shape[1])], axis=1)
        prior = prior[:, own[:, :, None], place[:, None]]  # (L, B, P, P + 1)
        if self._scale is None:
            weight = scale.T[columns].swapaxes(1, 2)[..., None]
            return RegressionMarginals(rows / weight, -np.log(scale).sum(axis=1), prior)
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
        return {} if self._scale is None else self._scale.values(point, kept)
