"""Linear-Gaussian tables and matrix-normal inverse-Wishart posteriors, batched over states."""

import numpy as np
from scipy.special import gammaln

from pymc_dshdp.kernels.emissions_statistics import pooled_factors
from pymc_dshdp.kernels.emissions_tables import squares_table

__all__ = [
    "draw_posterior",
    "gaussian_table",
    "log_regression_evidence",
    "lower_factor",
    "prepared_prior",
    "prior_factor",
    "typical_regression",
]


def _cholesky(matrices):
    """Batched lower Cholesky factors, NaN for matrices that are not positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        out = np.full_like(matrices, np.nan)
        for index in np.ndindex(matrices.shape[:-2]):
            try:
                out[index] = np.linalg.cholesky(matrices[index])
            except np.linalg.LinAlgError:
                continue
        return out


def gaussian_table(y_and_x, coefficients, covariances):
    """Table of N(y_t; A_k x_t, Sigma_k) log-densities.

    One matrix product takes every (y_t, x_t) to the whitened residuals of all states,
    ``[y x] [W_k'; -(W_k A_k)']`` with W_k the inverse Cholesky factor. Unlike an expansion of the
    square, this loses nothing when residuals are small beside the data.

    Parameters
    ----------
    y_and_x : ndarray of shape (T, d + p)
    coefficients : ndarray of shape (L, d, p)
    covariances : ndarray of shape (L, d, d)

    Returns
    -------
    ndarray of shape (T, L)
        NaN for a covariance that is not positive definite.
    """
    d = covariances.shape[1]
    roots = _cholesky(covariances)
    whiten = np.linalg.solve(roots, np.broadcast_to(np.eye(d), roots.shape))
    projections = np.concatenate([whiten, -whiten @ coefficients], axis=2)
    log_scales = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    constant = -log_scales - 0.5 * d * np.log(2.0 * np.pi)
    return squares_table(y_and_x, projections, constant)


def prior_factor(mean, columns, scale):
    """Rows that stand for the prior A ~ MN(mean, Sigma, columns), Sigma ~ IW(scale, .).

    Parameters
    ----------
    mean : ndarray of shape (L, d, p)
    columns : ndarray of shape (L, p, p)
    scale : ndarray of shape (L, d, d)

    Returns
    -------
    ndarray of shape (L, p + d, p + d)
        Rows of (x, y).
    """
    L, d, p = mean.shape
    if L > 1 and all(np.all(x == x[:1]) for x in (mean, columns, scale)):
        return np.repeat(prior_factor(mean[:1], columns[:1], scale[:1]), L, axis=0)
    out = np.zeros((L, p + d, p + d))
    whiten = np.linalg.inv(np.linalg.cholesky(columns))
    out[:, :p, :p] = whiten
    out[:, :p, p:] = whiten @ mean.transpose(0, 2, 1)
    out[:, p:, p:] = np.linalg.cholesky(scale).transpose(0, 2, 1)
    return out


def lower_factor(rows):
    """Lower Cholesky factors of rows' rows, from the rows of ``prior_factor``; same shape."""
    factors = np.linalg.qr(rows, mode="r")
    signs = np.where(np.diagonal(factors, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray((factors * signs[:, :, None]).transpose(0, 2, 1))


def prepared_prior(mean, columns, scale, degrees):
    """[triangular factors of the prior's rows, n_0 - i for i < d] of each state."""
    factors = np.linalg.qr(prior_factor(mean, columns, scale), mode="r")
    return [factors, degrees[:, None] - np.arange(mean.shape[1])]


def log_regression_evidence(moments, prior, degrees):
    r"""Log marginal likelihood of regressions with matrix-normal inverse-Wishart priors.

    With F_0 and F the factors of prior rows and of prior and data rows, in blocks of x and y,

        log Gamma_d((n_0 + n) / 2) - log Gamma_d(n_0 / 2) - n d / 2 log pi
        + n_0 log |F_0,yy| - (n_0 + n) log |F_yy| + d (log |F_0,xx| - log |F_xx|)

    Parameters
    ----------
    moments : (ndarray of shape (L,), ndarray of shape (L, p + d, p + d))
        n, and factors of data rows.
    prior, degrees : ndarray of shape (L, p + d, p + d), (L, d)
        Of ``prepared_prior``.

    Returns
    -------
    ndarray of shape (L,)
    """
    visits, factors = moments
    d = degrees.shape[1]
    p = prior.shape[-1] - d
    pooled = pooled_factors(factors, prior)
    before, after = (np.log(np.abs(np.diagonal(x, axis1=1, axis2=2))) for x in (prior, pooled))
    half, n = 0.5 * degrees, degrees[:, 0]
    out = (gammaln(half + 0.5 * visits[:, None]) - gammaln(half)).sum(axis=1)
    out -= 0.5 * visits * d * np.log(np.pi)
    out += n * before[:, p:].sum(axis=1) - (n + visits) * after[:, p:].sum(axis=1)
    return out + d * (before[:, :p] - after[:, :p]).sum(axis=1)


def typical_regression(moments, prior, degrees):
    """(coefficients, covariance) of all states: M, and S over its degrees of freedom.

    The arguments are those of ``log_regression_evidence``.
    """
    visits, factors = moments
    r = pooled_factors(factors, prior)
    p = r.shape[1] - degrees.shape[1]
    coefficients = np.linalg.solve(r[:, :p, :p], r[:, :p, p:]).transpose(0, 2, 1)
    rest = r[:, p:, p:]
    scatter = rest.transpose(0, 2, 1) @ rest
    return coefficients, scatter / (degrees[:, 0] + visits)[:, None, None]


def draw_posterior(rng, factors, prior, degrees, d):
    r"""Draw (A, Sigma) of all states from matrix-normal inverse-Wishart posteriors.

    With R the triangular factor of data and prior rows, in blocks of x and y,
    :math:`K = R_{xx}'R_{xx}`, :math:`M' = R_{xx}^{-1} R_{xy}` and :math:`S = R_{yy}'R_{yy}`:

    .. math::

       \Sigma \sim \mathrm{IW}(S, n), \qquad A \mid \Sigma \sim \mathrm{MN}(M, \Sigma, K^{-1})

    Parameters
    ----------
    rng : numpy.random.Generator
    factors, prior : ndarray of shape (L, p + d, p + d)
    degrees : ndarray of shape (L,)
        n, prior degrees of freedom and visits.
    d : int

    Returns
    -------
    coefficients : ndarray of shape (L, d, p)
    roots : ndarray of shape (L, d, d)
        Lower Cholesky factors of Sigma.
    """
    L, m, _ = factors.shape
    p = m - d
    r = lower_factor(np.concatenate([factors, prior], axis=1)).transpose(0, 2, 1)
    bartlett = np.triu(rng.standard_normal((L, d, d)), 1)
    i = np.arange(d)
    bartlett[:, i, i] = np.sqrt(rng.chisquare(degrees[:, None] - (d - 1 - i)))
    upper = np.triu(np.linalg.solve(bartlett, r[:, p:, p:]))
    noise = rng.standard_normal((L, p, d)) @ upper
    coefficients = np.linalg.solve(r[:, :p, :p], r[:, :p, p:] + noise)
    return coefficients.transpose(0, 2, 1), upper.transpose(0, 2, 1)
