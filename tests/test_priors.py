import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from models import COUNTS, FAST, evaluate, poisson_model, prior_model
from pymc.model.fgraph import clone_model
from pymc.model_graph import ModelGraph
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp.graph.path import storage_dtypes
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.walks import role_of
from pymc_dshdp.transitions import find_transitions

HYPERPARAMETERS = {"hmm_gamma", "hmm_alpha", "hmm_phi", "hmm_eta", "hmm_kappa"}
ROWS = {"hmm_pi_bar", "hmm_pi_init"}
DIMS = {
    "hmm_gamma": (),
    "hmm_alpha": (),
    "hmm_phi": (),
    "hmm_eta": (),
    "hmm_rho1": (),
    "hmm_rho2": (),
    "hmm_kappa": ("hmm_state",),
    "hmm_beta": ("hmm_state",),
    "hmm_pi_bar": ("hmm_state", "hmm_state_to"),
    "hmm_pi_init": ("hmm_state",),
}


def names(variables):
    return {v.name for v in variables}


def log_density(rv, x):
    [value] = evaluate([pm.logp(rv, x)])
    return value


def test_declares_the_documented_variables_and_dims():
    model = prior_model(n_states=5)
    assert names(model.free_RVs) == HYPERPARAMETERS | ROWS | {"hmm_beta", "z"}
    assert names(model.deterministics) == {"hmm_rho1", "hmm_rho2"}
    for name, dims in DIMS.items():
        assert tuple(model.named_vars_to_dims.get(name) or ()) == dims, name
    assert list(model.coords["hmm_state"]) == list(model.coords["hmm_state_to"]) == [0, 1, 2, 3, 4]


def test_stick_breaking_declares_fractions():
    model = prior_model(n_states=4, weights="stick-breaking")
    assert names(model.free_RVs) == HYPERPARAMETERS | ROWS | {"hmm_v", "z"}
    assert names(model.deterministics) == {"hmm_rho1", "hmm_rho2", "hmm_beta"}
    assert model.initial_point()["hmm_v_logodds__"].shape == (3,)
    assert len(model.coords["hmm_state_stick"]) == 3
    v = np.array([0.2, 0.5, 0.9])
    [beta] = evaluate([model["hmm_beta"]], {model["hmm_v"]: v})
    np.testing.assert_allclose(beta, [0.2, 0.8 * 0.5, 0.4 * 0.9, 0.4 * 0.1])


def test_own_coordinate_names_the_states():
    with pm.Model(coords={"mood": ["calm", "angry", "sad"]}) as model:
        prior = dshdp.DSHDP("hmm", dims="mood")
    assert prior.n_states == 3 and prior.dims == ("mood", "mood_to")
    assert list(model.coords["mood_to"]) == ["calm", "angry", "sad"]
    assert tuple(model.named_vars_to_dims["hmm_pi_bar"]) == ("mood", "mood_to")
    start = model.initial_point()
    assert start["hmm_pi_bar"].shape == (3, 3) and start["hmm_kappa_logodds__"].shape == (3,)


def test_default_hyperpriors_are_the_papers():
    model = prior_model()
    for name, law, x in [
        ("hmm_gamma", stats.gamma(2.0, scale=1.0), 1.7),
        ("hmm_alpha", stats.gamma(1.0, scale=100.0), 80.0),
        ("hmm_phi", stats.uniform(0.0, 1.0), 0.3),
        ("hmm_eta", stats.uniform(0.0, 2.0), 1.9),
    ]:
        assert log_density(model[name], x) == pytest.approx(law.logpdf(x)), name
    phi, eta = 0.3, 0.7
    rho = evaluate(
        [model["hmm_rho1"], model["hmm_rho2"]], {model["hmm_phi"]: phi, model["hmm_eta"]: eta}
    )
    np.testing.assert_allclose(rho, [phi * eta**-3, (1 - phi) * eta**-3])


@pytest.mark.parametrize("weights", ["weak-limit", "stick-breaking"])
def test_numbers_fix_hyperparameters(weights):
    model = prior_model(gamma=2, alpha=np.float32(5.0), phi=0.9, eta=0.5, weights=weights)
    assert not names(model.free_RVs) & {"hmm_gamma", "hmm_alpha", "hmm_phi", "hmm_eta"}
    [prior] = find_transitions(model)
    values = evaluate([prior.gamma, prior.alpha, prior.phi, prior.eta])
    np.testing.assert_allclose(values, [2.0, 5.0, 0.9, 0.5])


@pytest.mark.parametrize("role", ["gamma", "alpha", "phi", "eta"])
def test_a_random_variable_is_adopted_under_its_own_name(role):
    with pm.Model() as model:
        mine = pm.Uniform("mine", 0.1, 0.9)
        prior = dshdp.DSHDP("hmm", n_states=3, **{role: mine})
        dshdp.HiddenStates("z", prior, length=5)
    assert getattr(prior, role) is mine
    assert f"hmm_{role}" not in model.named_vars
    assert role_of(mine) == role
    [found] = find_transitions(model)
    assert getattr(found, role) is mine


