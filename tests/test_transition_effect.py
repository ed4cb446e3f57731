"""Transitions against a covariate: from the model's graph, and refused where that cannot tell."""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import FAST, posterior_of
from scipy.special import expit, softmax

import pymc_dshdp as dshdp
from pymc_dshdp._compat import make_result

pytestmark = pytest.mark.usefixtures("python_readers")

T = 12
X = np.linspace(-1.0, 2.0, T)
W = np.cos(np.arange(T))
DIMS = ("state", "state_to")


def result(declare, lengths=(5, 7), coords=(), draws=3):
    """A model whose transitions are declared, and prior draws as its posterior."""
    coords = {"state": range(2), "state_to": range(2), **dict(coords)}
    with pm.Model(coords=coords) as model:
        z = dshdp.HiddenStates("z", declare(), lengths=list(lengths))
        pm.Normal("y", z, 1.0, observed=np.arange(T) % 2)
    return dshdp.align(make_result(posterior_of(model, draws, compile_kwargs=FAST))), model


def by_logit():
    x, w = pm.Data("x", X), pm.Data("w", W)
    a, b = (pm.Normal(name, dims="state") for name in "ab")
    return dshdp.FixedTransitions(
        "hmm", dims="state", kappa=pm.math.sigmoid(a + b * x[:, None] + w[:, None])
    )


def test_persistence_at_one_value_of_a_covariate():
    """Other covariates as observed, over the times that a transition leads to."""
    idata, model = result(by_logit)
    effect = dshdp.transition_effect(idata, "x", model=model, values=[-3, 0.5], prob=0.5)
    assert effect.draws.dims == ("chain", "draw", "x", *DIMS)
    inner = np.delete(np.arange(T), [0, 5])
    for d in range(3):
        one = {name: v.isel(chain=0, draw=d).values for name, v in idata["posterior"].items()}
        for i, x in enumerate([-3.0, 0.5]):
            kappa = expit(one["a"] + one["b"] * x + W[inner, None]).mean(axis=0)
            P = np.diag(kappa) + (1.0 - kappa)[:, None] * one["hmm_pi_bar"]
            np.testing.assert_allclose(effect.draws[0, d, i], P)
    z = idata["posterior"]["z"].values.reshape(3, -1)
    used = [d for d in range(3) if 0 in z[d]]
    stay = effect.draws.values[0, used, 1, 0, 0]
    found = effect.stay.loc[(0.5, 0)]
    assert found["mean"] == pytest.approx(stay.mean())
    np.testing.assert_allclose(found[["lower", "upper"]], np.quantile(stay, [0.25, 0.75]))
    text = str(effect)
    assert "x \\ state" in text and "0.5" in text and "Probability to stay" in text
    thinned = dshdp.transition_effect(idata, "w", model=model, thin=2)
    assert thinned.draws.shape == (1, 2, T, 2, 2)


def by_design():
    X2 = pm.Data("X", np.column_stack([np.ones(T), X]), dims=("time", "covariate"))
    b = pm.Normal("b", dims=("covariate", "state"))
    return dshdp.FixedTransitions("hmm", dims="state", kappa=pm.math.sigmoid(X2 @ b))


def test_columns_of_a_design_matrix():
    idata, model = result(by_design, coords={"covariate": ["one", "heat"]})
    effect = dshdp.transition_effect(idata, "X", model=model, column="heat", values=[0.5])
    one = idata["posterior"].isel(chain=0, draw=1)
    kappa = expit(one["b"].values.T @ [1.0, 0.5])
    P = np.diag(kappa) + (1.0 - kappa)[:, None] * one["hmm_pi_bar"].values
    np.testing.assert_allclose(effect.draws[0, 1, 0], P)
    same = dshdp.transition_effect(idata, "X", model=model, column=1, values=[0.5])
    np.testing.assert_array_equal(same.draws, effect.draws)
    for found in (effect, same):
        assert found.over == "X[heat]" and "X[heat] \\ state" in str(found)
    for column in (None, "cold", 2):
        with pytest.raises(ValueError, match="column must say.*'one', 'heat'"):
            dshdp.transition_effect(idata, "X", model=model, column=column)


