"""The paper's simulated scenarios.

They are those of section 6.1 of Zhou, Gao & Paninski (2020), with the transition
matrices of the data that the authors published.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

__all__ = [
    "GaussianEmission",
    "MultinomialEmission",
    "Series",
    "SwitchingModel",
    "different_self_persistence",
    "different_transitions",
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

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> series = dshdp.datasets.different_transitions("gaussian", rng).sample(100, rng)
    >>> series.z.shape, series.y.shape
    ((100,), (100,))
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

    Examples
    --------
    >>> emission = dshdp.datasets.GaussianEmission(np.array([-1.0, 1.0]), 0.5)
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

    Examples
    --------
    >>> emission = dshdp.datasets.MultinomialEmission(np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]))
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

    Examples
    --------
    >>> process = dshdp.datasets.SwitchingModel(
    ...     kappa=np.array([0.9, 0.5]),
    ...     pi_bar=np.full((2, 2), 0.5),
    ...     pi_init=np.full(2, 0.5),
    ...     emission=dshdp.datasets.GaussianEmission(np.array([-1.0, 1.0]), 0.5),
    ... )

    >>> process.sample(100, np.random.default_rng(1)).y.shape
    (100,)
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


def different_self_persistence(
    emission: Literal["gaussian", "multinomial"], rng: np.random.Generator
) -> SwitchingModel:
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

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z, w, y = dshdp.datasets.different_self_persistence("gaussian", rng).sample(100, rng)
    >>> z.shape, y.shape
    ((100,), (100,))
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


def different_transitions(
    emission: Literal["gaussian", "multinomial"], rng: np.random.Generator
) -> SwitchingModel:
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

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> z, w, y = dshdp.datasets.different_transitions("multinomial", rng).sample(100, rng)
    >>> z.shape, y.shape[0]
    ((100,), 100)
    """
    emission_model = _emission(emission, 0.8, rng)
    pi_bar = np.zeros((N_STATES, N_STATES))
    np.add.at(pi_bar, (np.arange(N_STATES)[:, None], SUCCESSORS), 0.5)
    return SwitchingModel(
        np.full(N_STATES, 0.8), pi_bar, np.full(N_STATES, 1.0 / N_STATES), emission_model
    )
