"""Probability of a path with the rows, the self-persistence and the choices w integrated out.

N_jk transitions of the path (row 0 the starts), of which W_j of the N_jj had w_t = 1; j runs over
the R = G L rows of G groups, one group after the other. Given
alpha beta_k and either kappa_j ~ Beta(rho1, rho2) or kappa_j itself,

    p(z) = prod_{k} (alpha beta_k)^(N_0k) / alpha^(N_0.)
           x prod_j [ prod_{k != j} (alpha beta_k)^(N_jk) ]
             x sum_W C(N_jj, W) K_j(W, N_j. - W) (alpha beta_j)^(N_jj - W) / alpha^(N_j. - W)

with x^(n) = x (x + 1) ... (x + n - 1), and K(W, n) = rho1^(W) rho2^(n) / (rho1 + rho2)^(W + n) or
kappa^W (1 - kappa)^n. The sum over W is closed: neighbouring terms differ by a rational factor.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.counts import row_sums
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.persistence import draw_self_persistence
from pymc_dshdp.kernels.transitions import draw_dirichlet_rows, switch_counts

LARGE = 1e250
LOG_LARGE = math.log(LARGE)


class Persistence(NamedTuple):
    """What is known of the self-persistence.

    Attributes
    ----------
    stay, leave : ndarray of shape (R,)
        rho1 and rho2 where kappa is integrated out, else kappa and 1 - kappa.
    integrated : bool
    """

    stay: np.ndarray
    leave: np.ndarray
    integrated: bool


def beta_persistence(rho1, rho2, n_rows):
    """Of kappa_j ~ Beta(rho1, rho2) in all of R rows, integrated out."""
    return Persistence(np.full(n_rows, rho1), np.full(n_rows, rho2), True)


def given_persistence(kappa_logit):
    """Of kappa_j itself, by its logit of shape (R,)."""
    with np.errstate(over="ignore"):
        return Persistence(
            1.0 / (1.0 + np.exp(-kappa_logit)), 1.0 / (1.0 + np.exp(kappa_logit)), False
        )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _fewer(W, n, leaves, own, total, stay, leave, integrated):
    """Ratio of the term of W - 1 to that of W, where n = N_jj - W, by one division: it is slow.

    The scale keeps the products from overflow where kappa is all but certain.
    """
    if integrated:
        scale = 1.0 / max(1.0, stay + leave)
        leave, stay = (leave + leaves + n) * scale, (stay + (W - 1)) * scale
    return W * (own + n) * leave / ((n + 1.0) * (total + leaves + n) * stay)


@njit(cache=True, nogil=True, error_model="numpy")
def log_own_marginal(stays, leaves, own, total, stay, leave, integrated):
    """Log of the sum over W of one row, the factors of its other columns left out.

    Parameters
    ----------
    stays, leaves : int
        N_jj and N_j. - N_jj.
    own, total : float
        alpha beta_j and alpha.
    stay, leave : float
    integrated : bool
        See ``Persistence``.
    """
    if stay == 0.0:
        return log_rising(own, stays) - log_rising(total, stays + leaves)
    if integrated:
        first = log_rising(stay, stays) + log_rising(leave, leaves)
        first -= log_rising(stay + leave, stays + leaves)
    else:
        first = stays * math.log(stay)
        if leaves > 0:
            first += leaves * math.log(leave)
    first -= log_rising(total, leaves)
    W, term, terms = stays, 1.0, 1.0
    while W > 0:
        while W > 0 and not terms > LARGE:  # apart, or each term waits for a division; also NaN
            term *= _fewer(W, stays - W, leaves, own, total, stay, leave, integrated)
            terms += term
            W -= 1
        if terms > LARGE:
            term /= LARGE
            terms /= LARGE
            first += LOG_LARGE
    return first + math.log(terms)


@njit(cache=True, nogil=True, error_model="numpy")
def log_path_marginal(counts, base, persistence):
    """Log p(z) given the Dirichlet parameters of the rows.

    Parameters
    ----------
    counts : ndarray of shape (R + 1, L), int64
        Of ``path_counts``.
    base : ndarray of shape (R + 1, L)
        alpha beta_k of pi_init and of each row.
    persistence : Persistence
    """
    R, L = counts.shape[0] - 1, counts.shape[1]
    out = -log_rising(base[0].sum(), counts[0].sum())
    for k in range(L):
        out += log_rising(base[0, k], counts[0, k])
    for r in range(R):
        j, row, a = r % L, counts[r + 1], base[r + 1]
        leaves = 0
        for k in range(L):
            if k != j:
                leaves += row[k]
                out += log_rising(a[k], row[k])
        if leaves + row[j] > 0:
            out += log_own_marginal(
                row[j],
                leaves,
                a[j],
                a.sum(),
                persistence.stay[r],
                persistence.leave[r],
                persistence.integrated,
            )
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def draw_own(rng, stays, leaves, own, total, stay, leave, integrated):
    """Draw W of one row from the terms of ``log_own_marginal``."""
    if stay == 0.0:
        return 0
    terms = np.empty(stays + 1)
    terms[0] = highest = 1.0
    for n in range(stays):
        ratio = _fewer(stays - n, n, leaves, own, total, stay, leave, integrated)
        terms[n + 1] = terms[n] * ratio
        highest = max(highest, terms[n + 1])
        if highest > LARGE:
            for i in range(n + 2):
                terms[i] /= LARGE
            highest = terms[: n + 2].max()
    left = rng.random() * terms.sum()
    for n in range(stays):
        left -= terms[n]
        if left < 0.0:
            return stays - n
    return 0


class TransitionRedraw(NamedTuple):
    """What was integrated out of a path's probability, drawn again.

    Attributes
    ----------
    kappa_logit : ndarray of shape (R,)
        Meaningful where kappa was integrated out.
    rows : ndarray of shape (R + 1, L)
        pi_init in row 0, pi_bar below.
    """

    kappa_logit: np.ndarray
    rows: np.ndarray


@njit(cache=True, nogil=True)
def redraw_transitions(rng, counts, base, persistence):
    """Draw W | z, then kappa | W, n and the rows | n; see ``log_path_marginal``."""
    R, L = counts.shape[0] - 1, counts.shape[1]
    persistences = np.zeros(R, np.int64)
    for r in range(R):
        j = r % L
        stays = counts[r + 1, j]
        persistences[r] = draw_own(
            rng,
            stays,
            counts[r + 1].sum() - stays,
            base[r + 1, j],
            base[r + 1].sum(),
            persistence.stay[r],
            persistence.leave[r],
            persistence.integrated,
        )
    switches = switch_counts(counts, persistences)
    logit = np.empty(R)
    if persistence.integrated:
        logit = draw_self_persistence(
            rng,
            persistences,
            row_sums(switches[1:]),
            persistence.stay[0],
            persistence.leave[0],
        )
    return TransitionRedraw(logit, draw_dirichlet_rows(rng, base + switches))
