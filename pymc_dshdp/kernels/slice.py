"""Slice sampling of independent coordinates, for conditionals without a closed form."""

import numpy as np


def slice_sample(log_density, x, rng, width=1.0):
    """One slice-sampling update of each coordinate of x (Neal 2003, stepping out, shrinkage).

    All coordinates move in lock-step, so that ``log_density`` is called on whole vectors; each
    may depend on its own coordinate only, so this is a product of univariate updates.

    Parameters
    ----------
    log_density : callable
        Maps an array of the shape of x to the log-density of each coordinate.
    x : ndarray of shape (n,), or a scalar
    rng : numpy.random.Generator
    width : float
        Length of the first interval.

    Returns
    -------
    ndarray of shape (n,), n = 1 for a scalar
    """
    x = np.atleast_1d(x)
    height = log_density(x) - rng.standard_exponential(x.shape)
    left = x - width * rng.random(x.shape)
    right = left + width
    for end, step in ((left, -width), (right, width)):
        inside = log_density(end) > height
        while inside.any():
            end += np.where(inside, step, 0.0)
            inside &= log_density(end) > height
    new = left + rng.random(x.shape) * (right - left)
    while True:
        rejected = ~(log_density(new) >= height)
        if not rejected.any():
            return new
        left = np.where(rejected & (new < x), new, left)
        right = np.where(rejected & (new >= x), new, right)
        redrawn = left + rng.random(x.shape) * (right - left)
        new = np.where(rejected, redrawn, new)
