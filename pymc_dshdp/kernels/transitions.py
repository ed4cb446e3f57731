"""The transition block: concentrations, weights and rows given the hidden path.

Paper letters: n_jk draws from row j's Dirichlet (row 0 the sequence starts), m_.k tables
serving dish k, W_j self-persistences (w_t = 1) at state j, N_jk transitions of the path. The
rows of G groups lie one group after the other, R = G L in all, and row r is that of state r mod L:
all are draws from the same beta.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.random import (
    copy_probability,
    dirichlet_draw,
    log_beta_draw,
    log_gamma_draw,
    softplus,
)
from pymc_dshdp.kernels.tables import crt_draw, table_counts


@njit(cache=True, nogil=True)
def self_persistence_counts(rng, counts, kappa_logit, pi_bar):
    """Draw W_j ~ Binomial(N_jj, kappa_j / (kappa_j + (1 - kappa_j) pi_bar_jj)).

    Given z the w_t are independent; at z_{t-1} = z_t = j, w_t = 1 has prior probability kappa_j
    and w_t = 0 followed by z_t = j has (1 - kappa_j) pi_bar_jj.

    Parameters
    ----------
    rng : numpy.random.Generator
    counts : ndarray of shape (R + 1, L)
        Of ``path_counts``.
    kappa_logit : ndarray of shape (R,)
        Logit of the self-persistence probabilities; -inf for kappa = 0.
    pi_bar : ndarray of shape (R, L)

    Returns
    -------
    ndarray of shape (R,), int64
    """
    R, L = pi_bar.shape
    persistences = np.zeros(R, np.int64)
    for r in range(R):
        j = r % L
        n = counts[r + 1, j]
        if n > 0:
            p = copy_probability(kappa_logit[r], pi_bar[r, j])
            persistences[r] = n if p >= 1.0 else rng.binomial(n, p)
    return persistences


@njit(cache=True, nogil=True)
def varying_persistence_counts(rng, states, lengths, kappa_logit, pi_bar, persistences):
    """Draw w | z, kappa, pi_bar, where kappa varies with time, and count w_t = 1 by state.

    Given z the w_t are independent: at z_{t-1} = z_t = j,
    p(w_t = 1) = kappa_tj / (kappa_tj + (1 - kappa_tj) pi_bar_jj); elsewhere w_t = 0.

    Parameters
    ----------
    rng : numpy.random.Generator
    states : ndarray of shape (T,), integer
    lengths : ndarray of shape (N,)
    kappa_logit : ndarray of shape (T, L)
    pi_bar : ndarray of shape (L, L)
    persistences : ndarray of shape (L,), int64
        W_j. Added to in place.
    """
    t = 0
    for length in lengths:
        for i in range(t + 1, t + length):
            j = states[i]
            if j == states[i - 1]:
                persistences[j] += rng.random() < copy_probability(kappa_logit[i, j], pi_bar[j, j])
        t += length


@njit(cache=True, nogil=True)
def persistence_trials(rng, states, lengths, kappa_logit, pi_bar):
    """Draw w | z, kappa, pi_bar, as ``varying_persistence_counts`` does, and say which they are.

    Each time t inside a sequence is a trial: of state z_{t-1}, with the probability kappa_t of
    success, which is w_t = 1.

    Parameters
    ----------
    rng, states, lengths, kappa_logit, pi_bar
        See there.

    Returns
    -------
    times : ndarray of shape (M,), int64
    persists : ndarray of shape (M,)
        w at these, 0 or 1.
    """
    times = np.empty(states.shape[0] - lengths.shape[0], np.int64)
    persists = np.zeros(times.shape[0])
    t, m = 0, 0
    for length in lengths:
        for i in range(t + 1, t + length):
            j = states[i - 1]
            if states[i] == j and rng.random() < copy_probability(kappa_logit[i, j], pi_bar[j, j]):
                persists[m] = 1.0
            times[m] = i
            m += 1
        t += length
    return times, persists


@njit(cache=True, nogil=True)
def switch_counts(counts, persistences):
    """N = N - diag(W), row 0 (the starts) unchanged; shape (R + 1, L)."""
    switches = counts.copy()
    for r in range(persistences.shape[0]):
        switches[r + 1, r % counts.shape[1]] -= persistences[r]
    return switches


@njit(cache=True, nogil=True)
def draw_gamma(rng, tables, gamma, shape, rate):
    """Gamma | m in the finite (weak-limit) model, prior Gamma(shape, rate).

    r_k ~ CRT(m_.k, gamma/L), x ~ Beta(gamma, m_..), gamma ~ Gamma(shape + r_., rate - log x):
    Escobar & West (1995) with the second-level tables r of the finite Dirichlet.
    """
    L = tables.shape[0]
    total = tables.sum()
    if total == 0:
        return rng.standard_gamma(shape) / rate
    second_level = 0
    for k in range(L):
        second_level += crt_draw(rng, tables[k], gamma / L)
    log_x, _ = log_beta_draw(rng, gamma, float(total))
    return math.exp(log_gamma_draw(rng, shape + second_level)) / (rate - log_x)


@njit(cache=True, nogil=True)
def draw_gamma_sticks(rng, sticks_logit, shape, rate):
    """Gamma | v ~ Gamma(shape + L - 1, rate - sum_k log(1 - v_k)), for v_k ~ Beta(1, gamma)."""
    log_remaining = 0.0
    for k in range(sticks_logit.shape[0]):
        log_remaining -= softplus(sticks_logit[k])
    return rng.standard_gamma(shape + sticks_logit.shape[0]) / (rate - log_remaining)


@njit(cache=True, nogil=True)
def log_alpha_marginal(alpha, switches, beta):
    """Log p(n | alpha, beta), rows integrated out (Dirichlet-multinomial), up to a constant.

    sum_j log Gamma(alpha) / Gamma(alpha + n_j.)
    + sum_jk log Gamma(alpha beta_k + n_jk) / Gamma(alpha beta_k).
    """
    R, L = switches.shape
    out = 0.0
    for j in range(R):
        row = 0
        for k in range(L):
            n = switches[j, k]
            if n > 0:
                row += n
                out += log_rising(alpha * beta[k], n)
        out -= log_rising(alpha, row)
    return out


@njit(cache=True, nogil=True)
def _log_alpha_density(x, switches, beta, shape, rate):
    """Log-density of x = log alpha given n and beta; -inf where alpha underflows or overflows."""
    alpha = math.exp(x)
    if alpha == 0.0 or math.isinf(alpha):
        return -np.inf
    return shape * x - rate * alpha + log_alpha_marginal(alpha, switches, beta)


@njit(cache=True, nogil=True)
def slice_alpha(rng, switches, alpha, beta, shape, rate):
    """Update alpha | n, beta by a slice on log alpha, tables integrated out (Neal 2003).

    The conjugate draw given the tables would move by a fraction m..^(-1/2) at a time however
    flat the likelihood of a large alpha is; the slice crosses it at once. The prior is
    Gamma(shape, rate); the Jacobian of the logarithm adds one log alpha.
    """
    x = math.log(alpha)
    height = _log_alpha_density(x, switches, beta, shape, rate) - rng.standard_exponential()
    left = x - rng.random()
    right = left + 1.0
    while _log_alpha_density(left, switches, beta, shape, rate) > height:
        left -= 1.0
    while _log_alpha_density(right, switches, beta, shape, rate) > height:
        right += 1.0
    while True:
        new = left + rng.random() * (right - left)
        if _log_alpha_density(new, switches, beta, shape, rate) >= height:
            return math.exp(new)
        if new < x:
            left = new
        else:
            right = new


@njit(cache=True, nogil=True)
def draw_weights(rng, tables, gamma):
    """Beta | m, gamma ~ Dir(gamma/L + m_.k); shape (L,)."""
    L = tables.shape[0]
    beta = np.empty(L)
    dirichlet_draw(rng, gamma / L + tables, beta)
    return beta


@njit(cache=True, nogil=True)
def draw_sticks(rng, tables, gamma):
    """v_k | m, gamma ~ Beta(1 + m_.k, gamma + sum_{l>k} m_.l), as logits; shape (L - 1,)."""
    L = tables.shape[0]
    sticks_logit = np.empty(L - 1)
    beyond = tables.sum()
    for k in range(L - 1):
        beyond -= tables[k]
        sticks_logit[k] = log_gamma_draw(rng, 1.0 + tables[k]) - log_gamma_draw(rng, gamma + beyond)
    return sticks_logit


@njit(cache=True, nogil=True)
def stick_breaking_weights(sticks_logit):
    """beta_k = v_k prod_{l<k} (1 - v_l), v_L = 1, from logit(v) of shape (L - 1,)."""
    L = sticks_logit.shape[0] + 1
    beta = np.empty(L)
    log_remaining = 0.0
    for k in range(L - 1):
        beta[k] = math.exp(log_remaining - softplus(-sticks_logit[k]))
        log_remaining -= softplus(sticks_logit[k])
    beta[L - 1] = math.exp(log_remaining)
    return beta


@njit(cache=True, nogil=True)
def draw_dirichlet_rows(rng, concentrations):
    """Draw independent rows ~ Dir(concentrations_j); shape (R, L)."""
    rows = np.empty(concentrations.shape)
    for j in range(rows.shape[0]):
        dirichlet_draw(rng, concentrations[j], rows[j])
    return rows


class TransitionPrior(NamedTuple):
    """Conjugate hyperpriors of one sweep; a shape of 0 marks a value that is not to be drawn.

    Attributes
    ----------
    gamma_shape, gamma_rate : float
        gamma ~ Gamma(shape, rate).
    alpha_shape, alpha_rate : float
        alpha ~ Gamma(shape, rate).
    """

    gamma_shape: float
    gamma_rate: float
    alpha_shape: float
    alpha_rate: float


class TransitionDraw(NamedTuple):
    """One draw of the transition block.

    Attributes
    ----------
    gamma, alpha : float
    sticks_logit : ndarray of shape (L - 1,), or (0,) for weak-limit weights
        Logit of v.
    beta : ndarray of shape (L,)
    rows : ndarray of shape (R + 1, L)
        pi_init in row 0, pi_bar below.
    """

    gamma: float
    alpha: float
    sticks_logit: np.ndarray
    beta: np.ndarray
    rows: np.ndarray


@njit(cache=True, nogil=True)
def split_counts(rng, counts, kappa_logit, pi_bar):
    """Draw (n, W) with fresh W | z, kappa, pi_bar; shapes (R + 1, L) and (R,)."""
    persistences = self_persistence_counts(rng, counts, kappa_logit, pi_bar)
    return switch_counts(counts, persistences), persistences


@njit(cache=True, nogil=True)
def alpha_and_tables(rng, switches, alpha, beta, prior):
    """Draw alpha | n, beta if its prior asks for it, then the tables m | n, alpha, beta."""
    if prior.alpha_shape > 0.0:
        alpha = slice_alpha(rng, switches, alpha, beta, prior.alpha_shape, prior.alpha_rate)
    return alpha, table_counts(rng, switches, alpha, beta)


@njit(cache=True, nogil=True)
def weights_and_rows(rng, switches, tables, gamma, alpha, sticks_logit):
    """Last part of the block: weights given gamma and m, then rows given alpha and n."""
    if sticks_logit.shape[0] > 0:
        sticks_logit = draw_sticks(rng, tables, gamma)
        beta = stick_breaking_weights(sticks_logit)
    else:
        beta = draw_weights(rng, tables, gamma)
    rows = draw_dirichlet_rows(rng, alpha * beta + switches)
    return TransitionDraw(gamma, alpha, sticks_logit, beta, rows)


@njit(cache=True, nogil=True)
def transition_block(rng, switches, gamma, alpha, sticks_logit, beta, prior):
    """Draw (gamma, alpha, beta or v, pi_bar, pi_init) given the switches, in the exact order.

    alpha | n, beta;  m | n, alpha, beta;  gamma | m (or v);  beta (v) | m, gamma;  rows | n.
    The rows are integrated out up to the last, and beta while gamma is drawn; each is redrawn
    before anything uses it again.

    Parameters
    ----------
    rng : numpy.random.Generator
    switches : ndarray of shape (R + 1, L), int64
        n, drawn afresh (``split_counts``) or kept by a sampler of w.
    gamma, alpha : float
    sticks_logit : ndarray of shape (L - 1,), or (0,) for weak-limit weights
    beta : ndarray of shape (L,)
    prior : TransitionPrior

    Returns
    -------
    TransitionDraw
    """
    alpha, tables = alpha_and_tables(rng, switches, alpha, beta, prior)
    if prior.gamma_shape > 0.0:
        if sticks_logit.shape[0] > 0:
            gamma = draw_gamma_sticks(rng, sticks_logit, prior.gamma_shape, prior.gamma_rate)
        else:
            gamma = draw_gamma(rng, tables, gamma, prior.gamma_shape, prior.gamma_rate)
    return weights_and_rows(rng, switches, tables, gamma, alpha, sticks_logit)


@njit(cache=True, nogil=True)
def log_gamma_conditional(gamma, tables):
    """Log p(m | gamma) up to a constant, beta integrated out of the weak-limit prior.

    log Gamma(gamma) - log Gamma(gamma + m..) + sum_k log Gamma(gamma/L + m_.k) / Gamma(gamma/L).
    """
    L = tables.shape[0]
    out = math.lgamma(gamma) - math.lgamma(gamma + tables.sum())
    for k in range(L):
        if tables[k] > 0:
            out += math.lgamma(gamma / L + tables[k]) - math.lgamma(gamma / L)
    return out


@njit(cache=True, nogil=True)
def log_gamma_conditional_sticks(gamma, sticks_logit):
    """Log p(v | gamma) = (L - 1) log gamma + gamma sum_k log(1 - v_k), up to a constant."""
    out = sticks_logit.shape[0] * math.log(gamma)
    for k in range(sticks_logit.shape[0]):
        out -= gamma * softplus(sticks_logit[k])
    return out
