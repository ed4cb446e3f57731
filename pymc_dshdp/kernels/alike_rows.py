"""Probability of a path as in ``collapsed_transitions``, where all rows have the same parameters.

The term of W = N_jj - n of a row with l = N_j. - N_jj divides into factors of one number each,

    N_jj! / rho^(N_jj + l)  x  [a_j^(n) / n!] [rho1^(W) / W!] [rho2^(l + n) / alpha^(l + n)]

with a_j = alpha beta_j, rho = rho1 + rho2. Rows of groups share them: a table of the first for each
state, one of the second and one of the third serve all rows. A slice along phi or eta leaves the
first as it is, and all that the other columns contribute.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.collapsed_transitions import log_own_marginal
from pymc_dshdp.kernels.elementary import log_rising

# Terms for each entry of the tables, from which on it pays to fill them.
WORTH_TABLES = 1.5
# The first two factors lie between 1 / FACTOR and it, so that their product neither underflows nor
# overflows; of a sum above SMALLEST all that underflows is beyond rounding.
FACTOR, SMALLEST = 1e140, 1e-250


class AlikeCounts(NamedTuple):
    """Transitions of a path: those to the own state by row, the others by how many rows have them.

    Attributes
    ----------
    own : ndarray of shape (M, 3), int64
        Of each row that something leaves: its state j, N_jj, and N_j. - N_jj.
    others : ndarray of shape (V, 3), int64
        A column k, a count n > 0, and of how many other rows (the starts too) it is N_jk.
    starts : int
        N_0.
    n_states : int
        L.
    longest : int
        The largest N_j., if tables of the factors are worth it, else 0.
    """

    own: np.ndarray
    others: np.ndarray
    starts: int
    n_states: int
    longest: int


@njit(cache=True, nogil=True)
def alike_counts(counts):
    """Sum up the counts of ``path_counts``, of shape (R + 1, L), as ``AlikeCounts``."""
    R, L = counts.shape[0] - 1, counts.shape[1]
    own, others = np.empty((R, 3), np.int64), np.empty((R * L + L, 3), np.int64)
    visited = np.zeros(L, np.bool_)
    M, V, terms, longest = 0, 0, 0, 0
    for r in range(R):
        total = counts[r + 1].sum()
        if total > 0:
            j = r % L
            own[M, 0], own[M, 1], own[M, 2] = j, counts[r + 1, j], total - counts[r + 1, j]
            terms += own[M, 1]
            longest = max(longest, total)
            visited[j] = True
            M += 1
    column = np.empty(R + 1, np.int64)
    for k in range(L):
        n = 0
        for r in range(R + 1):
            if counts[r, k] > 0 and (r == 0 or (r - 1) % L != k):
                column[n] = counts[r, k]
                n += 1
        column[:n].sort()
        for i in range(n):
            if i == 0 or column[i] != column[i - 1]:
                others[V, 0], others[V, 1], others[V, 2] = k, column[i], 0
                V += 1
            others[V - 1, 2] += 1
    if terms < WORTH_TABLES * (visited.sum() + 2) * (longest + 1):
        longest = 0
    return AlikeCounts(own[:M].copy(), others[:V].copy(), counts[0].sum(), L, longest)


@njit(cache=True, nogil=True, error_model="numpy")
def log_others(counts, alpha, beta):
    """Log of all factors of p(z) but those of ``log_own``.

    Parameters
    ----------
    counts : AlikeCounts
    alpha : float
    beta : ndarray of shape (L,)
    """
    out = -log_rising(alpha, counts.starts)
    for v in range(counts.others.shape[0]):
        k, n, times = counts.others[v]
        out += times * log_rising(alpha * beta[k], n)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def fill_ratios(x, y, highest, out):
    """Write x^(n) / y^(n) for each n; returns whether all lie between 1 / highest and it."""
    out[0] = ratio = low = high = 1.0
    for n in range(out.shape[0] - 1):
        ratio *= (x + n) / (y + n)
        out[n + 1] = ratio
        low, high = min(low, ratio), max(high, ratio)
    return 1.0 / highest <= low and high <= highest and not math.isnan(ratio)


@njit(cache=True, nogil=True, error_model="numpy")
def own_tables(counts, alpha, beta):
    """Tables a_j^(n) / n! of each visited state; NaN in those that leave the range."""
    tables = np.empty((counts.n_states if counts.longest > 0 else 0, counts.longest + 1))
    if counts.longest > 0:
        done = np.zeros(counts.n_states, np.bool_)
        for j in counts.own[:, 0]:
            if not done[j]:
                done[j] = True
                if not fill_ratios(alpha * beta[j], 1.0, FACTOR, tables[j]):
                    tables[j, 0] = np.nan
    return tables


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _sum_of_products(a, b, c):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i] * c[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def log_own(counts, alpha, beta, rho1, rho2, tables):
    """Log of the sums over W of all rows, and of the totals of rows; see the module.

    Parameters
    ----------
    counts : AlikeCounts
    alpha : float
    beta : ndarray of shape (L,)
    rho1, rho2 : float
        kappa_j ~ Beta(rho1, rho2).
    tables : ndarray of shape (L, longest + 1), or (0, 1)
        Of ``own_tables`` at alpha and beta.
    """
    length = tables.shape[1]
    by_tables = tables.shape[0] > 0
    persisting, leaving = np.empty(length), np.empty(length)
    if by_tables:
        by_tables = fill_ratios(rho1, 1.0, FACTOR, persisting)
        by_tables &= fill_ratios(rho2, alpha, 1.0 / SMALLEST, leaving)
        persisting = persisting[::-1].copy()
    out = 0.0
    for m in range(counts.own.shape[0]):
        j, stays, leaves = counts.own[m]
        total = 0.0
        if by_tables:
            low = length - 1 - stays
            total = _sum_of_products(
                tables[j, : stays + 1], persisting[low:], leaving[leaves : leaves + stays + 1]
            )
        if SMALLEST < total < np.inf:
            first = math.lgamma(stays + 1.0) - log_rising(rho1 + rho2, stays + leaves)
            out += first + math.log(total)
        else:  # also NaN
            out += log_own_marginal(stays, leaves, alpha * beta[j], alpha, rho1, rho2, True)
    return out
