"""Simulated data: the paper's scenarios, and paths from the priors of infinitely many states.

The scenarios are those of section 6.1 of Zhou, Gao & Paninski (2020), with the transition
matrices of the data that the authors published. The paths come from the Chinese restaurant
franchise, which draws from the untruncated prior.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = [
    "GaussianEmission",
    "MultinomialEmission",
    "PriorPath",
    "Series",
    "SwitchingModel",
    "different_self_persistence",
    "different_transitions",
    "ds_hdp_path",
    "hdp_path",
    "sticky_hdp_path",
]

N_STATES = 8
SUCCESSORS = np.array([[1, 1], [4, 3], [7, 5], [2, 7], [5, 1], [0, 3], [3, 5], [6, 0]])


class Series(NamedTuple):
    """A simulated series.

    Attributes
    ----------
    z : ndarray of int, shape (T,)
        Hidden states.
    w : ndarray of int, shape (T,)
        1 where the state persisted by its self-persistence, 0 where it was drawn from a row.
    y : ndarray of shape (T,) or (T, K)
        Observations.
    """

    z: np.ndarray
    w: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class GaussianEmission:
    r"""Observations :math:`y_t \sim N(\theta_{z_t}, \sigma^2)`.

    Parameters
    ----------
    mean : ndarray of shape (K,)
        Theta.
    sigma : float
    """

    mean: np.ndarray
    sigma: float

    def draw(self, z, rng):
        """Draw observations of shape (T,) given the states."""
        return rng.normal(self.mean[z], self.sigma)


@dataclass(frozen=True)
class MultinomialEmission:
    r"""Observations :math:`y_t \sim \mathrm{Multinomial}(1, p_{z_t})`, one-hot.

    Parameters
    ----------
    probabilities : ndarray of shape (K, C)
    """

    probabilities: np.ndarray

    def draw(self, z, rng):
        """Draw observations of shape (T, C) given the states."""
        return rng.multinomial(1, self.probabilities[z])


@dataclass(frozen=True)
class SwitchingModel:
    r"""A hidden Markov model with :math:`P = \mathrm{diag}(\kappa) + (1 - \kappa)\bar\pi`.

    Parameters
    ----------
    kappa : ndarray of shape (K,)
        Self-persistence probabilities.
    pi_bar : ndarray of shape (K, K)
        Rows of the switches.
    pi_init : ndarray of shape (K,)
    emission : GaussianEmission or MultinomialEmission
    """

    kappa: np.ndarray
    pi_bar: np.ndarray
    pi_init: np.ndarray
    emission: GaussianEmission | MultinomialEmission

    @property
    def transition_matrix(self):
        """P, of shape (K, K)."""
        return np.diag(self.kappa) + (1.0 - self.kappa)[:, None] * self.pi_bar

    def sample(self, length, rng):
        """Simulate one series.

        Parameters
        ----------
        length : int
            T.
        rng : numpy.random.Generator

        Returns
        -------
        Series
        """
        if length < 1:
            raise ValueError(f"length must be at least 1, received {length}")
        K = len(self.kappa)
        z, w = np.empty(length, int), np.zeros(length, int)
        z[0] = rng.choice(K, p=self.pi_init)
        for t in range(1, length):
            w[t] = rng.random() < self.kappa[z[t - 1]]
            z[t] = z[t - 1] if w[t] else rng.choice(K, p=self.pi_bar[z[t - 1]])
        return Series(z, w, self.emission.draw(z, rng))


def _emission(emission, accuracy, rng):
    if emission == "gaussian":
        return GaussianEmission(rng.normal(3.5, 6.0, N_STATES), 0.5)
    if emission == "multinomial":
        other = (1.0 - accuracy) / (N_STATES - 1)
        return MultinomialEmission(np.where(np.eye(N_STATES) == 1.0, accuracy, other))
    raise ValueError(f"emission must be 'gaussian' or 'multinomial', received {emission!r}")


def different_self_persistence(emission, rng):
    r"""Scenario 1: self-persistence differs between states, the rows of the switches are equal.

    Eight states; a true alpha that is large and true rho1, rho2 that are small. Self-persistence
    is .4 in the first half of the states and .9 in the second with Gaussian emissions, .65 and .9
    with multinomial ones. On a switch the first half is the likelier: .22 and .03 each with
    Gaussian emissions, 10/49 and 9/196 with multinomial ones. Gaussian observations are
    :math:`N(\theta_z, 0.5^2)`, :math:`\theta \sim N(3.5, 6^2)`; multinomial ones equal the state
    with probability .9 and any other category with equal chances.

    Parameters
    ----------
    emission : {"gaussian", "multinomial"}
    rng : numpy.random.Generator

    Returns
    -------
    SwitchingModel
        Its series start in any state with equal probability.
    """
    emission_model = _emission(emission, 0.9, rng)
    low, row = {
        "gaussian": (0.4, (0.22, 0.03)),
        "multinomial": (0.65, (10 / 49, 9 / 196)),
    }[emission]
    half = N_STATES // 2
    return SwitchingModel(
        np.repeat([low, 0.9], half),
        np.tile(np.repeat(row, half), (N_STATES, 1)),
        np.full(N_STATES, 1.0 / N_STATES),
        emission_model,
    )


def different_transitions(emission, rng):
    r"""Scenario 2: equal self-persistence, and switches to one or two successors of each state.

    Eight states; a true alpha that is small and true rho1, rho2 that are large. Self-persistence
    is .8. A switch from state i goes to (3i + 1) mod 8 or (2i + 1) mod 8 with equal chances (to
    the state after it, where that is i itself). Observations as in
    ``different_self_persistence``, but multinomial ones equal the state with probability .8.

    Parameters
    ----------
    emission : {"gaussian", "multinomial"}
    rng : numpy.random.Generator

    Returns
    -------
    SwitchingModel
        Its series start in any state with equal probability.
    """
    emission_model = _emission(emission, 0.8, rng)
    pi_bar = np.zeros((N_STATES, N_STATES))
    np.add.at(pi_bar, (np.arange(N_STATES)[:, None], SUCCESSORS), 0.5)
    return SwitchingModel(
        np.full(N_STATES, 0.8), pi_bar, np.full(N_STATES, 1.0 / N_STATES), emission_model
    )


class PriorPath(NamedTuple):
    """Hidden paths drawn from a prior.

    Attributes
    ----------
    z : ndarray of int, shape (T,)
        States, numbered in the order of their first table; sequences end to end.
    w : ndarray of int, shape (T,)
        1 where the state persisted by its self-persistence.
    kappa : ndarray of shape (K,)
        Self-persistence of the states met.
    hyperparameters : dict
        Gamma, alpha, rho1 and rho2.
    """

    z: np.ndarray
    w: np.ndarray
    kappa: np.ndarray
    hyperparameters: dict


def _positive(name, value, upper=np.inf):
    if not 0.0 < value < upper:
        bounds = "positive and finite" if upper == np.inf else f"in (0, {upper:g})"
        raise ValueError(f"{name} must be {bounds}, received {value!r}")
    return float(value)


def _concentrations(gamma, alpha, rng, name="alpha"):
    gamma = rng.gamma(2.0) if gamma is None else _positive("gamma", gamma)
    alpha = rng.exponential(100.0) if alpha is None else _positive(name, alpha)
    return gamma, alpha


def _franchise(lengths, gamma, alpha, rho, rng):
    r"""Simulate paths by the Chinese restaurant franchise (Teh et al. 2006).

    A switch from state j is a customer of restaurant j, a start one of a restaurant of its own.
    It copies the dish of an earlier customer there, each with probability
    :math:`1 / (\alpha + n_j)`, or opens a table, whose dish copies that of an earlier table of
    any restaurant, each with probability :math:`1 / (\gamma + m)`, or is a new state. Given
    :math:`\kappa_j`, customers come to restaurant j only where the state does not persist.
    """
    lengths = np.atleast_1d(lengths)
    if lengths.ndim != 1 or lengths.size == 0 or np.any(lengths < 1):
        raise ValueError(f"lengths must be one or more positive integers, received {lengths}")
    start_dishes, dishes, tables, kappa = [], [], [], []

    def serve(customers):
        chosen = int(rng.random() * (alpha + len(customers)))
        if chosen < len(customers):
            dish = customers[chosen]
        else:
            table = int(rng.random() * (gamma + len(tables)))
            dish = tables[table] if table < len(tables) else len(kappa)
            if dish == len(kappa):
                kappa.append(rng.beta(*rho) if rho[0] > 0.0 else 0.0)
                dishes.append([])
            tables.append(dish)
        customers.append(dish)
        return dish

    z, w = [], []
    for length in lengths:
        state = serve(start_dishes)
        z.append(state)
        w.append(0)
        for _ in range(length - 1):
            w.append(int(rng.random() < kappa[state]))
            if not w[-1]:
                state = serve(dishes[state])
            z.append(state)
    hyperparameters = {"gamma": gamma, "alpha": alpha, "rho1": rho[0], "rho2": rho[1]}
    return PriorPath(np.array(z), np.array(w), np.array(kappa), hyperparameters)


def ds_hdp_path(lengths, *, gamma=None, alpha=None, phi=None, eta=None, rng):
    r"""Simulate paths from the disentangled sticky HDP-HMM prior, without truncation.

    Parameters
    ----------
    lengths : int or sequence of int
        Lengths of the sequences, which share states and rows.
    gamma, alpha, phi, eta : float, optional
        As for ``DSHDP``; drawn from the paper's hyperpriors by default. rho1 = phi / eta^3,
        rho2 = (1 - phi) / eta^3.
    rng : numpy.random.Generator

    Returns
    -------
    PriorPath
    """
    gamma, alpha = _concentrations(gamma, alpha, rng)
    phi = rng.uniform(0.0, 1.0) if phi is None else _positive("phi", phi, 1.0)
    eta = rng.uniform(0.0, 2.0) if eta is None else _positive("eta", eta, 2.0)
    return _franchise(lengths, gamma, alpha, (phi * eta**-3.0, (1.0 - phi) * eta**-3.0), rng)


def sticky_hdp_path(lengths, *, gamma=None, s=None, phi=None, rng):
    r"""Simulate paths from the sticky HDP-HMM prior, without truncation.

    By theorem 1 this is the disentangled prior with rho1 = kappa0 and rho2 = alpha.

    Parameters
    ----------
    lengths : int or sequence of int
    gamma, s, phi : float, optional
        As for ``StickyHDP``, s = alpha + kappa0 and phi = kappa0 / s; drawn from the paper's
        hyperpriors by default.
    rng : numpy.random.Generator

    Returns
    -------
    PriorPath
    """
    gamma, s = _concentrations(gamma, s, rng, "s")
    phi = rng.uniform(0.0, 1.0) if phi is None else _positive("phi", phi, 1.0)
    return _franchise(lengths, gamma, (1.0 - phi) * s, (phi * s, (1.0 - phi) * s), rng)


def hdp_path(lengths, *, gamma=None, alpha=None, rng):
    r"""Simulate paths from the HDP-HMM prior, without truncation or self-persistence.

    Parameters
    ----------
    lengths : int or sequence of int
    gamma, alpha : float, optional
        As for ``HDP``; drawn from the paper's hyperpriors by default.
    rng : numpy.random.Generator

    Returns
    -------
    PriorPath
    """
    gamma, alpha = _concentrations(gamma, alpha, rng)
    return _franchise(lengths, gamma, alpha, (0.0, alpha), rng)
