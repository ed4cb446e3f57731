"""Weights of a mixture of finite mixtures: the number of active states, which they are, and beta.

K ~ p(K) on 1..L; the active set is one of the C(L, K) sets of K labels, all alike; beta is
Dir(c, ..., c) on it and 0 elsewhere, with c = gamma (static) or gamma / K (dynamic). Given the
tables m, of which K+ labels have some, and with the active set and beta integrated out,

    p(K | m, gamma) ~ p(K) K! / (K - K+)! x Gamma(K c) / Gamma(K c + m..)
                      x prod_{k: m_k > 0} Gamma(c + m_k) / Gamma(c),      K+ <= K <= L,

as C(L - K+, K - K+) of the C(L, K) sets hold all labels that have tables. Given K these are active,
the others a uniform choice of K - K+ labels, and beta ~ Dir(c + m_k) on the active ones (Miller &
Harrison 2018; Fruehwirth-Schnatter, Malsiner-Walli & Gruen 2021).
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.random import dirichlet_draw, log_beta_draw, log_gamma_draw
from pymc_dshdp.kernels.tables import crt_draw


class NumberPrior(NamedTuple):
    """What the number of active states is given.

    Attributes
    ----------
    log_probabilities : ndarray of shape (L,)
        log p(K) of K = 1..L, up to a constant.
    static : bool
        Whether each weight has the Dirichlet parameter gamma, rather than gamma / K.
    """

    log_probabilities: np.ndarray
    static: bool


class ActiveDraw(NamedTuple):
    """Which states are active, and their weights.

    Attributes
    ----------
    active : ndarray of int64, shape (L,)
        1 where active, else 0.
    beta : ndarray of shape (L,)
        Exactly 0 where not.
    """

    active: np.ndarray
    beta: np.ndarray


@njit(cache=True, nogil=True)
def each_concentration(gamma, number, static):
    """c, the Dirichlet parameter of each active weight."""
    return gamma if static else gamma / number


@njit(cache=True, nogil=True)
def log_number_given_tables(tables, gamma, prior):
    """Log p(K | m, gamma) of K = 1..L up to a constant; shape (L,)."""
    L, total = tables.shape[0], tables.sum()
    occupied = np.count_nonzero(tables)
    out = np.full(L, -np.inf)
    for number in range(max(1, occupied), L + 1):
        c = each_concentration(gamma, number, prior.static)
        out[number - 1] = prior.log_probabilities[number - 1] + log_tables(tables, c, number, total)
        out[number - 1] += math.lgamma(number + 1.0) - math.lgamma(number - occupied + 1.0)
    return out


@njit(cache=True, nogil=True)
def log_tables(tables, c, number, total):
    """Log of Gamma(K c) / Gamma(K c + m..) prod_k Gamma(c + m_k) / Gamma(c)."""
    out = 0.0
    if total > 0:
        out = math.lgamma(number * c) - math.lgamma(number * c + total)
    for m in tables:
        if m > 0:
            out += math.lgamma(c + m) - math.lgamma(c)
    return out


@njit(cache=True, nogil=True)
def log_gamma_given_number(gamma, tables, number, static):
    """Log p(m | K, gamma) up to a constant, beta integrated out."""
    return log_tables(tables, each_concentration(gamma, number, static), number, tables.sum())


@njit(cache=True, nogil=True)
def draw_number(rng, log_probabilities):
    """Draw K from log-probabilities of 1..L, up to a constant."""
    weights = np.exp(log_probabilities - log_probabilities.max())
    left = rng.random() * weights.sum()
    last = 0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            last = k
            left -= weights[k]
            if left < 0.0:
                break
    return last + 1


@njit(cache=True, nogil=True)
def draw_active(rng, number, occupied):
    """Draw an active set of K labels, uniform among those that hold the occupied ones.

    Parameters
    ----------
    rng : numpy.random.Generator
    number : int
        K, at least the number of occupied labels.
    occupied : ndarray of bool, shape (L,)

    Returns
    -------
    ndarray of int64, shape (L,)
    """
    L = occupied.shape[0]
    active = occupied.astype(np.int64)
    wanted = number - active.sum()
    left = L - active.sum()
    for k in range(L):
        if not occupied[k]:
            if rng.random() * left < wanted:
                active[k] = 1
                wanted -= 1
            left -= 1
    return active


@njit(cache=True, nogil=True)
def draw_gamma_given_number(rng, tables, gamma, number, static, shape, rate):
    """Gamma | m, K with beta integrated out, prior Gamma(shape, rate).

    r_k ~ CRT(m_.k, c) and x ~ Beta(K c, m..) leave gamma^r.. x^(K c), and K c is gamma or K gamma
    (Escobar & West 1995, for the finite Dirichlet).
    """
    total = tables.sum()
    if total == 0:
        return rng.standard_gamma(shape) / rate
    c = each_concentration(gamma, number, static)
    second_level = 0
    for m in tables:
        second_level += crt_draw(rng, m, c)
    log_x, _ = log_beta_draw(rng, number * c, total)
    power = number if static else 1.0
    return math.exp(log_gamma_draw(rng, shape + second_level)) / (rate - power * log_x)


@njit(cache=True, nogil=True)
def draw_active_weights(rng, tables, gamma, number, static):
    """Draw the active set | m, K, then beta | m, gamma, active."""
    active = draw_active(rng, number, tables > 0)
    beta = np.empty(tables.shape[0])
    c = each_concentration(gamma, number, static)
    dirichlet_draw(rng, active * (c + tables), beta)
    return ActiveDraw(active, beta)
