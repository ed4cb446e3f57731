"""Numbers of tables in Chinese restaurants."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit

DIRECT_CUSTOMERS = 32  # customers seated one by one before skipping starts
SKIP_COST = 12.0  # cost of one skip in units of one directly seated customer


@njit(cache=True, nogil=True)
def crt_draw(rng, customers, concentration):
    """Draw the number of tables of ``customers`` in a CRP of the given concentration.

    m = sum_{i=0}^{n-1} Bernoulli(a / (a + i)) (Antoniak 1974). For large n the successes are
    rare, and the next one is found by skipping: with the hazard h_i = 1 - ((i-1)/i)^a for
    a < 1, or 1 - (i/(i+1))^a for a >= 1, the survival function telescopes and inverts in
    closed form, and h_i >= a/(a+i) (Bernoulli's inequality), so that thinning by
    (a/(a+i)) / h_i is exact. The expected number of skips is about a log(n).

    Parameters
    ----------
    rng : numpy.random.Generator
    customers : int
    concentration : float
        a >= 0; for a = 0 the first customer still takes a table.
    """
    if customers == 0:
        return 0
    tables = 1
    i = 1
    n_direct = customers
    if customers > 2 * DIRECT_CUSTOMERS and (
        SKIP_COST * (1.0 + concentration * math.log(customers / DIRECT_CUSTOMERS)) < customers
    ):
        n_direct = DIRECT_CUSTOMERS
    while i < n_direct:
        if rng.random() * (concentration + i) < concentration:
            tables += 1
        i += 1
    if i == customers or concentration == 0.0:
        return tables
    below_one = concentration < 1.0
    while True:
        # The candidate is the first j >= i at which the survival function falls below u.
        skip = math.exp(rng.standard_exponential() / concentration)
        candidate = np.ceil((i - 1) * skip) if below_one else np.ceil(i * skip) - 1.0
        if not candidate < customers:
            return tables
        i = max(i, int(candidate))
        gap = math.log1p(-1.0 / i) if below_one else math.log1p(-1.0 / (i + 1.0))
        hazard = -math.expm1(concentration * gap)
        if rng.random() * hazard * (concentration + i) < concentration:
            tables += 1
        i += 1


@njit(cache=True, nogil=True)
def table_counts(rng, switches, alpha, beta):
    """Tables m_.k serving dish k, summed over the rows: m_jk ~ CRT(n_jk, alpha beta_k).

    Parameters
    ----------
    rng : numpy.random.Generator
    switches : ndarray of shape (R, L)
        Counts n_jk of draws from each row's Dirichlet.
    alpha : float
    beta : ndarray of shape (L,)

    Returns
    -------
    ndarray of shape (L,), int64
    """
    R, L = switches.shape
    tables = np.zeros(L, np.int64)
    for j in range(R):
        for k in range(L):
            if switches[j, k] > 0:
                tables[k] += crt_draw(rng, switches[j, k], alpha * beta[k])
    return tables
