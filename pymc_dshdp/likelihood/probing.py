"""Which element of a log-density belongs to which time point: learnt, not guessed from shapes.

So lags, masks, permutations and (trial, time) layouts need no special case.
"""

from functools import partial

import numpy as np
from pymc.initial_point import make_initial_point_fn

__all__ = ["SeveralTimes", "agrees", "element_times", "probe_points"]

RANDOM_PATHS = 8
PROBE_POINTS = 6
TOLERANCE = 1e-9


class SeveralTimes(Exception):
    """An element depends on the states at several times."""

    def __init__(self, element):
        super().__init__(element)
        self.element = element


def agrees(a, b):
    """Elementwise equality up to rounding; infinities are equal to themselves only."""
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= TOLERANCE * (1.0 + np.abs(a))
    close &= np.isfinite(a) & np.isfinite(b)
    return close | (a == b) | (np.isnan(a) & np.isnan(b))


def differs(a, b):
    """Elementwise; a NaN on one side tells nothing and does not count as different."""
    return ~(agrees(a, b) | np.isnan(a) | np.isnan(b))


def probe_points(model, start):
    """Points in general position: jittered initial points, draws from the prior, the start."""
    rng = np.random.default_rng(20200914)
    start = {name: np.asarray(value) for name, value in start.items()}
    for _ in range(PROBE_POINTS // 2):
        yield {
            name: (value + rng.uniform(-1.0, 1.0, value.shape)).astype(value.dtype)
            if np.issubdtype(value.dtype, np.floating)
            else value
            for name, value in start.items()
        }
    try:
        draw = make_initial_point_fn(model=model, default_strategy="prior")
        for seed in range(PROBE_POINTS // 2):
            yield draw(seed)
    except NotImplementedError:  # a prior that cannot be sampled, such as pm.Flat
        pass
    yield start


def element_times(elements, points, T, n_states, n_elements):
    """Time point of each element of a log-density, -1 where it depends on no state.

    Parameters
    ----------
    elements : callable
        ``elements(point, path)``, the elements at a path of shape (T,).
    points : iterable of dict
        Until every element has a time.
    T, n_states, n_elements : int

    Returns
    -------
    ndarray of shape (n_elements,), int

    Raises
    ------
    SeveralTimes
        Naming an element of more than one time.
    """
    time = np.full(n_elements, -1)
    for point in points:
        at = partial(elements, point)
        _locate(at, time, T, n_states)
        _verify(at, time, T, n_states)
        if np.all(time >= 0):
            break
    return time


def _locate(elements, time, T, n_states):
    """Read each element's time from which bits of t + 1 it answers to, for k = 1, 2, ...

    From a base path of state 0, the times whose b-th bit is on are set to k. An element of
    one time t changes in the evaluations of exactly the bits of t + 1.
    """
    code_of_time = np.arange(1, T + 1)
    base = elements(np.zeros(T, int))
    for k in range(1, n_states):
        wanted = (time < 0) & differs(base, elements(np.full(T, k)))
        if not wanted.any():
            if np.all(time >= 0):
                return
            continue
        code = np.zeros(time.shape, int)
        for bit in range(int(T).bit_length()):
            path = np.where((code_of_time >> bit) & 1, k, 0)
            code += differs(base, elements(path)).astype(int) << bit
        found = wanted & (code >= 1) & (code <= T)
        time[found] = code[found] - 1
        if np.any(wanted & ~found):
            raise SeveralTimes(np.flatnonzero(wanted & ~found)[0])


def _verify(elements, time, T, n_states):
    """Compare every element on random paths with what its time alone predicts."""
    rng = np.random.default_rng(T)
    paths = rng.integers(n_states, size=(RANDOM_PATHS, T))
    own = paths[:, np.maximum(time, 0)]
    predicted = np.empty((RANDOM_PATHS, time.size))
    for k in range(n_states):
        constant = elements(np.full(T, k))
        if k == 0:
            predicted[:, time < 0] = constant[time < 0]
        here = (own == k) & (time >= 0)
        predicted[here] = np.broadcast_to(constant, predicted.shape)[here]
    for path, expected in zip(paths, predicted, strict=True):
        wrong = ~agrees(expected, elements(path))
        if wrong.any():
            raise SeveralTimes(np.flatnonzero(wrong)[0])
