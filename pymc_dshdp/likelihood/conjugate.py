"""Which parameters of a model are conjugate to their likelihood, and their exact draws."""

from contextlib import contextmanager

import numpy as np
import pytensor.tensor as pt
from pymc.exceptions import SamplingError
from pymc.logprob.transforms import LogOddsTransform, LogTransform
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.emissions.base import SCALES, families
from pymc_dshdp.graph.path import n_states_of, observed_path
from pymc_dshdp.graph.pointwise import depends_on, indexed_variable
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.terms import densities
from pymc_dshdp.graph.walks import concrete_shape, has_op
from pymc_dshdp.likelihood.completed import completed
from pymc_dshdp.likelihood.families import Likelihood

__all__ = ["ConjugateTerm", "NotConjugate", "find_conjugate", "named_if_singular"]


class NotConjugate(Exception):
    """Why a variable is not drawn from a conjugate conditional."""


def dependents(model, variable):
    """Other random variables and potentials whose own graphs contain a variable."""
    out = []
    for other in densities(model):
        blockers = [v for v in model.basic_RVs if v is not other]
        if other is not variable and depends_on(other, variable, blockers):
            out.append(other)
    return out


def _indexed(node, z):
    """(theta, order) of ``theta[z]`` with inserted axes; order lists theta[z]'s axes or "x"."""
    order = None
    if has_op(node, DimShuffle):
        order = list(node.owner.op.new_order)
        node = node.owner.inputs[0]
        kept = [i for i in order if i != "x"]
        if kept != list(range(node.type.ndim)) or order[: z.type.ndim] != kept[: z.type.ndim]:
            return None, None
    theta = indexed_variable(node, z)
    return theta, list(range(node.type.ndim)) if order is None else order


def _located(family, parameter, node, z):
    """Theta and its axes, where a likelihood's parameter is f(theta[z]) or f(theta)[z]."""
    inner = family.unlink(parameter.position, node)
    if inner is None:
        theta = indexed_variable(node, z)
        inner = None if theta is None else family.unlink(parameter.position, theta)
        return (None, None) if inner is None else (inner, list(range(node.type.ndim)))
    theta, order = _indexed(inner, z)
    if theta is None or theta.owner is None:
        return None, None
    return theta, order


def _scale_of(model, rv, scale):
    """How draws on a scale become values: as they are (None), or through a function."""
    transform, expected = model.rvs_to_transforms.get(rv), SCALES[scale]
    if (transform is None and expected is None) or (
        expected is not None and type(transform) is expected
    ):
        return _centred if scale == "log-simplex" else None
    if transform is None and expected is LogTransform:
        return np.exp
    if transform is None and expected is LogOddsTransform:
        return _sigmoid
    raise NotConjugate(f"{rv.name!r} has a transform of its own, {transform}")


def _batch_ndim(likelihood, family):
    return likelihood.type.ndim - likelihood.owner.op.ndim_supp + family.core_time


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, e) / (1.0 + e)


def _centred(logs):
    """Values of the simplex transform from logarithms, normalised or not."""
    return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)


def _candidates(model, rv):
    """Likelihoods among the dependents of a variable, with their states, families and parts."""
    for likelihood in dependents(model, rv):
        if likelihood.owner is None or likelihood not in model.basic_RVs:
            continue
        whole = completed(model, likelihood)
        if whole is not None:
            if likelihood is not whole.parts[0]:
                continue  # the two parts are one candidate
            likelihood = whole.rv
        matching = [
            f
            for f in families()
            if f.parameters
            and has_op(likelihood, f.likelihood)
            and any(has_op(rv, p.prior) for p in f.parameters)
        ]
        if not matching:
            continue
        blockers = [v for v in model.basic_RVs if v is not likelihood]
        for z in ancestors([likelihood], blockers=blockers):
            if has_op(z, HiddenPathRV) and z in model.basic_RVs:
                yield from ((likelihood, z, family, whole) for family in matching)


