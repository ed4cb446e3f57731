"""Parameters of a model whose conditionals given the states are one-dimensional, and their draws.

Given the path, everything else in the model, and the prior's hyperparameters, the elements of a
parameter theta that enters one likelihood as a function of ``theta[z]`` are independent:

    log p(theta_k | z, y, ...) = log p(theta_k) + sum_{t: z_t = k} log p(y_t | theta_k, ...) + const

with an expression in a few statistics of each state for the sum (``emissions/conditional.py``),
or the sum itself where there are none.
A parameter without an axis of states has the same conditional with a sum over all times.
"""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import LogExpM1, Ordered
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pymc.vartypes import continuous_types
from pytensor.graph.traversal import ancestors

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.emissions.conditional import conditionals
from pymc_dshdp.graph.elements import NotElementwise, element_axes
from pymc_dshdp.graph.path import n_states_of, observed_path
from pymc_dshdp.graph.pointwise import depends_on, indexed_variable, is_pointwise
from pymc_dshdp.graph.prior_draws import PriorDraw, has_own_transform
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.terms import log_densities
from pymc_dshdp.graph.walks import concrete_shape, core_ndim, declared_parameters, has_op
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.likelihood.completed import completed
from pymc_dshdp.likelihood.conjugate import NotConjugate, dependents
from pymc_dshdp.likelihood.families import Likelihood
from pymc_dshdp.likelihood.regression import find_closed_form

__all__ = [
    "ConditionalMatch",
    "ConditionalTerm",
    "NotConditional",
    "find_conditional",
    "reasons",
]

ELEMENTWISE = (LogTransform, LogOddsTransform, IntervalTransform, LogExpM1)
UPDATES = 2  # of a Gaussian x, one leaves a correlation of 1/3 in x^2 and none in x
PRIOR_DRAWS = 40


class NotConditional(Exception):
    """Why a variable is not drawn from a one-dimensional conditional."""


def find_conditional(model, rv):
    """Match a free random variable to a conditional.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable

    Returns
    -------
    ConditionalMatch

    Raises
    ------
    NotConditional
        Saying what is missing.
    """
    if rv not in model.free_RVs or rv.dtype not in continuous_types:
        raise NotConditional(f"{rv.name!r} is not a free continuous variable")
    if hasattr(rv.type, "dims"):
        raise NotConditional(f"{rv.name!r} has labelled dimensions")
    if core_ndim(rv) != 0:
        raise NotConditional(f"the elements of {rv.name!r} are not independent in their prior")
    transform = model.rvs_to_transforms[rv]
    if _orders_states(model, rv):
        raise NotConditional(
            f"the order of {rv.name!r} ties the states together, so that none can be split, merged "
            "or drawn by itself: leave the transform out, align() numbers the states after sampling"
        )
    if transform is not None and not isinstance(transform, ELEMENTWISE):
        raise NotConditional(f"{rv.name!r} has the transform {transform}")
    likelihood, whole = _only_likelihood(model, rv)
    states = _states_behind(model, likelihood)
    if not states:
        raise NotConditional(f"{likelihood.name!r} does not depend on hidden states")
    for z in states:
        try:
            return ConditionalMatch(model, rv, likelihood, z, whole)
        except NotConditional as error:
            reason = error
    raise reason


def reasons(model):
    """Say of each emission parameter why neither its closed form nor its conditional is known.

    Parameters
    ----------
    model : pymc.Model

    Returns
    -------
    dict of str
        By the names of the free continuous variables that a likelihood with hidden states
        depends on, without those that ``ConjugateStep`` or ``SliceEmissionStep`` draw.
    """
    out = {}
    for rv in model.free_RVs:
        if rv.dtype not in continuous_types:
            continue
        behind = [v for other in dependents(model, rv) for v in _states_behind(model, other)]
        if not behind:
            continue
        try:
            find_closed_form(model, rv)
        except NotConjugate as closed:
            try:
                find_conditional(model, rv)
            except NotConditional as error:
                out[rv.name] = f"{closed}; {error}"
    return out


def _orders_states(model, rv):
    """Whether a variable is indexed by states, and has the transform that orders its elements."""
    if not isinstance(model.rvs_to_transforms[rv], Ordered):
        return False
    behind = list(ancestors(dependents(model, rv)))
    states = [v for v in behind if has_op(v, HiddenPathRV)]
    return any(indexed_variable(v, z) is rv for v in behind for z in states)


def _states_behind(model, variable):
    """Hidden states in a variable's own graph."""
    blockers = [v for v in model.basic_RVs if v is not variable]
    return [
        v
        for v in ancestors([variable], blockers=blockers)
        if has_op(v, HiddenPathRV) and v in model.basic_RVs and v is not variable
    ]


