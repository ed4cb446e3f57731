"""Sweeps of pyhsmm's sticky weak-limit HDP-HMM, one for each line of input.

Started by ``peers.py`` with an interpreter that has pyhsmm, an old one: nothing of this package is
imported. The argument is an ``.npz`` file with the data ``y``, a path ``z`` to start from,
``lengths`` and ``n_states``. Data of one column are normal with variance 1 and a normal prior on
the mean; data of several are counts of independent Poisson cells with Gamma(1, 1) rates, without
the constant log y!. The hyperparameters stay fixed.
"""

import argparse
import sys

import numpy as np


class PoissonCells:
    """Independent Poisson cells in the form that pyhsmm asks of an emission distribution."""

    def __init__(self, n_cells, rng):
        self.rng = rng
        self.rate = rng.gamma(1.0, 1.0, n_cells)

    def log_likelihood(self, y):
        """Log-densities of (T, C) counts, a constant less: (T,)."""
        return y.dot(np.log(self.rate)) - self.rate.sum()

    def resample(self, data):
        """Draw the rates given the counts in this state, one array for each sequence."""
        visits = sum(len(y) for y in data)
        total = sum(y.sum(axis=0) for y in data)
        self.rate = self.rng.gamma(1.0 + total, 1.0 / (1.0 + visits))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problem")
    problem = np.load(parser.parse_args().problem)

    import pyhsmm
    from pybasicbayes.distributions import ScalarGaussianFixedvar

    y, n_states = problem["y"], int(problem["n_states"])
    if y.ndim == 1:
        emissions = [
            ScalarGaussianFixedvar(sigmasq=1.0, mu_0=10.0, tausq_0=100.0) for _ in range(n_states)
        ]
    else:
        rng = np.random.RandomState(1)
        emissions = [PoissonCells(y.shape[1], rng) for _ in range(n_states)]
    model = pyhsmm.models.WeakLimitStickyHDPHMM(
        kappa=100.0, alpha=6.0, gamma=6.0, init_state_concentration=6.0, obs_distns=emissions
    )
    ends = np.cumsum(problem["lengths"])
    for start, end in zip(np.append(0, ends), ends):
        model.add_data(y[start:end], stateseq=problem["z"][start:end].astype("int32"))
    model.resample_parameters()
    for _ in sys.stdin:
        model.resample_model()
        print("done", flush=True)


main()