def find_conjugate(model, rv):
    """Match a free random variable to a family.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable

    Returns
    -------
    Match

    Raises
    ------
    NotConjugate
        Saying what is missing.
    """
    reason = f"no conjugate family knows how {rv.name!r} enters a likelihood"
    for likelihood, z, family, whole in _candidates(model, rv):
        try:
            return Match(model, rv, likelihood, z, family, whole)
        except NotConjugate as error:
            reason = str(error)
    raise NotConjugate(reason)


class Match:
    """Variables that a family can draw together, checked on the graph only.

    Attributes
    ----------
    likelihood, z : TensorVariable
    source : TensorVariable or None
        Where the likelihood's value is, if it has missing parts (see ``completed.py``).
    terms : set of TensorVariable
        The likelihood as the model has it: itself, or its observed and missing parts.
    family : Family
    variables : list of TensorVariable
        One per entry of ``family.parameters``.
    """

    def __init__(self, model, rv, likelihood, z, family, whole=None):
        self.likelihood, self.z, self.family = likelihood, z, family
        self.source = None if whole is None else whole.joined
        self.terms = {likelihood} if whole is None else set(whole.parts)
        parameters = family.parameters_of(likelihood)
        found = [_located(family, p, parameters[p.position], z) for p in family.parameters]
        self.variables = [theta for theta, _ in found]
        self.orders = [order for _, order in found]
        if rv not in self.variables:
            raise NotConjugate(
                f"{likelihood.name!r} does not use {rv.name!r} as {rv.name}[{z.name}]"
            )
        self.n_states = n_states_of(z)
        allowed = {*((likelihood,) if whole is None else whole.parts), *self.variables}
        for theta, parameter in zip(self.variables, family.parameters, strict=True):
            self._check_variable(model, theta, parameter, allowed)
        drawn = {p.position for p in family.parameters}
        blockers = [v for v in model.basic_RVs if v is not likelihood]
        for i, node in enumerate(parameters):
            if i not in drawn and any(depends_on(node, v, blockers) for v in self.variables):
                raise NotConjugate(f"{rv.name!r} enters {likelihood.name!r} more than once")
        if any("x" in order[_batch_ndim(likelihood, family) :] for order in self.orders):
            raise NotConjugate(f"{rv.name!r} is broadcast within an observation")
        if not family.several_columns and _batch_ndim(likelihood, family) > z.type.ndim:
            raise NotConjugate(f"{likelihood.name!r} has several observations at a time")
        if not family.joint(self.variables):
            raise NotConjugate(f"the priors of {[v.name for v in self.variables]} do not fit")
        if not Likelihood.accepts(model, likelihood, z, family):
            raise NotConjugate(
                f"a parameter of {likelihood.name!r} varies other than with {z.name!r}"
            )

    def term(self, model):
        """Build the conditional."""
        return ConjugateTerm(model, self)

    def _check_variable(self, model, theta, parameter, allowed):
        if theta is None or theta not in model.free_RVs or not has_op(theta, parameter.prior):
            raise NotConjugate(f"a parameter of {self.likelihood.name!r} lacks a conjugate prior")
        _scale_of(model, theta, parameter.scale)
        if concrete_shape(theta)[0] != self.n_states:
            raise NotConjugate(f"{theta.name!r} does not have {self.n_states} rows")
        for other in dependents(model, theta):
            if other not in allowed:
                raise NotConjugate(f"{other.name!r} also depends on {theta.name!r}")


@contextmanager
def named_if_singular(values, likelihood):
    """Raise ``SamplingError`` with the names where scales are 0 or matrices singular."""
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            yield
    except np.linalg.LinAlgError:
        raise SamplingError(
            f"{[v.name for v in values]} cannot be drawn given {likelihood!r}: "
            "a scale parameter has collapsed to 0, or a covariance is singular; give it a "
            "prior that keeps away from that"
        ) from None