def _only_likelihood(model, rv):
    """Find the one likelihood that depends on a variable, whole where it is in two parts."""
    found = dependents(model, rv)
    if not found:
        raise NotConditional(f"nothing depends on {rv.name!r}")
    whole = completed(model, found[0])
    parts = set(found[:1]) if whole is None else set(whole.parts)
    for other in found:
        if other not in parts:
            raise NotConditional(f"{found[0].name!r} and {other.name!r} both depend on {rv.name!r}")
    likelihood = found[0] if whole is None else whole.rv
    if whole is None and likelihood not in model.basic_RVs:
        raise NotConditional(f"{likelihood.name!r} is not a random variable")
    return likelihood, whole


class ConditionalMatch:
    """A variable whose elements are drawn one by one, checked on the graph only.

    Attributes
    ----------
    variable, likelihood, z : TensorVariable
    source : TensorVariable or None
        Where the likelihood's value is, if it has missing parts (see ``completed.py``).
    conditional : Conditional
    n_states : int
    axes : tuple of (int or None)
        For each axis of a (L, trail) array, the axis of the variable that it is.
    """

    def __init__(self, model, rv, likelihood, z, whole=None):
        self.variable, self.likelihood, self.z = rv, likelihood, z
        self.source = None if whole is None else whole.joined
        self.n_states = n_states_of(z)
        blockers = {v for v in model.basic_RVs if v is not likelihood}
        parameters = declared_parameters(likelihood)
        moving = tuple(i for i, p in enumerate(parameters) if depends_on(p, rv, blockers))
        positions = " and ".join(map(str, moving))
        name = f"parameter{'s' * (len(moving) > 1)} {positions} of {likelihood.name!r}"
        self.conditional = next(
            (c for c in conditionals() if has_op(likelihood, c.likelihood) and c.moving == moving),
            None,
        )
        if self.conditional is None:
            raise NotConditional(
                f"no conditional is known for a variable in {name}, "
                f"a {likelihood.owner.op.name or likelihood.owner.op}"
            )
        parameters = self.conditional.parameters_of(likelihood)
        if likelihood in model.free_RVs and model.rvs_to_transforms[likelihood] is not None:
            raise NotConditional(f"{likelihood.name!r} is not observed")
        n = z.type.ndim
        if concrete_shape(likelihood)[:n] != concrete_shape(z):
            raise NotConditional(f"the times of {likelihood.name!r} are not those of {z.name!r}")
        batch = likelihood.type.ndim
        found = set()
        for p in (parameters[i] for i in moving):
            if not is_pointwise(p, z, batch, blockers):
                raise NotConditional(f"{name} varies other than with {z.name!r}")
            try:
                axes = element_axes(p, rv, z, blockers)
            except NotElementwise:
                raise NotConditional(
                    f"an element of {name} may depend on several of {rv.name!r}"
                    if whole is None
                    else f"{likelihood.name!r} has missing values, and how {rv.name!r} enters its "
                    "observed and its missing part together cannot be told from the model"
                ) from None
            found.add((None,) * (batch - len(axes)) + axes)
        [axes, *more] = found
        self.axes = axes[n - 1 :]
        own = [a for a in self.axes if a is not None]
        if more or own != list(range(rv.type.ndim)):
            raise NotConditional(f"{name} has the axes of {rv.name!r} in another order")
        if 0 in self.axes[1:] and rv.type.ndim and self.axes[0] is not None:
            raise NotConditional(f"{name} has the axes of {rv.name!r} twice")
        self.by_state = self.axes[0] == 0
        if self.by_state and concrete_shape(rv)[0] != self.n_states:
            raise NotConditional(f"{rv.name!r} does not have {self.n_states} rows")


