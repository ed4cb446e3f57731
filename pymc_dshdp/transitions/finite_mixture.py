"""The mixture of finite mixtures as weights: its declared p(K), and what is drawn given tables."""

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.random.op import RandomVariable
from scipy.special import betaln, logsumexp

from pymc_dshdp.graph.walks import depends_on_random_variables, evaluate, has_op, unwrap
from pymc_dshdp.kernels import finite_mixture as kernels

__all__ = ["FiniteMixture", "log_number_probabilities"]

TOLERANCE = 1e-6  # of a sum of probabilities
HOW = "n_active=pm.Poisson.dist(3), say, or an array of the probabilities of 1 to n_states"


def log_number_probabilities(where, n_active, L):
    """Log p(K) of K = 1..L: the default, a distribution made by ``.dist()``, or probabilities.

    The default is 1 + BetaNegativeBinomial(1, 4, 3), p(K) ~ B(5, K + 2), of mean 2; it and a
    distribution are truncated to 1..L and normalised.
    """
    where = f"{where}: n_active"
    if n_active is None:
        logs = betaln(5.0, np.arange(1, L + 1) + 2.0)
    elif isinstance(n_active, Variable) and not isinstance(n_active, Constant):
        logs = _of_distribution(where, n_active, L)
    else:
        logs = _of_array(where, n_active, L)
    if not logs[-1] > -np.inf:
        raise ValueError(
            f"{where} gives probability 0 to {L} active states, all that n_states={L} declares; "
            "let n_states be the largest number that has some"
        )
    return logs - logsumexp(logs)


def _of_distribution(where, rv, L):
    if not has_op(rv, RandomVariable) or rv.type.ndim or not rv.dtype.startswith(("int", "uint")):
        raise TypeError(
            f"{where} must be a discrete distribution of a scalar, received {rv}; write {HOW}"
        )
    if getattr(rv, "name", None) is not None or depends_on_random_variables(rv.owner.inputs):
        raise ValueError(
            f"{where} must be a distribution of given parameters, made by .dist() and no variable "
            f"of the model, received {rv.name or rv}; write {HOW}"
        )
    logs = np.array(evaluate([pm.logp(rv, np.array(k, rv.dtype)) for k in range(1, L + 1)]), float)
    if np.isnan(logs).any() or not np.isfinite(logs).any():
        raise ValueError(
            f"{where} must give a probability to some of 1 to {L} active states, received a "
            f"distribution with log-probabilities {logs}"
        )
    return logs


def _of_array(where, given, L):
    try:
        p = np.asarray(given.data if isinstance(given, Constant) else given, dtype="float64")
    except (TypeError, ValueError):
        raise TypeError(
            f"{where} must be a distribution or {L} probabilities, received {given!r}; write {HOW}"
        ) from None
    if p.shape != (L,):
        raise ValueError(
            f"{where} must have shape ({L},), the probabilities of 1 to {L} active states, "
            f"received shape {p.shape}; or write {HOW}"
        )
    if not (np.all(p >= 0.0) and abs(p.sum() - 1.0) < TOLERANCE):
        raise ValueError(
            f"{where} must be probabilities that sum to one, received {given!r}, of sum "
            f"{p.sum():.9g}"
        )
    with np.errstate(divide="ignore"):
        return np.log(p)


class FiniteMixture:
    """Draw the number of active states, which they are and their weights, given the tables.

    Parameters
    ----------
    model : pymc.Model
    active : ActiveStates variable
    beta : ActiveWeights variable

    Attributes
    ----------
    prior : kernels.finite_mixture.NumberPrior
    """

    def __init__(self, model, active, beta):
        logs, static = evaluate([unwrap(active.owner.inputs[2]), unwrap(beta.owner.inputs[4])])
        self.prior = kernels.NumberPrior(np.asarray(logs, "float64"), bool(static))
        self._value = model.rvs_to_values[active]

    def active(self, point):
        """Which states are active; bool, (L,)."""
        return np.asarray(point[self._value.name]) == 1

    def values(self, active):
        """Value of the active set by its name."""
        return {self._value.name: active.astype(self._value.dtype, copy=False)}

    def draw(self, point, tables, gamma, hyperprior, rng):
        """Draw K | m, gamma; gamma | m, K; the active set | m, K; beta | m, gamma, active.

        Beta is integrated out up to the last, and the active set while K and gamma are drawn.

        Returns
        -------
        gamma : float
        active, beta : ndarrays of shape (L,)
        """
        static = self.prior.static
        number = kernels.draw_number(
            rng, kernels.log_number_given_tables(tables, gamma, self.prior)
        )
        if hyperprior.by_slice:
            gamma = hyperprior.slice(
                point, lambda g: kernels.log_gamma_given_number(g, tables, number, static), rng
            )
        elif hyperprior.conjugate:
            shape, rate = hyperprior.gamma_parameters(point)
            gamma = kernels.draw_gamma_given_number(rng, tables, gamma, number, static, shape, rate)
        return gamma, *kernels.draw_active_weights(rng, tables, gamma, number, static)
