"""Points at which something about a model's density is looked for."""

import numpy as np
from pymc.initial_point import make_initial_point_fn

__all__ = ["probe_points"]

PROBE_POINTS = 6


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
