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

That the mean, or the logit, is affine in the coefficients, time by time, is proved from its graph;
the covariates are its derivative.
"""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, MvNormalRV, NormalRV

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.emissions.binomial import BernoulliProbability, BinomialProbability
from pymc_dshdp.emissions.normal import NormalScale
from pymc_dshdp.graph.elements import NotElementwise, element_axes
from pymc_dshdp.graph.linear import NotLinear, linear_part, rows_of_states
from pymc_dshdp.graph.pointwise import is_pointwise
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import concrete_shape, depends_on_random_variables, has_op, unwrap
from pymc_dshdp.kernels.emissions_statistics import triangular_statistics
from pymc_dshdp.kernels.polya_gamma import polya_gamma_draws
from pymc_dshdp.likelihood.completed import completed
from pymc_dshdp.likelihood.conjugate import NotConjugate, dependents, find_conjugate
from pymc_dshdp.likelihood.families import Likelihood

__all__ = ["RegressionMatch", "RegressionTerm", "find_closed_form", "find_regression"]

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
        if not (has_op(z, HiddenPathRV) and z in model.free_RVs):
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
    parameters = likelihood.owner.op.dist_params(likelihood.owner)
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
    n_states = int(unwrap(z.owner.inputs[2]).type.shape[0])
    return concrete_shape(v)[0] == n_states and set(dependents(model, v)) <= parts


class RegressionMatch:
    """Coefficients that are drawn together, checked on the graph only.

    Attributes
    ----------
    variables : list of TensorVariable
    likelihood, z : TensorVariable
    source : TensorVariable or None
        Where the likelihood's value is, if it has missing parts (see ``completed.py``).
    n_states : int
    mean, linear : TensorVariable
        Graphs of the mean, or the logit, and its linear part, in values and ``rows``.
    rows : list of TensorVariable
        The coefficients at each time.
    scale : list of TensorVariable
        In values; none for a logit.
    """

    def __init__(self, model, variables, likelihood, z, whole=None):
        self.variables, self.likelihood, self.z = variables, likelihood, z
        self.source = None if whole is None else whole.joined
        self.n_states = int(unwrap(z.owner.inputs[2]).type.shape[0])
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

    def term(self, model):
        """Build the conditional."""
        return RegressionTerm(model, self)


class RegressionTerm:
    """The exact conditional of the coefficients of one match.

    Parameters
    ----------
    model : pymc.Model
    match : RegressionMatch

    Attributes
    ----------
    values : list of TensorVariable
        Value variables drawn.
    """

    def __init__(self, model, match):
        self._z = model.rvs_to_values[match.z].name
        self._n_states = match.n_states
        self.values = [model.rvs_to_values[v] for v in match.variables]
        self._shapes = [concrete_shape(v) for v in match.variables]
        self._likelihood = likelihood = Likelihood(
            model,
            match.likelihood,
            match.z,
            match.n_states,
            READ_BY[next(op for op in READ_BY if has_op(match.likelihood, op))],
            match.source,
        )
        self._path_shape = concrete_shape(match.z) + likelihood.trail
        n = match.z.type.ndim
        zeros = {row: pt.zeros(concrete_shape(match.z) + shape[1:], dtype=row.dtype)
                 for row, shape in zip(match.rows, self._shapes, strict=True)}  # fmt: skip
        offset = clone_replace(match.mean, zeros, rebuild_strict=False)
        columns = pt.broadcast_to(match.linear, self._path_shape)
        columns = columns.reshape((*concrete_shape(match.z), likelihood.C))
        covariates = [
            clone_replace(x.flatten(n + 1) if x.type.ndim > n else x[..., None], zeros,
                          rebuild_strict=False)
            for c in range(likelihood.C)
            for x in grad(columns[..., c].sum(), match.rows, disconnected_inputs="ignore")
        ]  # fmt: skip
        self._n_variables = len(match.variables)
        self._n_scales = len(match.scale)
        self._read = point_function([offset, *match.scale, *covariates])
        self._read_priors = point_function(
            in_values(model, [p for v in match.variables for p in v.owner.op.dist_params(v.owner)])
        )
        self._normal = [has_op(v, NormalRV) for v in match.variables]
        if match.likelihood in model.observed_RVs:
            likelihood.data({})

    def _rows(self, point, z, rng):
        """Rows (x, y - offset) / scale, the columns of a time one after the other."""
        T, C = self._likelihood.T, self._likelihood.C
        offset, *arrays = self._read(point)
        offset, *scale = (
            np.broadcast_to(a, self._path_shape).reshape(T, C)
            for a in (offset, *arrays[: self._n_scales])
        )
        flat = [x.reshape(T, -1) for x in arrays[self._n_scales :]]
        width = self._n_variables
        x = [np.concatenate(flat[c * width : (c + 1) * width], axis=1) for c in range(C)]
        x = np.stack(x, axis=1)
        if scale:
            weight = 1.0 / scale[0]
            y = self._likelihood.data(point) * weight
        else:
            present = [point[v.name].reshape(self._n_states, -1) for v in self.values]
            logit = offset + np.einsum("tcp,tp->tc", x, np.concatenate(present, axis=1)[z])
            successes, failures = self._likelihood.data(point)
            omega = polya_gamma_draws(rng, (successes + failures).ravel(), logit.ravel())
            weight = np.sqrt(omega).reshape(T, C)
            y = 0.5 * (successes - failures) / np.where(weight > 0.0, weight, 1.0)
        rows = np.concatenate([x * weight[:, :, None], (y - weight * offset)[:, :, None]], axis=2)
        return rows.reshape(T * C, -1)

    def _prior_rows(self, point):
        """Rows (R, R m) with R'R the prior's precision, block by block."""
        parameters = self._read_priors(point)
        sizes = [int(np.prod(shape[1:], dtype=int)) for shape in self._shapes]
        L, P = self._n_states, sum(sizes)
        out = np.zeros((L, P, P + 1))
        first = 0
        for i, (shape, size, normal) in enumerate(
            zip(self._shapes, sizes, self._normal, strict=True)
        ):
            mean, spread = parameters[2 * i : 2 * i + 2]
            mean = np.broadcast_to(mean, shape).reshape(L, size)
            if normal:
                spread = np.broadcast_to(spread, shape).reshape(L, size)
                root = np.eye(size) / spread[:, :, None]
            else:
                d = shape[-1]
                blocks = np.linalg.inv(np.linalg.cholesky(spread))
                blocks = np.broadcast_to(blocks, (*shape, d)).reshape(L, size // d, d, d)
                root = np.zeros((L, size // d, d, size // d, d))
                for j in range(size // d):
                    root[:, j, :, j] = blocks[:, j]
                root = root.reshape(L, size, size)
            last = first + size
            out[:, first:last, first:last] = root
            out[:, first:last, P] = (root @ mean[:, :, None])[..., 0]
            first = last
        return out

    def draw(self, point, rng):
        """Draw the coefficients of all states given everything else; new values by name."""
        z = np.ravel(point[self._z])
        rows = self._rows(point, z, rng)
        z = np.repeat(z, self._likelihood.C)
        _, factors = triangular_statistics(z, rows, self._n_states)
        stacked = np.concatenate([self._prior_rows(point), factors], axis=1)
        r = np.linalg.qr(stacked, mode="r")
        P = r.shape[2] - 1
        right = r[:, :P, P:] + rng.standard_normal((self._n_states, P, 1))
        drawn = np.linalg.solve(r[:, :P, :P], right)[..., 0]
        new, first = {}, 0
        for value, shape in zip(self.values, self._shapes, strict=True):
            size = int(np.prod(shape[1:], dtype=int))
            part = drawn[:, first : first + size]
            new[value.name] = part.reshape(shape).astype(value.dtype)
            first += size
        return new
