"""Draws of the matrix-valued priors and of vector autoregressions, on small dense matrices."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit


@njit(cache=True, nogil=True)
def lower_cholesky(matrix):
    """Lower Cholesky factor; NaN where the matrix is not positive definite."""
    d = matrix.shape[0]
    out = np.zeros((d, d))
    for i in range(d):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= out[i, m] * out[j, m]
            if i == j:
                out[i, i] = math.sqrt(total) if total > 0.0 else np.nan
            else:
                out[i, j] = total / out[j, j]
    return out


@njit(cache=True, nogil=True)
def inverse_wishart_draw(rng, scale, degrees):
    """Draw Sigma ~ IW(scale, degrees).

    With R'R = scale and B B' ~ Wishart(degrees, I), B upper triangular (Bartlett's factor in
    reversed order), Sigma = U'U for U = B^-1 R.

    Parameters
    ----------
    rng : numpy.random.Generator
    scale : ndarray of shape (d, d)
    degrees : float
        Greater than d - 1.

    Returns
    -------
    ndarray of shape (d, d)
    """
    d = scale.shape[0]
    root = lower_cholesky(scale)
    bartlett = np.zeros((d, d))
    for i in range(d):
        bartlett[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (degrees - (d - 1 - i))))
        for j in range(i + 1, d):
            bartlett[i, j] = rng.standard_normal()
    u = np.zeros((d, d))
    for c in range(d):
        for i in range(c, -1, -1):
            total = root[c, i]
            for j in range(i + 1, c + 1):
                total -= bartlett[i, j] * u[j, c]
            u[i, c] = total / bartlett[i, i]
    out = np.empty((d, d))
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for m in range(j + 1):
                total += u[m, i] * u[m, j]
            out[i, j] = out[j, i] = total
    return out


@njit(cache=True, nogil=True)
def matrix_normal_draw(rng, mean, rows, columns):
    """Draw A ~ MN(mean, rows, columns): mean + C_rows Z C_columns'."""
    d, p = mean.shape
    left, right = lower_cholesky(rows), lower_cholesky(columns)
    out = np.empty((d, p))
    noise = np.empty((d, p))
    for i in range(d):
        for j in range(p):
            noise[i, j] = rng.standard_normal()
    half = np.zeros((d, p))
    for i in range(d):
        for m in range(i + 1):
            for j in range(p):
                half[i, j] += left[i, m] * noise[m, j]
    for i in range(d):
        for j in range(p):
            total = mean[i, j]
            for m in range(j + 1):
                total += half[i, m] * right[j, m]
            out[i, j] = total
    return out


@njit(cache=True, nogil=True)
def simulate_var(rng, coefficients, covariances, initial, lengths, out):
    """Simulate vector autoregressions, one after the other, from their first rows.

    Parameters
    ----------
    rng : numpy.random.Generator
    coefficients : ndarray of shape (T, d, p)
        p is lags x d, plus 1 with an intercept; the latest lag comes first.
    covariances : ndarray of shape (T, d, d)
    initial : ndarray of shape (N, lags, d)
    lengths : ndarray of int, shape (N,)
    out : ndarray of shape (T, d)
        Overwritten.
    """
    _, d, p = coefficients.shape
    lags = initial.shape[1]
    start = 0
    for n in range(lengths.shape[0]):
        for s in range(lengths[n]):
            t = start + s
            if s < lags:
                for i in range(d):
                    out[t, i] = initial[n, s, i]
                continue
            root = lower_cholesky(covariances[t])
            noise = np.empty(d)
            for i in range(d):
                noise[i] = rng.standard_normal()
            for i in range(d):
                total = coefficients[t, i, p - 1] if p > lags * d else 0.0
                for lag in range(lags):
                    for j in range(d):
                        total += coefficients[t, i, lag * d + j] * out[t - 1 - lag, j]
                for m in range(i + 1):
                    total += root[i, m] * noise[m]
                out[t, i] = total
        start += lengths[n]
