"""The family of docs/families.md works as written."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.mode import Mode
from reference import assert_distribution
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp.emissions import base
from pymc_dshdp.likelihood.conjugate import ConjugateTerm, find_conjugate
from pymc_dshdp.likelihood.families import table_term

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


@pytest.fixture
def documented_family(monkeypatch):
    monkeypatch.setattr(base, "_families", list(base._families))
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 45
    namespace = {"__name__": "documented"}
    exec(compile(code, str(PAGE), "exec"), namespace)
    return namespace["ParetoGamma"]


def test_documented_family(documented_family):
    """Fails if the example on the page does not register, or is wrong."""
    y = 0.5 + np.random.default_rng(1).exponential(1.0, (8, 2))
    path = np.array([0, 0, 0, 1, 1, 0, 0, 1])
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=8)
        alpha = pm.Gamma("alpha", 2.0, 1.5, shape=(3, 2))
        pm.Pareto("y", alpha[z], np.full((8, 2), 0.5), observed=y)
    match = find_conjugate(model, alpha)
    assert type(match.family) is documented_family
    point = {**model.initial_point(), "z": path.astype("int8")}

    table = table_term(model, model["y"], z, 3)(point)
    logp = compile_pymc(
        model.value_vars,
        model.logp(vars=[model["y"]], sum=False),
        mode=Mode(linker="py", optimizer="fast_run"),
        on_unused_input="ignore",
    )
    [elements] = logp(*(point[v.name] for v in model.value_vars))
    np.testing.assert_allclose(table[np.arange(8), path], elements.sum(axis=1), rtol=1e-10)

    term, rng = ConjugateTerm(model, match), np.random.default_rng(2)
    draws = np.exp([term.draw(point, rng)["alpha_log__"] for _ in range(2000)])
    for k in range(3):
        rows = np.log(y[path == k] / 0.5)
        posterior = stats.gamma(2.0 + len(rows), scale=1.0 / (1.5 + rows[:, 1].sum()))
        assert_distribution(draws[:, k, 1], posterior.cdf)
