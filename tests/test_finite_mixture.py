"""The mixture of finite mixtures in a model and in its results."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from models import COUNTS, evaluate, posterior, prior_model, sample
from scipy import stats
from scipy.special import betaln, gammaln

import pymc_dshdp as dshdp
from pymc_dshdp.transitions import find_transitions

pytestmark = pytest.mark.usefixtures("python_mode")


def mixture(n_states=4, **kwargs):
    return prior_model(n_states=n_states, weights="finite-mixture", **kwargs)


def counts_model(known=None, **kwargs):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=4, weights="finite-mixture", **kwargs)
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18], known=known)
        rate = pm.Gamma("rate", 2.0, 0.1, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=COUNTS)
    return model


def log_p(model):
    return evaluate([model["hmm_active"].owner.inputs[2]])[0]


def test_declares_the_documented_variables():
    model = mixture()
    assert {"hmm_active", "hmm_beta"} <= {v.name for v in model.free_RVs}
    assert "hmm_n_active" in {v.name for v in model.deterministics}
    for name in ("hmm_active", "hmm_beta"):
        assert tuple(model.named_vars_to_dims[name]) == ("hmm_state",)
    [prior] = find_transitions(cloudpickle.loads(cloudpickle.dumps(model)))
    assert prior.active.name == "hmm_active" and prior.gamma.name == "hmm_gamma"
    start = model.initial_point()
    assert (start["hmm_active"] == 1).all()
    assert all(np.isfinite(value) for value in model.point_logps(start).values())


def test_p_of_the_number():
    """Fails if the default is not shifted, or a distribution not truncated."""
    k = np.arange(1, 7)
    default = betaln(5.0, 3.0 + k - 1.0) - betaln(4.0, 3.0)
    given = stats.poisson(3.0).logpmf(k)
    array = [0.0, 0.1, 0.2, 0.3, 0.1, 0.3]
    for n_active, expected in (
        (None, np.exp(default)),
        (pm.Poisson.dist(3.0), np.exp(given)),
        (pm.DiscreteUniform.dist(2, 9), (k > 1).astype(float)),
        (array, np.array(array)),
    ):
        found = np.exp(log_p(mixture(6, n_active=n_active)))
        np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("concentration", ["dynamic", "static"])
def test_density_of_the_weights(concentration):
    """A weight that has underflowed stays active; one that is not active has no mass."""
    model = mixture(gamma=1.7, n_active=[0.1, 0.2, 0.3, 0.4], concentration=concentration)
    values = [model.rvs_to_values[model[name]] for name in ("hmm_active", "hmm_beta")]
    graphs = model.logp([model["hmm_active"], model["hmm_beta"]], sum=False)
    f = pytensor.function(values, graphs, mode="FAST_COMPILE")
    active, beta = np.array([1, 0, 1, 1]), np.array([0.2, 0.0, 0.5, 0.3])
    each = 1.7 if concentration == "static" else 1.7 / 3
    first, second = f(active, beta)
    assert first == pytest.approx(np.log(0.3 / 4))
    assert second == pytest.approx(stats.dirichlet.logpdf([0.2, 0.5, 0.3], [each] * 3))
    assert f(np.array([1, 1, 0, 1]), beta)[1] == -np.inf
    assert f(np.array([0, 0, 0, 0]), beta)[0] == -np.inf
    assert f(np.array([2, 0, 0, 1]), beta)[0] == -np.inf
    dropped = f(active, np.array([0.4, 0.0, 0.6, 0.0]))[1]
    rest = gammaln(3 * each) - 2 * gammaln(each) + (each - 1) * np.log(0.4 * 0.6)
    assert dropped == pytest.approx(rest)


def test_prior_draws():
    model = mixture(gamma=2.0, n_active=[0.1, 0.2, 0.3, 0.4])
    drawn = posterior({"posterior": pm.sample_prior_predictive(
        2_000, model=model, random_seed=1)["prior"]})  # fmt: skip
    active, beta, z = (drawn[name][0] for name in ("hmm_active", "hmm_beta", "z"))
    number = drawn["hmm_n_active"][0]
    assert (number == active.sum(axis=1)).all()
    seen = np.bincount(number, minlength=5)[1:]
    assert stats.chisquare(seen, 2_000 * np.array([0.1, 0.2, 0.3, 0.4])).pvalue > 1e-3
    assert (beta[active == 0] == 0.0).all()
    assert np.take_along_axis(active, z, axis=1).all()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_active": [0.5, 0.5]}, ValueError, r"n_active must have shape \(3,\).*shape \(2,\)"),
        ({"n_active": [0.5, 0.6, 0.1]}, ValueError, r"n_active must be .* sum to one.* 1\.2"),
        ({"n_active": [0.5, 0.5, 0.0]}, ValueError, "n_active gives probability 0 to 3 active"),
        ({"n_active": "many"}, TypeError, "n_active must be a distribution or 3 prob.*'many'"),
        ({"n_active": pm.Normal.dist()}, TypeError, "n_active must be a discrete distribution"),
        ({"n_active": pm.Poisson.dist(3, shape=2)}, TypeError, "n_active must be a discrete"),
        (
            {"n_active": pm.Poisson.dist(pm.Gamma.dist(1, 1))},
            ValueError,
            "n_active must be a distribution of given parameters",
        ),
        ({"concentration": "fixed"}, ValueError, "concentration must be one of.*'fixed'"),
        ({"weights": "weak-limit", "n_active": [1, 0, 0]}, ValueError, "n_active belongs to"),
        ({"weights": "weak-limit", "concentration": "static"}, ValueError, "concentration belongs"),
    ],
)
@pytest.mark.parametrize("kind", [dshdp.DSHDP, dshdp.StickyHDP, dshdp.HDP])
def test_refusals(kind, arguments, error, words):
    with pm.Model() as model:
        with pytest.raises(error, match=f"(?s)hmm: {words}"):
            kind("hmm", n_states=3, **{"weights": "finite-mixture", **arguments})
    assert not model.named_vars


def test_an_active_set_that_is_not_free_is_refused():
    changed = pm.do(mixture(3), {"hmm_active": np.array([1, 1, 0])})
    with pytest.raises(ValueError, match="must be free while their weights are"):
        find_transitions(changed)


def test_outside_dependents_are_refused():
    with counts_model() as model:
        pm.Potential("outside", -1.0 * model["hmm_n_active"])
        with pytest.raises(ValueError, match="'outside' depends on 'hmm_active'"):
            dshdp.WeakLimitFFBS([model["z"]])


def test_a_start_outside_the_active_states_is_refused_or_opened():
    """Starts of the sampler's own make the states that they visit active."""
    model = counts_model()
    start = model.initial_point()
    active = np.array([1, 0, 0, 1])
    closed = {**start, "hmm_active": active, "hmm_beta": active / 2}
    closed |= {"hmm_pi_bar": np.tile(active / 2, (4, 1)), "hmm_pi_init": active / 2}
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=3)
        wrong = {**closed, "z": np.ones(30, int)}
        with pytest.raises(ValueError, match="has probability 0: it cannot begin in state 1"):
            dshdp.WeakLimitFFBS([model["z"]], initial_point=wrong)
    sampler = step._priors[0]
    for opened in (
        sampler.start(closed, np.random.default_rng(1)),
        sampler.cross({**closed, "z": np.repeat([0, 3], 15)}, {"z": np.repeat([0, 1, 2], 10)}),
    ):
        visited = np.unique(opened["z"])
        assert len(visited) > 2 and (opened["hmm_active"][visited] == 1).all()
        assert opened["hmm_beta"].sum() == pytest.approx(1.0)
        new, _ = sampler.draw_transitions(opened, np.random.default_rng(1))
        assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(new))


