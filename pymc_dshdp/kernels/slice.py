"""Slice sampling of independent coordinates, for conditionals without a closed form."""

import numpy as np

MAX_STEPS = 10_000


def slice_sample(log_density, x, rng, width=1.0, most=None):
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
    most : int, optional
        Steps out at most, split between the sides at random (Neal's limit, which is exact too), for
        densities that need not fall off, such as those of an angle.

    Returns
    -------
    ndarray of shape (n,), n = 1 for a scalar

    Raises
    ------
    ValueError
        If the density is not finite at x, or, without ``most``, does not fall off within 10,000
        widths.
    """
    x = np.atleast_1d(x)
    height = log_density(x) - rng.standard_exponential(x.shape)
    if not np.all(np.isfinite(height)):
        raise ValueError(f"the log-density is not finite at the current value {x}")
    left = x - width * rng.random(x.shape)
    right = left + width
    to_left = MAX_STEPS if most is None else rng.integers(most, size=x.shape)
    to_right = MAX_STEPS if most is None else most - 1 - to_left
    for end, step, allowed in ((left, -width, to_left), (right, width, to_right)):
        inside = log_density(end) > height
        for done in range(MAX_STEPS if most is None else most):
            out = inside & (done < allowed)
            if not out.any():
                break
            end += np.where(out, step, 0.0)
            inside &= log_density(end) > height
        if most is None and inside.any():
            raise ValueError(
                f"the density does not fall off within {MAX_STEPS} steps of {width} from {x}: it "
                "is improper, or too flat for slice sampling on this scale"
            )
    new = left + rng.random(x.shape) * (right - left)
    while True:
        rejected = ~(log_density(new) >= height)
        if not rejected.any():
            return new
        left = np.where(rejected & (new < x), new, left)
        right = np.where(rejected & (new >= x), new, right)
        redrawn = left + rng.random(x.shape) * (right - left)
        new = np.where(rejected, redrawn, new)


def slice_between(log_density, x, low, high, rng):
    """One slice-sampling update of a number between bounds, by shrinkage from the whole of it.

    Parameters
    ----------
    log_density : callable
        ``log_density(x) -> float``.
    x, low, high : float
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If the density is not finite at x.
    """
    height = log_density(x) - rng.standard_exponential()
    if not np.isfinite(height):
        raise ValueError(f"the log-density is not finite at the current value {x}")
    while True:
        new = low + rng.random() * (high - low)
        if low < new < high and log_density(new) >= height:
            return new
        low, high = (new, high) if new < x else (low, new)