def test_rho_pair_of_numbers_and_of_random_variables():
    with pm.Model() as model:
        rho1 = pm.Exponential("rho1", 1.0)
        prior = dshdp.DSHDP("hmm", n_states=3, rho=(rho1, 2.0))
        dshdp.HiddenStates("z", prior, length=5)
    assert names(model.free_RVs) == {
        "rho1", "hmm_gamma", "hmm_alpha", "hmm_kappa", "hmm_beta", "hmm_pi_bar", "hmm_pi_init", "z"
    }  # fmt: skip
    x = np.array([0.1, 0.5, 0.7])
    [logp] = evaluate([pm.logp(prior.kappa, x)], {rho1: 3.0})
    np.testing.assert_allclose(logp, stats.beta(3.0, 2.0).logpdf(x))
    [found] = find_transitions(model)
    assert names(found.persistence_variables(model)) == {"hmm_kappa"}


@pytest.mark.parametrize("kappa", [0.0, 0.9, [0.1, 0.5, 0.999]])
def test_kappa_of_numbers(kappa):
    model = prior_model(kappa=kappa)
    assert not names(model.free_RVs) & {"hmm_phi", "hmm_eta", "hmm_kappa"}
    [prior] = find_transitions(model)
    [value] = evaluate([prior.kappa])
    np.testing.assert_allclose(value, np.broadcast_to(kappa, 3))
    assert prior.persistence_variables(model) == []


def test_kappa_of_random_variables():
    with pm.Model() as model:
        own = pm.Beta("own", 9.0, 1.0, shape=3)
        dshdp.HiddenStates("za", dshdp.DSHDP("a", n_states=3, kappa=own), length=5)
        shared = pm.Beta("shared", 9.0, 1.0)
        dshdp.HiddenStates("zb", dshdp.DSHDP("b", n_states=3, kappa=shared), length=5)
        joint = pm.Deterministic("joint", own * 0.5)
        dshdp.HiddenStates("zc", dshdp.DSHDP("c", n_states=3, kappa=joint), length=5)
    a, b, c = find_transitions(model)
    assert a.persistence_variables(model) == [own]
    assert b.persistence_variables(model) == [] and c.persistence_variables(model) == []
    [value] = evaluate([b.kappa], {shared: 0.25})
    np.testing.assert_allclose(value, [0.25] * 3)


def test_arithmetic_on_the_states_does_not_wrap_around():
    """Fails if they are int8: 43 * 3 is then -127, a legal index from the end, 12 ** 2 is -112."""
    path = np.array([12, 43, 49])
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=50), length=3)
    found = evaluate([z * 3, z**2, z + z, (z - 49) * 10**9], {z: path})
    wanted = [path * 3, path**2, path + path, (path - 49) * 10**9]
    np.testing.assert_array_equal(found, wanted)
    assert z.dtype == model.rvs_to_values[z].dtype == "int64"


@pytest.mark.parametrize(("n_states", "dtype"), [(2, "int8"), (128, "int8"), (129, "int16")])
def test_states_are_stored_in_the_smallest_dtype(n_states, dtype):
    with pm.Model() as model:
        dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=n_states), length=3)
    assert storage_dtypes(model) == {"z": dtype}


@pytest.mark.parametrize("other", [{"length": 5}, {"shape": (5,)}])
def test_dims_say_how_long_the_states_are(other):
    """Fails if a length beside ``dims`` is taken, and labelled with all 107 years."""
    with pm.Model(coords={"year": range(107)}):
        prior = dshdp.DSHDP("hmm", n_states=3)
        with pytest.raises(ValueError, match=r"z: give one of length, .*dims='year'"):
            dshdp.HiddenStates("z", prior, dims="year", **other)


def test_layouts_of_the_states():
    with pm.Model(coords={"trial": range(2), "time": range(5), "row": range(7)}) as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        dshdp.HiddenStates("plain", prior, length=5)
        dshdp.HiddenStates("ragged", prior, lengths=[3, 4])
        dshdp.HiddenStates("rows", prior, lengths=np.array([2, 5]), dims="row")
        dshdp.HiddenStates("batch", prior, shape=(4, 6))
        dshdp.HiddenStates("trials", prior, dims=("trial", "time"))
        dshdp.HiddenStates("line", prior, dims="time")
    expected = {
        "plain": ((5,), [5]),
        "ragged": ((7,), [3, 4]),
        "rows": ((7,), [2, 5]),
        "batch": ((4, 6), [6] * 4),
        "trials": ((2, 5), [5, 5]),
        "line": ((5,), [5]),
    }
    start = model.initial_point()
    for name, (shape, lengths) in expected.items():
        assert start[name].shape == shape, name
        np.testing.assert_array_equal(model[f"{name}_lengths"].get_value(), lengths)
    assert tuple(model.named_vars_to_dims["trials"]) == ("trial", "time")
    assert tuple(model.named_vars_to_dims["rows"]) == ("row",)


def test_lengths_are_constant_data_of_the_result():
    model = poisson_model(layout={"lengths": [10, 20]})
    draws = pm.sample_prior_predictive(5, model=model, random_seed=1, compile_kwargs=dict(FAST))
    np.testing.assert_array_equal(draws["constant_data"]["z_lengths"].values, [10, 20])