def test_readers_and_runs_that_go_on():
    """Every reader of a result; align keeps the active states with their weights."""
    model = counts_model(known={0: 2}, n_active=pm.Poisson.dist(3.0))
    result = sample(model, draws=12, tune=55)
    drawn = posterior(result)
    active, beta = drawn["hmm_active"].astype(bool), drawn["hmm_beta"]
    assert (beta[~active] == 0.0).all()
    assert (drawn["hmm_n_active"] == active.sum(axis=-1)).all()
    assert np.take_along_axis(active, drawn["z"].astype(int), axis=-1).all()
    aligned = dshdp.align(result)
    moved = posterior(aligned)
    assert (moved["hmm_beta"][~moved["hmm_active"].astype(bool)] == 0.0).all()
    assert np.take_along_axis(moved["hmm_active"], moved["z"].astype(int), axis=-1).all()
    assert "hmm_n_active" in dshdp.label_invariant(result)
    found = dshdp.summary(aligned)
    assert "hmm_active" not in found.parameters.index.get_level_values("variable")
    assert found.active["probability"].sum() == pytest.approx(1.0)
    assert "Active states" in str(found)
    for read in (dshdp.smooth, dshdp.filter_states, dshdp.viterbi):
        read(aligned, model=model)
    dshdp.forecast(aligned, horizon=3, model=model)
    dshdp.transition_matrix(aligned)
    dshdp.check(aligned, model=model)
    ax = dshdp.plot_occupied(aligned, model=model)
    labels = [text.get_text() for text in ax.child_axes[0].get_legend().get_texts()]
    assert labels == ["prior", "active"]
    more = dshdp.continue_sampling(result, model=model, draws=5, progressbar=False, cores=1)
    assert posterior(more)["hmm_active"].shape[-1] == 4
