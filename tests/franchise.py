"""Paths from the priors of infinitely many states, by the Chinese restaurant franchise."""

from typing import NamedTuple

import numpy as np


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