class ConjugateTerm:
    """The exact conditional of the variables of one match.

    Parameters
    ----------
    model : pymc.Model
    match : Match

    Attributes
    ----------
    values : list of TensorVariable
        Value variables drawn.
    """

    def __init__(self, model, match):
        self._family = family = match.family
        self._likelihood = Likelihood(
            model, match.likelihood, match.z, match.n_states, family, match.source
        )
        self._z = model.rvs_to_values[match.z].name
        self._path = None if match.z in model.free_RVs else observed_path(model, match.z)[0].ravel()
        self.values = [model.rvs_to_values[v] for v in match.variables]
        self._convert = [
            _scale_of(model, v, p.scale)
            for v, p in zip(match.variables, family.parameters, strict=True)
        ]
        drawn = {p.position for p in family.parameters} | set(family.data_parameters)
        n_parameters = len(self._likelihood.parameters)
        others = [i for i in range(n_parameters) if i not in drawn]
        hyperparameters = family.hyperparameters(*self._prior_parameters(model, match))
        self._n_hyper = len(hyperparameters)
        self._read = point_function([*hyperparameters, *self._likelihood.graphs(others)])
        self._lay_out(match)
        if match.likelihood in model.observed_RVs:
            self._likelihood.data({})

    @staticmethod
    def _prior_parameters(model, match):
        """Parameters of the priors, end to end, in values, padded to the variable's own axes."""
        out = []
        declared = match.family.prior_parameters(match.variables)
        for rv, parameters in zip(match.variables, declared, strict=True):
            op = rv.owner.op
            own = rv.type.ndim - op.ndim_supp
            parameters = in_values(model, parameters)
            out += [
                pt.atleast_Nd(p, n=own + core)
                for p, core in zip(parameters, op.ndims_params, strict=True)
            ]
        return out

    def _lay_out(self, match):
        """Work out which axes of the data the variables lack, and the variables' own axes."""
        n, trail = match.z.type.ndim, self._likelihood.trail
        rv, order = match.variables[0], match.orders[0]
        shape = concrete_shape(rv)
        own = [1 if axis == "x" else shape[axis - n + 1] for axis in order[n : n + len(trail)]]
        self._lacking = tuple(
            1 + i for i, (a, b) in enumerate(zip(own, trail, strict=True)) if a == 1 and b != 1
        )
        self._n_own = int(np.prod(own, dtype=int))
        self._own_shape = shape[: 1 + len(own) - order[n : n + len(trail)].count("x")]
        self._prior_shape = shape[: rv.type.ndim - rv.owner.op.ndim_supp]

    def _per_own(self, statistic):
        """Sum an (L, C, ...) statistic over the axes of the data that the variables lack."""
        L, _, *core = statistic.shape
        if self._lacking:
            full = statistic.reshape(L, *self._likelihood.trail, *core)
            statistic = full.sum(axis=self._lacking)
        return statistic.reshape(L, self._n_own, *core)

    def _hyperparameter(self, array):
        full = np.broadcast_to(array, self._prior_shape + array.shape[len(self._prior_shape) :])
        return full.reshape(full.shape[0], self._n_own, *full.shape[len(self._own_shape) :])

    def named_if_singular(self):
        """Raise ``SamplingError`` with the names where scales are 0 or matrices singular."""
        return named_if_singular(self.values, self._likelihood.name)

    def draw(self, point, rng):
        """Draw the variables of all states given everything else; new values by name."""
        likelihood = self._likelihood
        arrays = self._read(point)
        others = [likelihood.arrange(x) for x in arrays[self._n_hyper :]]
        z = np.ravel(point[self._z]) if self._path is None else self._path
        data = likelihood.data(point)
        hyperparameters = [self._hyperparameter(h) for h in arrays[: self._n_hyper]]
        with self.named_if_singular():
            stats = self._family.suff_stats(data, z, likelihood.n_states, *others)
            stats = tuple(self._per_own(s) for s in stats)
            draws = self._family.sample_posterior(rng, stats, hyperparameters)
            if not all(np.isfinite(draw).all() for draw in draws):
                raise np.linalg.LinAlgError
        new = {}
        for value, draw, convert in zip(self.values, draws, self._convert, strict=True):
            draw = draw if convert is None else convert(draw)
            new[value.name] = draw.reshape(*self._own_shape, *draw.shape[2:]).astype(value.dtype)
        return new
