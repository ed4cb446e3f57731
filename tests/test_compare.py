"""Comparison of models: scores, their errors and what is refused."""

import numpy as np
import pymc as pm
import pytest
from models import posterior_of

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

TRAIN = np.random.default_rng(0).poisson(5.0, size=30)
TEST = np.random.default_rng(1).poisson(5.0, size=30)


def poisson(y, level, lengths=(30,)):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), lengths=list(lengths))
        pm.Poisson("y", pm.Gamma("rate", 100.0 * level, 100.0, dims="hmm_state")[z], observed=y)
    return model


@pytest.fixture(scope="module")
def pairs():
    models = {name: poisson(TRAIN, level) for name, level in (("far", 9.0), ("near", 5.0))}
    return {name: (posterior_of(model, draws=3), model) for name, model in models.items()}


@pytest.mark.parametrize("elements", [2**20, 60, 1])
def test_scores_and_errors(pairs, elements, monkeypatch):
    """Fails if differences are not paired, or increments do not start from the mean of draws.

    Also if the blocks of draws, three, two and one or one at a time, are not taken together.
    """
    monkeypatch.setattr("pymc_dshdp.analysis.comparison.ELEMENTS", elements)
    table = dshdp.compare_held_out(pairs, observed={"y": TEST}, lengths=[20, 10])
    assert list(table.index) == ["near", "far"] and list(table["rank"]) == [0, 1]
    for name, (result, model) in pairs.items():
        held = dshdp.held_out_log_likelihood(
            result, model=model, observed={"y": TEST}, lengths=[20, 10]
        )
        p = np.exp(held["log_likelihood"].values[0])
        assert table.loc[name, "held_out"] == pytest.approx(np.log(p.mean(axis=0)).sum())
        assert table.loc[name, "ess"] == pytest.approx((p.sum(0) ** 2 / (p**2).sum(0)).min())
    one, two = (
        dshdp.filter_states(result, model=model, observed={"y": TEST}, lengths=[20, 10])[
            "log_score"
        ]
        for result, model in (pairs["far"], pairs["near"])
    )
    assert table.loc["far", "one_step"] == pytest.approx(float(one.sum()))
    difference = (one - two).values
    assert table.loc["far", "one_step_diff"] == pytest.approx(difference.sum())
    starts = [*(np.arange(14) * 20 // 14), *(20 + np.arange(7) * 10 // 7)]
    units = np.split(difference, starts[1:])
    excess = [unit.sum() - difference.sum() * len(unit) / 30 for unit in units]
    expected = np.sqrt(21 / 20 * np.sum(np.square(excess)))
    assert table.loc["far", "one_step_dse"] == pytest.approx(expected)
    assert table.loc["near", "diff"] == table.loc["near", "dse"] == 0.0


def test_error_of_sequences(pairs):
    """Sequences are the units where there are 20; fails if times are taken as independent."""
    lengths = [1] * 10 + [2] * 10
    table = dshdp.compare_held_out({"near": pairs["near"]}, observed={"y": TEST}, lengths=lengths)
    result, model = pairs["near"]
    held = dshdp.held_out_log_likelihood(result, model=model, observed={"y": TEST}, lengths=lengths)
    scores = np.log(np.exp(held["log_likelihood"].values[0]).mean(axis=0))
    excess = scores - scores.sum() * np.array(lengths) / 30
    assert table.loc["near", "se"] == pytest.approx(np.sqrt(20 / 19 * (excess**2).sum()))


def test_data_and_states_by_name():
    """Fails if the model's own data are taken for those that replace them in ``pm.Data``."""
    with pm.Model() as model:
        data = pm.Data("data", TRAIN)
        prior = dshdp.DSHDP("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, length=data.shape[0])
        w = dshdp.HiddenStates("w", prior, length=5)
        rate = pm.Gamma("rate", 5.0, 1.0, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=data)
        pm.Poisson("x", rate[w], observed=TRAIN[:5])
    result = posterior_of(model, draws=2)
    trained = result["posterior"].drop_vars(list(result["posterior"].data_vars))
    result["observed_data"] = trained.assign(y=("y_dim_0", TRAIN), x=("x_dim_0", TRAIN[:5]))
    table = dshdp.compare_held_out({"one": (result, model)}, observed={"data": TEST}, states="z")
    held = dshdp.held_out_log_likelihood(result, model=model, observed={"data": TEST}, states="z")
    assert table.loc["one", "held_out"] == pytest.approx(float(held["log_mean_exp"]))
    with pytest.raises(ValueError, match="would be scored on 'y' as it was in training"):
        dshdp.compare_held_out({"one": (result, model)}, observed={"data": TRAIN}, states="z")


def test_refusals(pairs):
    result, model = pairs["near"]
    data = {"y": ("y_dim_0", TRAIN)}
    trained = {**result, "observed_data": result["posterior"].drop_vars("rate").assign(data)}
    with pytest.raises(ValueError, match=r"models\['near'\] would be scored on 'y' as it was in"):
        dshdp.compare_held_out({"near": (trained, model)})
    with pytest.raises(TypeError, match=r"models must be a dict"):
        dshdp.compare_held_out([model])
    with pytest.raises(TypeError, match=r"models\['near'\] must be a pair .* received Model$"):
        dshdp.compare_held_out({"near": model})
    other = poisson(TEST[:20], 5.0, (20,))
    with pytest.raises(ValueError, match=r"models\['b'\] is scored on sequences of lengths \[20\]"):
        dshdp.compare_held_out({"a": (result, poisson(TEST, 5.0)), "b": (result, other)})
