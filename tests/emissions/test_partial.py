"""Missing cells of vector observations: summed out, redrawn, and kept out of nobody's way."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import posterior_of, sample
from reference import assert_distribution, assert_frequencies
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.steps.conjugate import ConjugateStep

pytestmark = [
    pytest.mark.usefixtures("python_pymc"),
    pytest.mark.filterwarnings("ignore:Data in .* contains missing"),
]
MEANS = np.array([[0.0, 0.0, 1.0], [1.0, -1.0, 0.5]])
COVARIANCES = np.array(
    [
        [[1.0, 0.5, 0.2], [0.5, 2.0, 0.0], [0.2, 0.0, 0.7]],
        [[1.5, -0.3, 0.0], [-0.3, 1.0, 0.4], [0.0, 0.4, 0.9]],
    ]
)
DATA = np.array(
    [[0.3, -0.2, 1.1], [np.nan, 0.8, -0.4], [np.nan, np.nan, np.nan], [0.2, np.nan, 2.0]]
)
MASKED = np.ma.masked_invalid(DATA)


def normal_model(data=MASKED, layout=None, index=lambda z: z):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=2, kappa=0.5)
        z = dshdp.HiddenStates("z", prior, **(layout or {"length": len(data)}))
        means, covariances = pt.as_tensor(MEANS), pt.as_tensor(COVARIANCES)
        pm.MvNormal("y", means[index(z)], covariances[index(z)], observed=data)
    return model


def marginal(y, k):
    seen = np.isfinite(y)
    if not seen.any():
        return 0.0
    return stats.multivariate_normal(MEANS[k][seen], COVARIANCES[k][np.ix_(seen, seen)]).logpdf(
        y[seen]
    )


def step_of(model, seed=1):
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(seed))
    step.stop_tuning()
    return step


@pytest.mark.parametrize("batch", [False, True])
def test_table_is_the_marginal_density(batch):
    """Fails if imputed values enter the table, which must not change with them."""
    data, layout = (MASKED.reshape(2, 2, 3), {"shape": (2, 2)}) if batch else (MASKED, None)
    model = normal_model(data, layout)
    assert is_missing_observation(model["y_unobserved"])
    table = step_of(model)._priors[0].tables[0]
    point = model.initial_point()
    point["y_unobserved"] = point["y_unobserved"] + 7.0
    np.testing.assert_allclose(table(point), [[marginal(y, k) for k in range(2)] for y in DATA])


def test_states_follow_the_enumerated_posterior_and_cells_their_conditional():
    """Fails if the missing cells are drawn from their marginal, not given those observed."""
    model = normal_model()
    step = step_of(model)
    assert "y_unobserved" in [v.name for v in step.vars]
    point = model.initial_point()
    initial, P = step._priors[0].transition.transition_probabilities(point)
    paths = list(itertools.product(range(2), repeat=4))
    law = []
    for path in paths:
        p = initial[path[0]] * np.prod([P[a, b] for a, b in itertools.pairwise(path)])
        law.append(p * np.exp(sum(marginal(y, k) for y, k in zip(DATA, path, strict=True))))
    seen, cells = np.zeros(16), []
    for _ in range(3000):
        drawn, _ = step._priors[0].draw_states(point, step.rng)
        drawn = step._missing.draw(drawn, step.rng)
        seen[drawn["z"] @ [8, 4, 2, 1]] += 1
        cells.append((*drawn["z"], *drawn["y_unobserved"]))
    assert_frequencies(seen, np.array(law) / np.sum(law))
    cells = np.array(cells)
    for k in range(2):
        S, mean = COVARIANCES[k], MEANS[k]
        B = S[0, 1:] @ np.linalg.inv(S[1:, 1:])
        law = stats.norm(mean[0] + B @ (DATA[1, 1:] - mean[1:]), np.sqrt(S[0, 0] - B @ S[1:, 0]))
        assert_distribution(cells[cells[:, 1] == k, 4], law.cdf)
        whole = cells[cells[:, 2] == k]
        for i in range(3):
            assert_distribution(whole[:, 5 + i], stats.norm(mean[i], np.sqrt(S[i, i])).cdf)
        assert np.corrcoef(whole[:, 5], whole[:, 6])[0, 1] == pytest.approx(
            S[0, 1] / np.sqrt(S[0, 0] * S[1, 1]), abs=4.5 / np.sqrt(len(whole))
        )


def test_other_data_have_the_marginal_density():
    """Of a model of complete rows; fails if missing cells are asked of the result."""
    model = normal_model(np.nan_to_num(DATA))
    result = posterior_of(model, draws=3)
    found = dshdp.held_out_log_likelihood(result, model=model, observed={"y": MASKED})
    posterior = result["posterior"]
    for draw in range(3):
        start, rows = (posterior[f"hmm_{n}"].values[0, draw] for n in ("pi_init", "pi_bar"))
        weight = start * [np.exp(marginal(DATA[0], k)) for k in range(2)]
        for y in DATA[1:]:
            moved = weight @ (0.5 * np.eye(2) + 0.5 * rows)
            weight = moved * [np.exp(marginal(y, k)) for k in range(2)]
        assert found["log_likelihood"].values[0, draw] == pytest.approx(np.log(weight.sum()))


def test_other_forms_stay_with_pymc():
    """A mean that is no function of theta[z] alone, or another multivariate likelihood."""
    model = normal_model(index=lambda z: pt.concatenate([z[:1], z[:-1]]))
    assert not is_missing_observation(model["y_unobserved"])
    table = step_of(model)._priors[0].tables[0]
    assert table.names == ["y_observed"]


@pytest.mark.parametrize("kind", ["poisson", "normal", "mvnormal", "wishart"])
@pytest.mark.parametrize("rows", [False, True], ids=["cells", "rows"])
def test_theta_of_masked_data_is_drawn_by_its_conjugate_conditional(kind, rows):
    """From observed and imputed values; the same draws as for the completed data.

    Fails if the imputed values are left out while the point keeps them.
    """
    rng = np.random.default_rng(5)
    T, d = 12, 2
    data = rng.poisson(4.0, (T, d)).astype(int) if kind == "poisson" else rng.normal(size=(T, d))
    mask = np.zeros((T, d), bool)
    mask[[2, 3, 7]] = True if rows else [True, False]

    def build(observed):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=T)
            if kind == "poisson":
                theta = [pm.Gamma("theta", 2.0, 0.5, shape=(2, d))]
                pm.Poisson("y", theta[0][z], observed=observed)
            elif kind == "normal":
                theta = [pm.Normal("theta", 0.0, 2.0, shape=(2, d))]
                pm.Normal("y", theta[0][z], 0.7, observed=observed)
            elif kind == "mvnormal":
                theta = [pm.Normal("theta", 0.0, 2.0, shape=(2, d))]
                pm.MvNormal("y", theta[0][z], np.eye(d) + 0.3, observed=observed)
            else:
                theta = dshdp.NormalInverseWishart("theta", S0=np.eye(d), n_states=2)
                pm.MvNormal("y", theta[0][z], theta[1][z], observed=observed)
            step = ConjugateStep(theta, rng=np.random.default_rng(6))
        return model, step

    masked, ours = build(np.ma.masked_array(data, mask=mask))
    complete, theirs = build(data)
    for theta in masked.free_RVs:
        if theta.name.startswith("theta"):
            assert ConjugateStep.competence(theta, True) == ConjugateStep.competence(theta, False)
    z = (np.arange(T) % 2).astype("int8")
    start = {**masked.initial_point(), "z": z}
    start["y_unobserved"] = data[mask].reshape(start["y_unobserved"].shape)
    one, _ = ours.step(start)
    two, _ = theirs.step({**complete.initial_point(), "z": z})
    for name in [v.name for v in ours.vars]:
        np.testing.assert_allclose(one[name], two[name])
    other, _ = ours.step({**start, "y_unobserved": start["y_unobserved"] + 3})
    three, _ = theirs.step({**complete.initial_point(), "z": z})
    assert not np.allclose(other[ours.vars[0].name], three[ours.vars[0].name])


def test_automatic_choice_leaves_nothing_to_nuts():
    data = np.ma.masked_array(np.ones((6, 2), int), mask=np.eye(6, 2).astype(bool))
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=6)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=(2, 2))
        pm.Poisson("y", rate[z], observed=data)
        v = pm.Normal("mu", 0.0, 1.0, shape=(2, 3))
        pm.MvNormal("v", v[z], np.eye(3), observed=np.ma.masked_invalid(np.tile(DATA, (2, 1))[:6]))
    idata = sample(model, draws=4, tune=4, chains=1)
    assert "tree_depth" not in idata["sample_stats"]
    assert np.isfinite(idata["posterior"]["v_unobserved"].values).all()
    assert np.std(idata["posterior"]["v_unobserved"].values[0, :, 0]) > 0


def test_an_all_missing_sequence_gives_prior_draws():
    """Two sequences, one without data: its states are the chain's own law."""
    data = np.ma.masked_array(np.array([5, 5, 5, 0, 0, 0]), mask=[0, 0, 0, 1, 1, 1])
    with pm.Model() as model:
        prior = dshdp.FixedTransitions("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, lengths=[3, 3])
        pm.Poisson("y", pt.as_tensor(np.array([1.0, 5.0]))[z], observed=data)
    step = step_of(model)
    point = model.initial_point()
    initial, P = step._priors[0].transition.transition_probabilities(point)
    seen = np.zeros(8)
    for _ in range(3000):
        drawn, _ = step._priors[0].draw_states(point, step.rng)
        seen[drawn["z"][3:] @ [4, 2, 1]] += 1
    law = [initial[a] * P[a, b] * P[b, c] for a, b, c in itertools.product(range(2), repeat=3)]
    assert_frequencies(seen, np.array(law))
