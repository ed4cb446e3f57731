"""A tiny model with Gaussian emissions: prior simulator, sweep of the sampler, statistics.

theta_k ~ Normal(0, 2), y_t ~ Normal(theta_{z_t}, 1). The prior simulator shares no code with the
package's samplers.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.chain import NO_INDEX, Transitions, transition_matrix
from pymc_dshdp.kernels.counts import path_counts
from pymc_dshdp.kernels.messages import draw_paths
from pymc_dshdp.kernels.persistence import accept_persistence, propose_persistence
from pymc_dshdp.kernels.transitions import (
    split_counts,
    stick_breaking_weights,
    transition_block,
)

THETA_SCALE = 2.0
NAMES = (
    "occupied states",
    "self-transitions",
    "log alpha",
    "(log alpha)^2",
    "log gamma",
    "(log gamma)^2",
    "phi",
    "phi^2",
    "eta",
    "eta^2",
    "phi eta",
    "largest kappa",
    "sum of beta^2",
    "co-assignment",
    "co-assignment of the ends",
    "pi_init at the starts",
    "beta at the starts",
    "sum of pi_bar^2",
    "log alpha x sum of pi_bar^2",
    "log gamma x sum of beta^2",
    "entries of pi_bar below 0.001",
    "pi_bar at self-transitions",
    "log p(z)",
    "theta^2 in use",
    "y theta",
)
WITHOUT_EMISSION = slice(0, len(NAMES) - 2)


class Hyperparameters(NamedTuple):
    """Gamma(shape, rate) of gamma and alpha, and the grid of (phi, eta)."""

    gamma_shape: float
    gamma_rate: float
    alpha_shape: float
    alpha_rate: float
    phi_cells: int
    eta_cells: int


@njit
def log_gamma_variate(rng, shape):
    if shape <= 0.0:
        return -np.inf
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


@njit
def dirichlet_variate(rng, concentration):
    x = np.empty(concentration.shape[0])
    for k in range(x.shape[0]):
        x[k] = log_gamma_variate(rng, concentration[k])
    x = np.exp(x - x.max())
    return x / x.sum()


@njit
def categorical(rng, p):
    return min(np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right"), len(p) - 1)


@njit
def simulate_data(rng, z, theta):
    y = np.empty(z.shape[0])
    for t in range(z.shape[0]):
        y[t] = theta[z[t]] + rng.standard_normal()
    return y


@njit
def simulate_prior(rng, L, lengths, hyper, refine, by_sticks):
    """One draw: gamma, alpha, phi, eta, kappa_logit, sticks_logit, beta, rows, theta, z."""
    gamma = rng.standard_gamma(hyper.gamma_shape) / hyper.gamma_rate
    alpha = rng.standard_gamma(hyper.alpha_shape) / hyper.alpha_rate
    phi, eta = rng.random(), 2.0 * rng.random()
    if not refine:
        phi = (math.floor(phi * hyper.phi_cells) + 0.5) / hyper.phi_cells
        eta = 2.0 * (math.floor(0.5 * eta * hyper.eta_cells) + 0.5) / hyper.eta_cells
    rho = eta**-3.0
    kappa_logit = np.empty(L)
    for k in range(L):
        kappa_logit[k] = log_gamma_variate(rng, phi * rho)
        kappa_logit[k] -= log_gamma_variate(rng, (1.0 - phi) * rho)
    if by_sticks:
        sticks_logit = np.empty(L - 1)
        for k in range(L - 1):
            sticks_logit[k] = math.log(rng.standard_exponential()) - log_gamma_variate(rng, gamma)
        beta = stick_breaking_weights(sticks_logit)
    else:
        sticks_logit = np.empty(0)
        beta = dirichlet_variate(rng, np.full(L, gamma / L))
    rows = np.empty((L + 1, L))
    for j in range(L + 1):
        rows[j] = dirichlet_variate(rng, alpha * beta)
    theta = THETA_SCALE * rng.standard_normal(L)
    z = np.empty(lengths.sum(), np.int64)
    t = 0
    for length in lengths:
        z[t] = categorical(rng, rows[0])
        for i in range(t + 1, t + length):
            j = z[i - 1]
            stays = rng.random() < 1.0 / (1.0 + math.exp(-kappa_logit[j]))
            z[i] = j if stays else categorical(rng, rows[j + 1])
        t += length
    return gamma, alpha, phi, eta, kappa_logit, sticks_logit, beta, rows, theta, z


@njit
def statistics(out, lengths, gamma, alpha, phi, eta, kappa_logit, beta, rows, theta, z, y):
    """Fill one row of label-invariant statistics, in the order of NAMES."""
    T, L = z.shape[0], beta.shape[0]
    P = transition_matrix(kappa_logit, np.ascontiguousarray(rows[1:]))
    seen = np.zeros(L)
    stays = returns = log_path = at_start = beta_at_start = in_use = fit = 0.0
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            seen[z[i]] = 1.0
            in_use += theta[z[i]] ** 2 / T
            fit += theta[z[i]] * y[i] / T
            if i == t:
                at_start += rows[0, z[i]] / lengths.shape[0]
                beta_at_start += beta[z[i]] / lengths.shape[0]
                log_path += math.log(rows[0, z[i]])
            else:
                log_path += math.log(P[z[i - 1], z[i]])
                if z[i] == z[i - 1]:
                    stays += 1.0 / T
                    returns += rows[z[i] + 1, z[i]] / T
        t += length
    log_alpha, log_gamma = math.log(alpha), math.log(gamma)
    rows_squared, beta_squared = (rows[1:] ** 2).sum() / L, (beta**2).sum()
    out[0], out[1] = seen.sum(), stays
    out[2], out[3], out[4], out[5] = log_alpha, log_alpha**2, log_gamma, log_gamma**2
    out[6], out[7], out[8], out[9], out[10] = phi, phi**2, eta, eta**2, phi * eta
    out[11] = 1.0 / (1.0 + math.exp(-kappa_logit.max()))
    out[12] = beta_squared
    out[13] = z[T // 3] == z[T // 3 + 4]
    out[14] = z[0] == z[T - 1]
    out[15], out[16] = at_start, beta_at_start
    out[17], out[18], out[19] = rows_squared, log_alpha * rows_squared, log_gamma * beta_squared
    out[20] = (rows[1:] < 0.001).mean()
    out[21] = returns
    out[22] = log_path
    out[23], out[24] = in_use, fit


@njit
def draw_theta(rng, z, y, L):
    """theta_k | z, y: conjugate, prior Normal(0, THETA_SCALE), unit noise."""
    precision = np.full(L, THETA_SCALE**-2)
    total = np.zeros(L)
    for t in range(z.shape[0]):
        precision[z[t]] += 1.0
        total[z[t]] += y[t]
    return total / precision + rng.standard_normal(L) / np.sqrt(precision)


@njit
def marginal_conditional(rng, draws, L, lengths, hyper, refine, by_sticks):
    out = np.empty((draws, len(NAMES)))
    for i in range(draws):
        gamma, alpha, phi, eta, kappa_logit, _, beta, rows, theta, z = simulate_prior(
            rng, L, lengths, hyper, refine, by_sticks
        )
        y = simulate_data(rng, z, theta)
        statistics(out[i], lengths, gamma, alpha, phi, eta, kappa_logit, beta, rows, theta, z, y)
    return out


@njit
def successive_conditional(
    rng, sweeps, L, lengths, hyper, grid, transition_prior, refine, by_sticks, emission
):
    """Sweeps as the steps make them: paths, transition block, self-persistence block, theta."""
    out = np.empty((sweeps, len(NAMES)))
    T = lengths.sum()
    gamma, alpha, phi, eta, kappa_logit, sticks_logit, beta, rows, theta, z = simulate_prior(
        rng, L, lengths, hyper, refine, by_sticks
    )
    log_likelihoods = np.zeros((T, L))
    for i in range(sweeps):
        y = simulate_data(rng, z, theta)
        if emission:
            for t in range(T):
                log_likelihoods[t] = -0.5 * (y[t] - theta) ** 2
        pi_bar = np.ascontiguousarray(rows[1:])
        transitions = Transitions(kappa_logit.reshape(1, -1), pi_bar[None], NO_INDEX, False)
        z = draw_paths(log_likelihoods, rows[0], transitions, None, lengths, rng.random(T)).states
        counts = np.zeros((L + 1, L), np.int64)
        path_counts(z, lengths, NO_INDEX, counts)
        switches, _ = split_counts(rng, counts, kappa_logit, pi_bar)
        draw = transition_block(rng, switches, gamma, alpha, sticks_logit, beta, transition_prior)
        gamma, alpha, sticks_logit = draw.gamma, draw.alpha, draw.sticks_logit
        beta, rows = draw.beta, draw.rows
        pi_bar = np.ascontiguousarray(rows[1:])
        proposal = propose_persistence(rng, counts, kappa_logit, pi_bar, phi, eta, grid, refine)
        persistence = accept_persistence(rng, proposal, 0.0, phi, eta)
        phi, eta, kappa_logit = persistence.phi, persistence.eta, persistence.kappa_logit
        if emission:
            theta = draw_theta(rng, z, y, L)
        statistics(out[i], lengths, gamma, alpha, phi, eta, kappa_logit, beta, rows, theta, z, y)
    return out