def test_length_may_follow_the_data():
    with pm.Model() as model:
        y = pm.Data("y", COUNTS)
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, length=y.shape[0])
        rate = pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=y, shape=y.shape)
    assert model.initial_point()["z"].shape == COUNTS.shape
    with model:
        pm.set_data({"y": COUNTS[:11]})
    assert model.initial_point()["z"].shape == (11,)


def test_two_priors_and_two_states_of_one():
    with pm.Model() as model:
        one = dshdp.DSHDP("one", n_states=3)
        two = dshdp.DSHDP("two", n_states=4)
        za = dshdp.HiddenStates("za", one, length=5)
        zb = dshdp.HiddenStates("zb", two, length=6)
        zc = dshdp.HiddenStates("zc", one, length=7)
    first, second = find_transitions(model)
    assert first.states == [za, zc] and second.states == [zb]
    assert (first.n_states, second.n_states) == (3, 4)


def test_graph_of_the_model_can_be_drawn():
    graph = ModelGraph(poisson_model())
    edges = {child: set(parents) for child, parents in graph.make_compute_graph().items()}
    assert edges["z"] == {"hmm_pi_init", "hmm_pi_bar", "hmm_kappa"} | (edges["z"] & {"z_lengths"})
    assert edges["hmm_pi_bar"] == {"hmm_alpha", "hmm_beta"}
    assert edges["hmm_beta"] == {"hmm_gamma"}
    assert edges["hmm_kappa"] == {"hmm_phi", "hmm_eta"}
    plates = {
        variable.var.name: dict(
            plate.dim_info.as_dict() if hasattr(plate.dim_info, "as_dict") else {}
        )
        for plate in graph.get_plates()
        for variable in plate.variables
    }
    assert set(plates) >= {"hmm_pi_bar", "z", "counts", "hmm_rho1"}


@pytest.mark.parametrize("weights", ["weak-limit", "stick-breaking"])
def test_point_logps_are_finite(weights):
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        logps = poisson_model(weights=weights).point_logps()
    assert set(logps) >= HYPERPARAMETERS | {"z", "counts"}
    assert all(np.isfinite(value) for value in logps.values()), logps


def test_clones_and_pickles_carry_the_roles():
    model = poisson_model()
    for copy in (clone_model(model), cloudpickle.loads(cloudpickle.dumps(model))):
        [prior] = find_transitions(copy)
        assert prior.states == [copy["z"]] and prior.gamma is copy["hmm_gamma"]
        assert {role_of(rv) for rv in copy.free_RVs} >= {"alpha", "gamma", "phi", "eta", "kappa"}
        assert prior.persistence_variables(copy) == [
            copy["hmm_phi"], copy["hmm_eta"], copy["hmm_kappa"]
        ]  # fmt: skip


@pytest.mark.parametrize("intervene", [pm.do, pm.observe])
def test_hyperparameters_may_be_intervened_upon_or_observed(intervene):
    model = poisson_model()
    values = {"hmm_alpha": 3.0, "hmm_gamma": 2.0, "hmm_phi": 0.8, "hmm_eta": 0.5}
    changed = intervene(model, values)
    [prior] = find_transitions(changed)
    assert names(prior.transition_variables(changed)) == {"hmm_beta"} | ROWS
    assert names(prior.persistence_variables(changed)) == {"hmm_kappa"}
    with changed:
        step = dshdp.WeakLimitFFBS([changed["z"]])
        rho = dshdp.GridRhoStep([changed["z"]])
    point = changed.initial_point()
    new, _ = rho.step(step.step(point)[0])
    assert set(new) == set(point)


def test_kappa_may_be_intervened_upon():
    changed = pm.do(poisson_model(n_states=3), {"hmm_kappa": np.array([0.5, 0.6, 0.7])})
    [prior] = find_transitions(changed)
    assert prior.persistence_variables(changed) == []
    with changed:
        step = dshdp.WeakLimitFFBS([changed["z"]])
    assert np.isfinite(
        step._priors[0].transition.transition_probabilities(changed.initial_point())[1]
    ).all()


def test_values_of_a_point_are_not_cut_off():
    """Fails if a value is put into the type of its variable whatever it loses."""
    count, size = pt.lscalar("count"), pt.fscalar("size")
    call = point_function([2 * count, size + 1.0])
    assert [float(x) for x in call({"count": 3, "size": np.float64(0.5)})] == [6.0, 1.5]
    with pytest.raises(TypeError, match="cast"):
        call({"count": 2.5, "size": 0.5})
    with pytest.raises(TypeError, match="cast"):
        point_function([count])({"count": 2.5})


def test_a_value_of_a_point_is_returned_as_a_new_array():
    """Fails if changing what a function returned changes the point."""
    x = pt.vector("x")
    point = {"x": np.arange(3.0)}
    [value] = point_function([x])(point)
    value[0] = 7.0
    np.testing.assert_array_equal(point["x"], np.arange(3.0))
