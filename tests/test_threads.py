"""Threads of ``WeakLimitFFBS``: the draws do not depend on them, and the parts of a table fit."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from models import python_graphs, sample
from numpy.testing import assert_allclose, assert_array_equal

import pymc_dshdp as dshdp
from pymc_dshdp.kernels import blocks
from pymc_dshdp.loglik import LogLikelihoodTable
from pymc_dshdp.steps import weak_limit

LENGTHS = [20, 1, 33, 6]
T = sum(LENGTHS)


@pytest.fixture(scope="module", autouse=True)
def python_mode():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture(scope="module")
def model():
    """Every family whose prepared data are laid out in its own way, and a term without one."""
    rng = np.random.default_rng(1)
    L = 4
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        pm.Poisson("counts", pm.math.constant(rng.gamma(2.0, size=(L, 3)))[z],
                   observed=rng.poisson(2.0, (T, 3)))  # fmt: skip
        pm.MvNormal("vectors", pm.math.constant(rng.normal(size=(L, 2)))[z], np.eye(2),
                    observed=rng.normal(5.0, 1.0, (T, 2)))  # fmt: skip
        A = pm.math.constant(rng.normal(size=(L, 2, 2)))
        dshdp.SwitchingVAR("var", A, pm.math.constant(np.tile(np.eye(2), (L, 1, 1))), z,
                           observed=rng.normal(size=(T, 2)))  # fmt: skip
        pm.Laplace("other", pm.math.constant(rng.normal(size=L))[z], 1.0,
                   observed=rng.normal(size=T))  # fmt: skip
    return model


def test_parts_of_a_table(model):
    """Fails if a part of an autoregression starts from its own first row."""
    table, point = LogLikelihoodTable(model, model["z"], 4), model.initial_point()
    whole, rows = table(point), table.rows(point)
    for low, high in [(0, T), (0, 1), (19, 23), (20, 22), (T - 1, T), (0, T)]:
        assert_allclose(rows(low, high), whole[low:high], rtol=1e-12)


def test_chains_on_threads_and_processes_are_the_same(model, monkeypatch):
    """One thread, three threads, worker processes. Fails if a thread takes random numbers."""
    python_graphs(monkeypatch)
    monkeypatch.setattr(blocks, "WORTH_THREADS", 0)
    chains = []
    for threads, cores in [(1, 1), (3, 1), (3, 2)]:
        with model:
            steps = [
                dshdp.WeakLimitFFBS([model["z"]], threads=threads),
                dshdp.GridRhoStep([model["z"]]),
            ]
        idata = sample(model, step=steps, tune=2, draws=4, chains=2, cores=cores, random_seed=3)
        chains.append(idata)
    for idata in chains[1:]:
        assert_array_equal(idata.posterior["z"], chains[0].posterior["z"])
        assert_array_equal(
            idata.sample_stats["log_marginal_likelihood"],
            chains[0].sample_stats["log_marginal_likelihood"],
        )


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_a_bad_number_of_threads_is_refused(model, threads):
    with model, pytest.raises(ValueError, match="threads must be a positive integer"):
        dshdp.WeakLimitFFBS([model["z"]], threads=threads)


def test_chains_in_worker_processes_leave_the_cores_to_each_other(monkeypatch):
    """Fails if the default does not ask whether the process is a worker."""
    assert weak_limit._spare_cores() >= 1
    monkeypatch.setattr(weak_limit.multiprocessing, "parent_process", lambda: object())
    assert weak_limit._spare_cores() == 1