def by_one_column():
    b = pm.Normal("b", dims="state")
    x = pm.Data("X", X[:, None])
    return dshdp.FixedTransitions("hmm", dims="state", kappa=pm.math.sigmoid(x @ b[None]))


def test_the_only_column_need_not_be_named():
    idata, model = result(by_one_column)
    effect = dshdp.transition_effect(idata, "X", model=model, values=[0.5])
    named = dshdp.transition_effect(idata, "X", model=model, values=[0.5], column=0)
    np.testing.assert_array_equal(effect.draws, named.draws)
    assert effect.over == named.over == "X"
    with pytest.raises(ValueError, match="column must say.*one of .0.; received 1"):
        dshdp.transition_effect(idata, "X", model=model, column=1)


def by_softmax():
    a, b = (pm.Normal(name, dims=DIMS) for name in "ab")
    x = pm.Data("x", X)
    P = pm.math.softmax(a + b * x[:, None, None], axis=-1)
    return dshdp.Transitions("hmm", P, dims="state")


def test_matrices_of_ones_own_and_their_picture():
    idata, model = result(by_softmax)
    with model:
        effect = dshdp.transition_effect(idata, "x")
    np.testing.assert_allclose(effect.draws["x"], X)
    one = idata["posterior"].isel(chain=0, draw=2)
    P = softmax(one["a"].values + one["b"].values * X[3], axis=-1)
    np.testing.assert_allclose(effect.draws[0, 2, 3], P)
    ax = dshdp.plot_transition_effect(effect, label=0)
    np.testing.assert_allclose(
        ax.lines[0].get_ydata(), effect.transitions.xs((0, 0), level=(1, 2))["mean"]
    )
    assert ax.get_ylabel() == "probability to go from 0"
    ax = dshdp.plot_transition_effect(effect)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), effect.stay.xs(1, level="state")["mean"])
    plt.close("all")
    with pytest.raises(ValueError, match="label must be one of.*received 7"):
        dshdp.plot_transition_effect(effect, label=7)
    with pytest.raises(TypeError, match="what transition_effect returns"):
        dshdp.plot_transition_effect(idata)


def by_season():
    P = pm.Dirichlet("P", np.ones((3, 2, 2)), dims=("season", *DIMS))
    return dshdp.Transitions("hmm", P, index=pm.Data("now", np.arange(T) % 3), dims="state")


def test_seasons():
    idata, model = result(by_season, coords={"season": range(3)})
    effect = dshdp.transition_effect(idata, "now", model=model)
    np.testing.assert_allclose(effect.draws, idata["posterior"]["P"])
    with pytest.raises(ValueError, match="values must be integers.*0.5"):
        dshdp.transition_effect(idata, "now", model=model, values=[0.5])


@pytest.mark.parametrize(
    ("group", "layout"),
    [
        (["a", "b"] * 6, {"lengths": [5, 7]}),
        (["b", "a"], {"lengths": [5, 7]}),
        (["a", "b", "b", "a"], {"shape": (4, 3)}),
    ],
)
def test_groups(group, layout):
    """Of each time and of each sequence."""
    with pm.Model(coords={"state": range(2), "subject": ["a", "b"]}) as model:
        prior = dshdp.DSHDP("hmm", dims="state", groups="subject")
        z = dshdp.HiddenStates("z", prior, **layout, group=group)
        pm.Normal("y", z, 1.0, observed=np.arange(T).reshape(layout.get("shape", (T,))) % 2)
    idata = dshdp.align(make_result(posterior_of(model, 2, compile_kwargs=FAST)))
    effect = dshdp.transition_effect(idata, "z_group", model=model)
    kappa, rows = (idata["posterior"][f"hmm_{name}"].values for name in ("kappa", "pi_bar"))
    P = kappa[..., None] * np.eye(2) + (1.0 - kappa[..., None]) * rows
    np.testing.assert_allclose(effect.draws, P)


