"""Chains on a dask cluster."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from models import fixed_model, needs_kill, prior_model, sample

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group


@needs_kill
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own threads and sockets
def test_draws_are_those_of_one_machine_even_if_a_worker_dies():
    """Two worker processes, one killed at work.

    Fails if a chain is not given the generator that ``pm.sample`` gives it, or if one that is
    run again goes on with another.
    """
    from distributed import Client, LocalCluster

    model = fixed_model()
    run = {"draws": 400, "tune": 60, "chains": 3, "random_seed": 7}
    here = sample(model, **run)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        pids = client.run(os.getpid)

        def kill():
            time.sleep(4)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        there = dshdp.sample_distributed(model=model, client=client, progressbar=False, **run)
        killer.join()
    for name in ("posterior", "sample_stats"):
        one, two = group(here, name), group(there, name)
        assert set(one) == set(two)
        for variable in one:
            np.testing.assert_array_equal(one[variable], two[variable], err_msg=variable)
    assert "z_lengths" in group(there, "constant_data")


def test_refusals():
    with pytest.raises(TypeError, match="model must be a pymc.Model, received int"):
        dshdp.sample_distributed(model=1, client=None)
    with pytest.raises(TypeError, match="must be a synchronous distributed.Client, received None"):
        dshdp.sample_distributed(model=prior_model(), client=None)
