"""The self-persistence block: (phi, eta) and kappa given the hidden path.

rho1 = phi eta^-3, rho2 = (1 - phi) eta^-3, kappa_j ~ Beta(rho1, rho2); W_j counts the
self-persistences (w_t = 1) at state j and n_j. the switches (w_t = 0) from it. Of several groups, j
runs over the R = G L states of all, group by group: rho is one for all.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.counts import row_sums
from pymc_dshdp.kernels.elementary import add_log_rising, log_rising
from pymc_dshdp.kernels.random import beta_logit_draw, softplus
from pymc_dshdp.kernels.transitions import log_alpha_marginal, self_persistence_counts

LARGEST_CONCENTRATION = 1e4  # beyond it differences of Stirling series lose digits
UNIFORM_SHARE = 0.05  # of the refined proposal: keeps every cell within reach, whatever the prior


@njit(cache=True, nogil=True)
def log_persistence_marginal(phi, eta, persistences, departures):
    """Log p(w | phi, eta) with kappa integrated out.

    sum_j log B(rho1 + W_j, rho2 + n_j.) / B(rho1, rho2); a state never visited adds 0.

    Parameters
    ----------
    phi, eta : float
    persistences, departures : ndarray of shape (R,), int64
        W_j and n_j..
    """
    concentration = eta**-3.0
    out = 0.0
    for j in range(persistences.shape[0]):
        W = persistences[j]
        n = departures[j]
        out += log_rising(phi * concentration, W)
        out += log_rising((1.0 - phi) * concentration, n)
        out -= log_rising(concentration, W + n)
    return out


@njit(cache=True, nogil=True)
def log_persistence_table(phi, eta, persistences, departures):
    """``log_persistence_marginal`` on the grid phi x eta; shape (len(phi), len(eta)).

    The term in rho1 + rho2 depends on eta alone, and one logarithm serves each visited state,
    cell and side.
    """
    P = phi.shape[0]
    E = eta.shape[0]
    work = np.empty((2, max(P, E)))
    visited = persistences + departures
    V = 0
    for j in range(visited.shape[0]):
        if visited[j] > 0:
            V += 1
    W = np.empty(V, np.int64)
    n = np.empty(V, np.int64)
    both = np.empty(V, np.int64)
    V = 0
    for j in range(visited.shape[0]):
        if visited[j] > 0:
            W[V] = persistences[j]
            n[V] = departures[j]
            both[V] = visited[j]
            V += 1
    concentration = eta**-3.0
    total = np.zeros(E)
    add_log_rising(concentration, both, E, total, work)
    table = np.empty((P, E))
    x = np.empty(P)
    column = np.empty(P)
    for e in range(E):
        column[:] = -total[e]
        for p in range(P):
            x[p] = phi[p] * concentration[e]
        add_log_rising(x, W, P, column, work)
        for p in range(P):
            x[p] = (1.0 - phi[p]) * concentration[e]
        add_log_rising(x, n, P, column, work)
        copy_into(table[:, e], column)
        if concentration[e] > LARGEST_CONCENTRATION:
            for p in range(P):
                table[p, e] = log_persistence_marginal(phi[p], eta[e], W, n)
    return table


@njit(cache=True, nogil=True)
def log_sticky_marginal(phi, s, persistences, switches, beta):
    """Log p(w, n | phi, s, beta) of the sticky prior, kappa and the rows integrated out.

    rho1 = phi s and rho2 = alpha = (1 - phi) s, so that alpha enters twice: by kappa, and by
    the Dirichlet-multinomial of the rows.
    """
    departures = row_sums(switches[1:])
    out = log_alpha_marginal((1.0 - phi) * s, switches, beta)
    for j in range(persistences.shape[0]):
        out += log_rising(phi * s, persistences[j])
        out += log_rising((1.0 - phi) * s, departures[j])
        out -= log_rising(s, persistences[j] + departures[j])
    return out


class PersistenceGrid(NamedTuple):
    """Cells of the (phi, eta) box and the log prior density at their midpoints.

    Attributes
    ----------
    phi_low, eta_low : ndarray of shape (P,), (E,)
        Lower edges.
    phi_width, eta_width : float
        Cell widths; 0 for a value that is fixed.
    log_prior : ndarray of shape (P, E)
    """

    phi_low: np.ndarray
    eta_low: np.ndarray
    phi_width: float
    eta_width: float
    log_prior: np.ndarray


class PersistenceProposal(NamedTuple):
    """A draw of the counts and a proposal for (phi, eta).

    Attributes
    ----------
    persistences, departures : ndarray of shape (R,), int64
        W_j and n_j..
    phi, eta : float
        Proposed.
    log_ratio : float
        log p(w | new) q(old) - log p(w | old) q(new), the prior left out.
    """

    persistences: np.ndarray
    departures: np.ndarray
    phi: float
    eta: float
    log_ratio: float


@njit(cache=True, nogil=True)
def _cell_of(value, low, width):
    if width == 0.0:
        return 0
    return min(max(int((value - low[0]) / width), 0), low.shape[0] - 1)


@njit(cache=True, nogil=True)
def _normalise_cells(table, log_prior, uniform):
    """Turn log p(w | phi, eta) into probabilities of cells, mixed with a share of equal ones.

    Written in loops, as are sums of cells: array expressions take a second longer to compile.
    """
    P, E = table.shape
    top, total = -np.inf, 0.0
    for p in range(P):
        for e in range(E):
            table[p, e] += log_prior[p, e]
            top = max(top, table[p, e])
    for p in range(P):
        for e in range(E):
            # No midpoint may be in the support of a narrow prior.
            table[p, e] = 1.0 if top == -np.inf else math.exp(table[p, e] - top)
            total += table[p, e]
    for p in range(P):
        for e in range(E):
            table[p, e] = (1.0 - uniform) * (table[p, e] / total) + uniform / (P * E)


@njit(cache=True, nogil=True)
def _cell_at(mass, height):
    """First cell up to which, in order, the masses sum to more than a height."""
    P, E = mass.shape
    below = 0.0
    for p in range(P):
        for e in range(E):
            below += mass[p, e]
            if below > height:
                return p, e
    return P - 1, E - 1


@njit(cache=True, nogil=True)
def propose_persistence(rng, counts, kappa_logit, pi_bar, phi, eta, grid, refine):
    """Draw W | z, then propose (phi, eta) from the grid table of prior x p(w | phi, eta).

    With ``refine`` the proposal is uniform inside the chosen cell, and a share of 0.05 of it is
    uniform over all cells; without, it is the cell's midpoint (a Gibbs draw of the model whose
    prior is the grid of midpoints, which needs no acceptance step).

    Parameters
    ----------
    rng : numpy.random.Generator
    counts : ndarray of shape (R + 1, L), int64
    kappa_logit : ndarray of shape (R,)
    pi_bar : ndarray of shape (R, L)
    phi, eta : float
        Current.
    grid : PersistenceGrid
    refine : bool

    Returns
    -------
    PersistenceProposal
    """
    persistences = self_persistence_counts(rng, counts, kappa_logit, pi_bar)
    departures = row_sums(counts[1:]) - persistences

    phi_mid = grid.phi_low + 0.5 * grid.phi_width
    eta_mid = grid.eta_low + 0.5 * grid.eta_width
    mass = log_persistence_table(phi_mid, eta_mid, persistences, departures)
    P, E = mass.shape
    _normalise_cells(mass, grid.log_prior, UNIFORM_SHARE if refine else 0.0)
    total = 0.0
    for p in range(P):
        for e in range(E):
            total += mass[p, e]
    p, e = _cell_at(mass, rng.random() * total)
    if not refine:
        return PersistenceProposal(persistences, departures, phi_mid[p], eta_mid[e], 0.0)

    new_phi = grid.phi_low[p] + rng.random() * grid.phi_width
    new_eta = grid.eta_low[e] + rng.random() * grid.eta_width
    old_mass = mass[
        _cell_of(phi, grid.phi_low, grid.phi_width), _cell_of(eta, grid.eta_low, grid.eta_width)
    ]
    log_ratio = (
        log_persistence_marginal(new_phi, new_eta, persistences, departures)
        - log_persistence_marginal(phi, eta, persistences, departures)
        + math.log(old_mass)
        - math.log(mass[p, e])
    )
    return PersistenceProposal(persistences, departures, new_phi, new_eta, log_ratio)


@njit(cache=True, nogil=True)
def draw_self_persistence(rng, persistences, departures, rho1, rho2):
    """kappa_j | W, n, rho ~ Beta(rho1 + W_j, rho2 + n_j.) for all R states, as logits."""
    R = persistences.shape[0]
    logit = np.empty(R)
    for j in range(R):
        logit[j] = beta_logit_draw(rng, rho1 + persistences[j], rho2 + departures[j])
    return logit


class PersistenceDraw(NamedTuple):
    """One draw of the self-persistence block.

    Attributes
    ----------
    phi, eta : float
    kappa_logit : ndarray of shape (R,)
    accepted : bool
        Whether the refined proposal was accepted.
    """

    phi: float
    eta: float
    kappa_logit: np.ndarray
    accepted: bool


@njit(cache=True, nogil=True)
def accept_persistence(rng, proposal, log_prior_ratio, phi, eta):
    """Independence Metropolis step for (phi, eta), then kappa given the outcome.

    kappa was integrated out of the ratio and is redrawn here, after (phi, eta): drawing it
    before and keeping it would not leave the posterior invariant.

    Parameters
    ----------
    rng : numpy.random.Generator
    proposal : PersistenceProposal
    log_prior_ratio : float
        log p(new phi, eta) - log p(old phi, eta).
    phi, eta : float
        Current.

    Returns
    -------
    PersistenceDraw
    """
    accepted = math.log(rng.random()) < proposal.log_ratio + log_prior_ratio
    if accepted:
        phi, eta = proposal.phi, proposal.eta
    concentration = eta**-3.0
    kappa_logit = draw_self_persistence(
        rng,
        proposal.persistences,
        proposal.departures,
        phi * concentration,
        (1.0 - phi) * concentration,
    )
    return PersistenceDraw(phi, eta, kappa_logit, accepted)


@njit(cache=True, nogil=True)
def redraw_self_persistence(rng, counts, kappa_logit, pi_bar, phi, eta):
    """Draw W | z, then kappa | W, n with (phi, eta) given; logits of shape (R,)."""
    persistences = self_persistence_counts(rng, counts, kappa_logit, pi_bar)
    departures = row_sums(counts[1:]) - persistences
    concentration = eta**-3.0
    return draw_self_persistence(
        rng, persistences, departures, phi * concentration, (1.0 - phi) * concentration
    )


@njit(cache=True, nogil=True)
def log_persistence_likelihood(kappa_logit, persistences, departures):
    """W_j log kappa_j + n_j. log(1 - kappa_j) from logits; shape (R,)."""
    R = kappa_logit.shape[0]
    out = np.zeros(R)
    for j in range(R):
        if persistences[j] > 0:
            out[j] -= persistences[j] * softplus(-kappa_logit[j])
        if departures[j] > 0:
            out[j] -= departures[j] * softplus(kappa_logit[j])
    return out