class ConditionalTerm:
    """The conditional of the variable of one match, and its slice-sampling update.

    Parameters
    ----------
    model : pymc.Model
    match : ConditionalMatch
    start : dict
        A point of the model.

    Attributes
    ----------
    value : TensorVariable
        Value variable drawn.
    spread : ndarray
        Interquartile range of the prior in value space at the start, for each element; widths of
        the slices follow from it and the visits, neither of which the update moves.
    has_missing : bool
        Whether values of the likelihood are missing, and so imputed by the point.
    """

    def __init__(self, model, match, start):
        self.value = model.rvs_to_values[match.variable]
        self.has_missing = match.source is not None
        self._conditional = conditional = match.conditional
        self._by_state, self._n_states = match.by_state, match.n_states
        self._z = model.rvs_to_values[match.z].name
        self._path = None if match.z in model.free_RVs else observed_path(model, match.z)[0].ravel()
        self._likelihood = likelihood = Likelihood(
            model, match.likelihood, match.z, match.n_states, conditional, match.source
        )
        drawn = {*conditional.moving, *conditional.data_parameters}
        others = [p for i, p in enumerate(likelihood.parameters) if i not in drawn]
        self._others = point_function(in_values(model, others))
        self._path_shape = concrete_shape(match.z) + likelihood.trail
        self._shape = concrete_shape(match.variable)
        self._model, self._match = model, match
        self._density = None
        self._draw, self.spread = self._prior(model, match.variable, start)

    def _prior(self, model, rv, start):
        """Build the draw from the prior, or None if there is none, and find its spread."""
        try:
            draw = PriorDraw(model, rv)
        except NotImplementedError:
            return None, np.ones(self._shape)
        rng = np.random.default_rng(0)
        values = np.array([draw(start, rng) for _ in range(PRIOR_DRAWS)], dtype="float64")
        finite = np.isfinite(values)
        low, high = np.nanquantile(np.where(finite, values, np.nan), [0.25, 0.75], axis=0)
        return draw if has_own_transform(model, rv, values[0]) else None, high - low

    def _compile(self, statistics):
        """``f(point, x, *statistics)``: the log-density of each element, in value space."""
        model, match = self._model, self._match
        full = (self._n_states, *self._likelihood.trail)
        visits = pt.tensor(dtype="float64", shape=full)
        of = self._of_times if self._conditional.by_time else self._of_states
        inputs, data = of(statistics, full)
        data = pt.switch(pt.eq(visits, 0.0), 0.0, data)
        lacking = tuple(
            i
            for i, axis in enumerate(match.axes)
            if axis is None or (self._shape[axis] == 1 and full[i] != 1)
        )
        data = pt.sum(data, axis=lacking).reshape(self._shape)
        [prior] = log_densities(model, [match.variable])
        return point_function([prior + data], [self.value, visits, *inputs])

    def _of_states(self, statistics, full):
        """Return inputs for the statistics, and log-likelihoods of the states and columns."""
        moving = self._likelihood.graphs(list(self._conditional.moving))
        first = (0,) * (self._match.z.type.ndim - 1)
        further = [s.ndim - len(full) for s in statistics]  # axes whose lengths follow the data
        inputs = [pt.tensor(dtype="float64", shape=full + (None,) * n) for n in further]
        return inputs, self._conditional.log_likelihood(*(g[first] for g in moving), *inputs)

    def _of_times(self, statistics, full):
        """Return the same, summed from the log-likelihoods of the times."""
        likelihood, shape = self._likelihood, (self._likelihood.T, self._likelihood.C)
        moving = [likelihood.parameters[i] for i in self._conditional.moving]
        moving = [
            pt.broadcast_to(g, self._path_shape).reshape(shape)
            for g in in_values(self._model, moving)
        ]
        inputs = [pt.tensor(dtype="float64", shape=shape) for _ in statistics]
        data = self._conditional.log_likelihood(*moving, *inputs)
        z = self._model.rvs_to_values[self._match.z].ravel()
        sums = pt.zeros((self._n_states, likelihood.C))[z].inc(data)
        return inputs, sums.reshape(full)

    def statistics(self, point):
        """Visits of the states, and the statistics, laid out as (L, *trail, ...) or (T, C)."""
        likelihood = self._likelihood
        z = np.ravel(point[self._z]) if self._path is None else self._path
        others = [
            np.broadcast_to(x, self._path_shape).reshape(likelihood.T, likelihood.C)
            for x in self._others(point)
        ]
        found = self._conditional.statistics(likelihood.data(point), z, self._n_states, *others)
        visits = np.bincount(z, minlength=self._n_states).astype(float)
        full = (self._n_states, *likelihood.trail)
        columns = np.array(np.broadcast_to(visits.reshape(-1, *[1] * len(likelihood.trail)), full))
        if not self._conditional.by_time:
            found = [s.reshape(*full, *s.shape[2:]) for s in found]
        return visits, [columns, *(np.array(s, dtype=float) for s in found)]

    def log_density(self, point, statistics):
        """``f(x)``, the log-density of each element of values x, up to constants."""
        if self._density is None:
            self._density = self._compile(statistics[1:])
        return lambda x: self._density(point, x.reshape(self._shape), *statistics)[0].ravel()

    def draw(self, point, rng):
        """Update all elements given everything else; the new values by name."""
        visits, statistics = self.statistics(point)
        x = np.asarray(point[self.value.name])
        if self._by_state:
            visits = visits.reshape(-1, *[1] * (x.ndim - 1))
            if self._draw is not None and not visits.all():
                vacant = np.broadcast_to(visits == 0.0, x.shape).ravel()
                x = self._draw.renewed(point, rng, x.size, vacant).reshape(x.shape)
        else:
            visits = visits.sum()
        width = 2.0 * self.spread / np.sqrt(1.0 + visits)
        density = self.log_density(point, statistics)
        x, width = x.ravel().astype(float), np.broadcast_to(width, self._shape).ravel()
        for _ in range(UPDATES):
            try:
                x = slice_sample(density, x, rng, width)
            except ValueError as error:
                raise ValueError(
                    f"{self.value.name!r} cannot be drawn: {error}. Where the data of a state are "
                    "constant a scale parameter collapses to 0; give it a prior that keeps away "
                    "from 0"
                ) from None
        return {self.value.name: x.reshape(self._shape).astype(self.value.dtype)}
