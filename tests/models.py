"""Small models and helpers shared by the tests."""

import multiprocessing
import signal

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_dshdp as dshdp
from pymc_dshdp.analysis import forecasting
from pymc_dshdp.graph import readers
from pymc_dshdp.likelihood import table

needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")

FAST = {"mode": "FAST_COMPILE"}
SEGMENTS = np.repeat([0, 1, 2, 0, 1], 6)
COUNTS = np.array(
    [2, 1, 3, 2, 2, 1, 21, 18, 20, 25, 19, 22, 61, 55, 63, 58, 60, 57]
    + [1, 2, 0, 3, 2, 2, 19, 24, 20, 17, 23, 21]
)  # fmt: skip


def poisson_model(y=COUNTS, n_states=4, layout=None, **prior_kwargs):
    """Poisson counts on a DS-HDP-HMM prior; ``layout`` is passed to ``HiddenStates``."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=n_states, **prior_kwargs)
        z = dshdp.HiddenStates("z", prior, **(layout or {"length": len(y)}))
        rate = pm.LogNormal("rate", 2.0, 1.5, dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=y)
    return model


def prior_model(T=12, n_states=3, **prior_kwargs):
    """Hidden states that nothing depends on."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=n_states, **prior_kwargs)
        dshdp.HiddenStates("z", prior, length=T)
    return model


def evaluate(outputs, values=None):
    """Evaluate graphs, without compiling, at ``{input variable: value}``."""
    values = values or {}
    function = pytensor.function(
        list(values), outputs, mode="FAST_COMPILE", on_unused_input="ignore"
    )
    return function(*values.values())


def read_only(point):
    """Copy of a point whose arrays cannot be written to."""
    frozen = {name: np.array(value) for name, value in point.items()}
    for value in frozen.values():
        value.flags.writeable = False
    return frozen


def posterior(idata):
    """Draws of every variable by name, as arrays (chain, draw, ...)."""
    data = idata["posterior"]
    return {name: np.asarray(data[name].values) for name in data.data_vars}


def sample(model, **kwargs):
    """``pm.sample`` with a seed and without output."""
    defaults = {"draws": 20, "tune": 20, "chains": 2, "cores": 1, "random_seed": 7}
    quiet = {"progressbar": False, "compute_convergence_checks": False, "model": model}
    return pm.sample(**{**defaults, **quiet, **kwargs})


def python_graphs(patch, mode="FAST_COMPILE"):
    """Evaluate the graphs of our steps in Python; the kernels stay compiled."""
    for module in (table, readers, forecasting):
        compile_pymc = module.compile_pymc
        patch.setattr(
            module,
            "compile_pymc",
            lambda *args, compile_pymc=compile_pymc, **kw: compile_pymc(
                *args, **{**kw, "mode": mode}
            ),
        )


def fixed_model(n_states=3, rates=(2.0, 20.0, 60.0), **kwargs):
    """Poisson counts whose rates are known, so that our two steps sample everything."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=n_states, **kwargs)
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18])
        pm.Poisson("counts", pt.as_tensor(np.array(rates))[z], observed=COUNTS)
    return model


def posterior_of(model, draws=4, compile_kwargs=None):
    """Prior draws in the guise of a posterior: groups by name."""
    own = None if compile_kwargs is None else dict(compile_kwargs)  # PyMC 5.28 writes into it
    found = pm.sample_prior_predictive(draws, model=model, random_seed=1, compile_kwargs=own)

    def group(name):
        return found[name].to_dataset() if hasattr(found[name], "to_dataset") else found[name]

    return {"posterior": group("prior"), "constant_data": group("constant_data")}