# -- what is refused --------------------------------------------------------------------------


def constant():
    pm.Data("x", X)
    b = pm.Normal("b", dims="state")
    return dshdp.FixedTransitions("hmm", dims="state", kappa=pm.math.sigmoid(b * X[:, None]))


def centred():
    x = pm.Data("x", X)
    b = pm.Normal("b", dims="state")
    return dshdp.FixedTransitions(
        "hmm", dims="state", kappa=pm.math.sigmoid(b * (x - x.mean())[:, None])
    )


def lagged():
    x = pm.Data("x", X)
    b = pm.Normal("b", dims="state")
    kappa = pm.math.sigmoid(b * pm.math.concatenate([x[:1], x[:-1]])[:, None])
    return dshdp.FixedTransitions("hmm", dims="state", kappa=kappa)


def by_dose(of=lambda dose: dose):
    dose = pm.Data("dose", np.array([-1.0, 2.0, 0.5]))
    b = pm.Normal("b", dims="state")
    kappa = pm.math.sigmoid(b * pt.repeat(of(dose), np.array([3, 4, 5]))[:, None])
    return dshdp.FixedTransitions("hmm", dims="state", kappa=kappa)


def test_a_covariate_of_each_sequence():
    """Fails if its value for one sequence may be seen by others."""
    idata, model = result(by_dose, lengths=(3, 4, 5))
    effect = dshdp.transition_effect(idata, "dose", model=model)
    np.testing.assert_allclose(effect.draws["dose"], [-1.0, 0.5, 2.0])
    one = idata["posterior"].isel(chain=0, draw=1)
    kappa = expit(0.5 * one["b"].values)
    P = np.diag(kappa) + (1.0 - kappa)[:, None] * one["hmm_pi_bar"].values
    np.testing.assert_allclose(effect.draws[0, 1, 1], P)
    idata, model = result(lambda: by_dose(lambda dose: dose - dose.mean()), lengths=(3, 4, 5))
    with pytest.raises(ValueError, match="'dose' at one time changes the transitions of 'z' at"):
        dshdp.transition_effect(idata, "dose", model=model)


@pytest.mark.parametrize(
    ("declare", "over", "kwargs", "match"),
    [
        (constant, "x", {}, "there is none; hold the covariate in one.*received 'x'"),
        (by_logit, "b", {}, "over must name a pm.Data.*\\['w', 'x'\\].*received 'b'"),
        (centred, "x", {}, "'x' at one time changes the transitions of 'z' at other times"),
        (lagged, "x", {}, "'x' at one time changes the transitions"),
        (by_logit, "x", {"column": 0}, "column is for data that have some"),
        (by_logit, "x", {"values": [[1.0]]}, "values must be a sequence of numbers"),
        (by_logit, "x", {"values": [np.nan]}, "values must be a sequence of numbers"),
    ],
)
def test_refused(declare, over, kwargs, match):
    idata, model = result(declare, draws=1)
    with pytest.raises(ValueError, match=match):
        dshdp.transition_effect(idata, over, model=model, **kwargs)


def test_parameters_that_were_not_renumbered_are_refused():
    """Fails if the matrices of one numbering are read with the states of another."""
    idata, model = result(by_logit)
    b = idata["posterior"]["b"]
    swapped = {
        "posterior": idata["posterior"].dataset
        if hasattr(idata["posterior"], "dataset")
        else idata["posterior"]
    }
    swapped["posterior"] = swapped["posterior"].assign(b=b.copy(data=b.values[..., ::-1]))
    groups = {name: idata[name] for name in ("constant_data", "alignment")}
    groups = {n: g.to_dataset() if hasattr(g, "to_dataset") else g for n, g in groups.items()}
    with pytest.raises(ValueError, match="not those stored.*dims of the states"):
        dshdp.transition_effect(make_result({**groups, **swapped}), "x", model=model)
