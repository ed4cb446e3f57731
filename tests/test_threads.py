"""The draws do not depend on threads or on states out of reach; parts of a table fit."""

import numpy as np
import pymc as pm
import pytest
from models import python_graphs, sample
from numpy.testing import assert_allclose, assert_array_equal

import pymc_dshdp as dshdp
from pymc_dshdp.kernels import blocks
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.likelihood.table import LogLikelihoodTable
from pymc_dshdp.transitions import find_transitions

pytestmark = pytest.mark.usefixtures("python_pymc")

LENGTHS = [20, 1, 33, 6]
T = sum(LENGTHS)


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
    some = table.rows(point, np.array([0, 3]))
    for low, high in [(0, T), (0, 1), (19, 23), (20, 22), (T - 1, T), (0, T)]:
        assert_allclose(rows(low, high), whole[low:high], rtol=1e-12)
        assert_allclose(some(low, high), whole[low:high, [0, 3]], rtol=1e-12)


def test_states_that_cannot_be_reached_are_left_out(model):
    """The path is the one drawn with all states, to the last bit; state 2 only leads out.

    Fails if a state that only another leads to is forgotten, or numbers are not put back.
    """
    pi_bar = np.array(
        [[0.0, 0.1, 0.0, 0.9], [0.5, 0.5, 0.0, 0.0], [0.2, 0.3, 0.4, 0.1], [0.0, 1.0, 0.0, 0.0]]
    )
    values = {"hmm_pi_init": np.array([0.0, 1.0, 0.0, 0.0]), "hmm_pi_bar": pi_bar}
    point = model.initial_point() | values
    table = LogLikelihoodTable(model, model["z"], 4)
    [prior] = find_transitions(model)
    update = prior.update(model, "test")
    uniforms = np.random.default_rng(5).random(T)
    draw = update.draw_path(table, point, np.array(LENGTHS), uniforms, 1)
    whole = forward_filter_backward_sample(
        table(point), *update.transitions(point, (T,)), np.array(LENGTHS), uniforms
    )
    assert set(draw.states) == {0, 1, 3}
    assert_array_equal(draw.states, whole.states)
    assert_allclose(draw.log_marginal_likelihood, whole.log_marginal_likelihood, rtol=1e-13)


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


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, None])
def test_a_bad_number_of_threads_is_refused(model, threads):
    with model, pytest.raises(ValueError, match="threads must be a positive integer"):
        dshdp.WeakLimitFFBS([model["z"]], threads=threads)


def test_one_thread_unless_more_are_asked_for(model):
    """Fails if a chain takes the cores by itself."""
    with model:
        assert dshdp.WeakLimitFFBS([model["z"]]).threads == 1
