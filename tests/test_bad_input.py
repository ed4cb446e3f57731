"""Every refusal: the message has the argument, the value received and the way out."""

import re
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import COUNTS, needs_fork, poisson_model, prior_model, sample
from pymc.exceptions import SamplingError
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.step_methods.compound import BlockedStep

import pymc_dshdp as dshdp
from pymc_dshdp.transitions.found import find_transitions, refuse_outside_dependents

pytestmark = pytest.mark.usefixtures("python_mode")


def parts(*words):
    """Regular expression for words in this order."""
    return "(?s)" + ".*".join(re.escape(word) for word in words)


# -- the prior ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_states": 1}, ValueError, ["hmm", "n_states", "at least 2", "1"]),
        ({"n_states": -3}, ValueError, ["hmm", "n_states", "at least 2", "-3"]),
        ({"n_states": 3.0}, TypeError, ["hmm", "n_states", "integer", "3.0"]),
        ({"n_states": True}, TypeError, ["hmm", "n_states", "integer", "True"]),
        ({"n_states": "3"}, TypeError, ["hmm", "n_states", "integer", "'3'"]),
        ({}, ValueError, ["hmm", "exactly one of n_states", "dims", "None"]),
        (
            {"n_states": 3, "dims": "state"},
            ValueError,
            ["hmm", "exactly one of n_states", "dims", "n_states=3", "dims='state'"],
        ),
        ({"dims": "nowhere"}, ValueError, ["hmm", "dims='nowhere'", "coords=", "n_states"]),
        ({"dims": ("state",) * 2}, TypeError, ["hmm", "dims", "one dimension", "'state', "]),
        ({"dims": "single"}, ValueError, ["hmm", "'single'", "at least 2", "1"]),
        ({"dims": "clash"}, ValueError, ["hmm", "'clash_to'", "3 entries of 'clash'", "2"]),
    ],
)  # fmt: skip
def test_number_of_states(arguments, error, words):
    coords = {"state": range(3), "single": [0], "clash": range(3), "clash_to": range(2)}
    with pm.Model(coords=coords), pytest.raises(error, match=parts(*words)):
        dshdp.DSHDP("hmm", **arguments)


@pytest.mark.parametrize("name", ["", 3, None])
def test_name(name):
    with pm.Model(), pytest.raises(TypeError, match=parts("name", "string", repr(name))):
        dshdp.DSHDP(name, n_states=3)


@pytest.mark.parametrize("role", ["gamma", "alpha"])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.inf, np.nan])
def test_concentrations_out_of_range(role, value):
    words = parts(f"hmm: {role}", "positive and finite", f"{value:g}")
    with pm.Model(), pytest.raises(ValueError, match=words):
        dshdp.DSHDP("hmm", n_states=3, **{role: value})


@pytest.mark.parametrize(
    ("role", "value", "upper"),
    [("phi", 1.0, 1), ("phi", 0.0, 1), ("phi", -0.2, 1), ("phi", np.nan, 1)]
    + [("eta", 2.5, 2), ("eta", 2.0, 2), ("eta", 0.0, 2), ("eta", np.inf, 2)],
)
def test_persistence_hyperparameters_out_of_range(role, value, upper):
    words = parts(f"hmm: {role}", f"(0, {upper})", f"{value:g}")
    with pm.Model(), pytest.raises(ValueError, match=words):
        dshdp.DSHDP("hmm", n_states=3, **{role: value})


@pytest.mark.parametrize("role", ["gamma", "alpha", "phi", "eta"])
def test_hyperparameters_of_wrong_type_or_shape(role):
    with pm.Model() as model:
        with pytest.raises(TypeError, match=parts(f"hmm: {role}", "a number or a random", "'big'")):
            dshdp.DSHDP("hmm", n_states=3, **{role: "big"})
    with pm.Model():
        with pytest.raises(TypeError, match=parts(f"hmm: {role}", "a number or a random", "[1")):
            dshdp.DSHDP("hmm", n_states=3, **{role: [1.0, 2.0]})
    with model:
        vector = pm.Uniform("vector", 0.1, 0.9, shape=3)
        with pytest.raises(ValueError, match=parts(f": {role}", "scalar", "1 dimension")):
            dshdp.DSHDP("other", n_states=3, **{role: vector})


def test_unknown_arguments_and_weights():
    with pm.Model():
        with pytest.raises(TypeError, match="kappa0"):
            dshdp.DSHDP("hmm", n_states=3, kappa0=2.0)
    with pm.Model(), pytest.raises(ValueError, match=parts("weights", "weak-limit", "'sticky'")):
        dshdp.DSHDP("hmm", n_states=3, weights="sticky")


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"rho": (1.0, 2.0), "phi": 0.5}, "phi and rho"),
        ({"rho": (1.0, 2.0), "eta": 0.5}, "eta and rho"),
        ({"kappa": 0.5, "rho": (1.0, 2.0)}, "rho and kappa"),
        ({"kappa": 0.5, "eta": 0.5}, "eta and kappa"),
    ],
)
def test_persistence_is_given_in_one_way(arguments, received):
    words = parts("hmm", "kappa replaces rho", "rho replaces phi and eta", received)
    with pm.Model(), pytest.raises(ValueError, match=words):
        dshdp.DSHDP("hmm", n_states=3, **arguments)


@pytest.mark.parametrize(
    ("rho", "words"),
    [
        (1.0, ["rho", "pair", "1.0"]),
        ((1.0,), ["rho", "pair", "(1.0,)"]),
        ((1.0, -2.0), ["rho2", "positive and finite", "-2"]),
        ((0.0, 2.0), ["rho1", "positive and finite", "0"]),
        ((pt.vector("v"), 2.0), ["rho1", "scalar", "v"]),
    ],
)
def test_rho(rho, words):
    with pm.Model(), pytest.raises(ValueError, match=parts("hmm", *words)):
        dshdp.DSHDP("hmm", n_states=3, rho=rho)


@pytest.mark.parametrize(
    ("kappa", "words"),
    [
        (1.0, ["[0, 1)", "1."]),
        (-0.1, ["[0, 1)", "-0.1"]),
        (np.nan, ["[0, 1)", "nan"]),
        ([0.1, 0.2], ["shape (3,)", "shape (2,)"]),
        (np.full((3, 2), 0.1), ["shape (3,)", "(T, 3)", "shape (3, 2)"]),
        (pt.tensor4("m"), ["shape (3,)", "(T, 3)", "4 dimensions"]),
        (pt.constant([0.1, 0.2]), ["shape (3,)", "shape (2,)"]),
    ],
)
def test_kappa(kappa, words):
    with pm.Model(), pytest.raises(ValueError, match=parts("hmm: kappa", *words)):
        dshdp.DSHDP("hmm", n_states=3, kappa=kappa)


@pytest.mark.parametrize("role", ["alpha", "gamma"])
def test_expressions_of_random_variables(role):
    with pm.Model():
        log_x = pm.Normal("log_x")
        words = parts(f"hmm: {role}", "expression of random variables", f"declare {role} itself")
        with pytest.raises(ValueError, match=words):
            dshdp.DSHDP("hmm", n_states=3, **{role: pt.exp(log_x)})
        with pytest.raises(ValueError, match=words):
            dshdp.DSHDP("hmm", n_states=3, **{role: pm.Deterministic("x", pt.exp(log_x))})


@pytest.mark.parametrize(
    ("role", "build", "words"),
    [
        ("alpha", lambda: pm.Normal("x"), ["(0, inf)", "(-inf, inf)", "pm.Gamma"]),
        ("gamma", lambda: pm.Uniform("x", -1.0, 2.0), ["(0, inf)", "(-1, 2)", "pm.Gamma"]),
        ("eta", lambda: pm.HalfNormal("x"), ["(0, 2)", "inf)", "pm.Truncated"]),
        ("eta", lambda: pm.Uniform("x", 0.0, 3.0), ["(0, 2)", "3)", "pm.Truncated"]),
        ("phi", lambda: pm.Uniform("x", 0.0, 1.5), ["(0, 1)", "1.5)", "pm.Truncated"]),
        ("phi", lambda: pm.Gamma("x", 1.0, 1.0), ["(0, 1)", "inf)", "pm.Truncated"]),
    ],
)
def test_support_of_a_random_variable(role, build, words):
    with pm.Model():
        x = build()
        with pytest.raises(ValueError, match=parts(f"hmm: {role}='x'", "support", *words)):
            dshdp.DSHDP("hmm", n_states=3, **{role: x})


@pytest.mark.parametrize("role", ["alpha", "gamma"])
def test_discrete_random_variables(role):
    with pm.Model():
        x = pm.Poisson("x", 3.0)
        with pytest.raises(TypeError, match=parts("'x'", "continuous", "int64")):
            dshdp.DSHDP("hmm", n_states=3, **{role: x})


@pytest.mark.parametrize("role", ["alpha", "gamma", "phi", "eta"])
def test_a_variable_belongs_to_one_prior(role):
    with pm.Model():
        one = dshdp.DSHDP("one", n_states=3)
        words = parts(f"two: {role}='one_{role}'", "already belongs", "'one'", "its own variable")
        with pytest.raises(ValueError, match=words):
            dshdp.DSHDP("two", n_states=3, **{role: getattr(one, role)})


# -- the states ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, ["length=T", "lengths=[", "shape=", "dims="]),
        ({"length": 0}, ValueError, ["length", "at least 1", "0"]),
        ({"length": -2}, ValueError, ["length", "at least 1", "-2"]),
        ({"length": 2.5}, TypeError, ["length", "integer", "2.5"]),
        ({"length": True}, TypeError, ["length", "integer", "True"]),
        ({"length": np.nan}, TypeError, ["length", "integer", "nan"]),
        ({"length": "5"}, TypeError, ["length", "integer", "'5'"]),
        ({"length": pt.vector("n", dtype="int64")}, ValueError, ["length", "scalar", "n"]),
        ({"lengths": []}, ValueError, ["lengths", "empty", "[]"]),
        ({"lengths": [3, 0]}, ValueError, ["lengths", "at least 1", "0"]),
        ({"lengths": [3, 1.5]}, TypeError, ["lengths", "integer", "1.5"]),
        ({"lengths": [3, 3], "dims": "time"}, ValueError, ["lengths", "5 entries", "'time'", "6"]),
        ({"lengths": [5], "dims": ("trial", "time")}, ValueError, ["lengths", "one dimension"]),
        ({"shape": 5}, ValueError, ["shape", "(T,)", "5"]),
        ({"shape": (2, 3, 4)}, ValueError, ["shape", "(n_sequences, T)", "(2, 3, 4)"]),
        ({"shape": (2, 0)}, ValueError, ["shape", "at least 1", "0"]),
        ({"length": 5, "shape": (5,)}, ValueError, ["one of length", "length=5", "shape=(5,)"]),
        ({"length": 5, "lengths": [5]}, ValueError, ["one of length", "length=5", "lengths=[5]"]),
        ({"dims": "nowhere"}, ValueError, ["dims", "'nowhere'", "'time'", "coords"]),
        ({"dims": ("a", "b", "c")}, ValueError, ["dims", "'a'", "coords"]),
        ({"dims": ("trial", "time", "row")}, ValueError, ["one or two dimensions"]),
    ],
)  # fmt: skip
def test_layout_of_the_states(arguments, error, words):
    coords = {"time": range(5), "trial": range(2), "row": range(3)}
    with pm.Model(coords=coords):
        prior = dshdp.DSHDP("hmm", n_states=3)
        with pytest.raises(error, match=parts("z: ", *words)):
            dshdp.HiddenStates("z", prior, **arguments)


@pytest.mark.parametrize("prior", [None, "hmm", 3])
def test_states_need_a_prior(prior):
    with pm.Model(), pytest.raises(TypeError, match=parts("z: prior", "DSHDP(", repr(prior))):
        dshdp.HiddenStates("z", prior, length=5)


def test_states_of_a_prior_of_another_model():
    with pm.Model():
        prior = dshdp.DSHDP("hmm", n_states=3)
    with pm.Model(), pytest.raises(ValueError, match=parts("z: ", "'hmm'", "another model")):
        dshdp.HiddenStates("z", prior, length=5)


# -- the steps ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return poisson_model(n_states=3)


@pytest.mark.parametrize("step", [dshdp.WeakLimitFFBS, dshdp.GridRhoStep])
def test_steps_take_the_states(step, model):
    words = parts(step.__name__, "'rate_log__'", "HiddenStates", f"{step.__name__}([z])")
    with model, pytest.raises(ValueError, match=words):
        step([model["rate"]])


def test_all_states_of_a_prior_go_to_one_step():
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        za = dshdp.HiddenStates("za", prior, length=4)
        dshdp.HiddenStates("zb", prior, length=5)
        with pytest.raises(ValueError, match=parts("WeakLimitFFBS", "['zb']", "['za', 'zb']")):
            dshdp.WeakLimitFFBS([za], model=model)


@pytest.mark.parametrize("as_potential", [False, True], ids=["variable", "potential"])
@pytest.mark.parametrize("name", ["gamma", "alpha", "beta", "pi_bar", "pi_init"])
def test_outside_dependents_of_the_transition_block(name, as_potential):
    with prior_model() as model:
        add_dependent(model[f"hmm_{name}"], as_potential)
        words = parts("WeakLimitFFBS: 'outside' depends on", f"'hmm_{name}'", "Remove")
        with pytest.raises(ValueError, match=words):
            refuse(model, "transition_variables", "WeakLimitFFBS")


def test_a_mask_on_nonparametric_rows():
    """As a user would try it; whoever asks for one is told what has it."""
    mask = np.triu(np.ones((3, 3)))
    with pm.Model(), pytest.raises(ValueError, match="(?s)concentration belongs.*FixedTr"):
        dshdp.DSHDP("hmm", n_states=3, concentration=mask)
    with prior_model() as model:
        pm.Potential("mask", pt.switch(model["hmm_pi_bar"] > 0.1, 0.0, -np.inf).sum())
        words = parts("'mask' depends on 'hmm_pi_bar'", "(Transitions)", "(FixedTransitions)")
        with pytest.raises(ValueError, match=words):
            refuse(model, "transition_variables", "WeakLimitFFBS")


@pytest.mark.parametrize("as_potential", [False, True], ids=["variable", "potential"])
@pytest.mark.parametrize("name", ["phi", "eta", "kappa", "rho1"])
def test_outside_dependents_of_self_persistence(name, as_potential):
    with prior_model() as model:
        add_dependent(model[f"hmm_{name}"], as_potential)
        words = parts("GridRhoStep: 'outside' depends on", "'hmm_", "Remove")
        with pytest.raises(ValueError, match=words):
            dshdp.GridRhoStep([model["z"]])


def test_outside_dependents_of_sticks():
    with prior_model(weights="stick-breaking") as model:
        add_dependent(model["hmm_beta"], True)
        with pytest.raises(ValueError, match=parts("'outside' depends on 'hmm_v'", "Remove")):
            refuse(model, "transition_variables", "WeakLimitFFBS")


def test_outside_dependents_are_refused_by_the_states_step():
    with poisson_model(n_states=3) as model:
        pm.Potential("outside", -model["hmm_alpha"])
        with pytest.raises(ValueError, match=parts("WeakLimitFFBS: 'outside'", "'hmm_alpha'")):
            dshdp.WeakLimitFFBS([model["z"]])


def test_a_prior_of_another_variable_may_not_depend_on_alpha():
    with pm.Model() as model:
        one = dshdp.DSHDP("one", n_states=3)
        other = pm.Gamma("other", one.alpha, 1.0)
        two = dshdp.DSHDP("two", n_states=3, alpha=other)
        dshdp.HiddenStates("za", one, length=4)
        dshdp.HiddenStates("zb", two, length=4)
        with pytest.raises(ValueError, match=parts("'other' depends on 'one_alpha'")):
            refuse(model, "transition_variables", "WeakLimitFFBS")


def add_dependent(variable, as_potential):
    if as_potential:
        pm.Potential("outside", -pt.sum(variable))
    else:
        pm.Normal("outside", pt.sum(variable), 1.0)


def refuse(model, variables, step):
    for prior in find_transitions(model):
        refuse_outside_dependents(model, prior, getattr(prior, variables)(model), step)


@pytest.mark.parametrize("step", [dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs])
@pytest.mark.parametrize("name", ["hmm_v", "hmm_beta", "hmm_pi_bar", "hmm_pi_init"])
def test_observed_weights_or_rows(name, step):
    """Fails if sticks that were observed are taken for free ones."""
    model = prior_model(weights="stick-breaking" if name == "hmm_v" else "weak-limit")
    shape = model[name].eval().shape  # three states, or two sticks
    seen = pm.observe(model, {name: np.full(shape, 1.0 / shape[-1])})
    with seen, pytest.raises(ValueError, match=parts("'z'", "must be free", "pm.observe")):
        step([seen["z"]])


@pytest.mark.parametrize(
    "arguments",
    [{"kappa": 0.5}, {"kappa": [0.1, 0.2, 0.3]}],
    ids=["scalar", "vector"],
)
def test_nothing_to_sample_for_grid_rho(arguments):
    with prior_model(**arguments) as model:
        with pytest.raises(ValueError, match=parts("GridRhoStep", "'z'", "nothing to sample")):
            dshdp.GridRhoStep([model["z"]])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"grid": 30}, ValueError, ["grid", "pair", "30"]),
        ({"grid": (30,)}, ValueError, ["grid", "pair", "(30,)"]),
        ({"grid": (30, 1)}, ValueError, ["grid", "at least 2", "(30, 1)"]),
        ({"grid": (30.5, 3)}, ValueError, ["grid", "integers", "(30.5, 3)"]),
        ({"refine": 1}, TypeError, ["refine", "True or False", "1"]),
    ],
)
def test_arguments_of_grid_rho(arguments, error, words, model):
    with model, pytest.raises(error, match=parts(*words)):
        dshdp.GridRhoStep([model["z"]], **arguments)


def test_hidden_variables_of_fixed_rows(model):
    fixed = pm.do(model, {"hmm_pi_init": np.full(3, 1 / 3)})
    with fixed, pytest.raises(ValueError, match=parts("hmm_pi_init", "'z'", "undo the pm.do")):
        dshdp.WeakLimitFFBS([fixed["z"]])


@pytest.mark.parametrize("name", ["hmm_alpha", "hmm_gamma"])
def test_concentrations_under_another_step(name, model):
    words = parts("Slice", f"'{name}_log__'", "WeakLimitFFBS", "leave them out")
    with model:
        ours = dshdp.WeakLimitFFBS([model["z"]])
        for steps in ([ours, pm.Slice([model[name]])], [pm.Slice([model[name]]), ours]):
            with pytest.raises(ValueError, match=words):
                sample(model, step=steps, draws=1, tune=1, chains=1)


@pytest.mark.parametrize("build", [pm.NUTS, pm.Metropolis])
def test_concentrations_taken_from_the_automatic_choice(build, model):
    words = parts("WeakLimitFFBS", "'hmm_alpha_log__'", "another step", "leave them out")
    with model:
        other = build([model["hmm_alpha"]])
        with pytest.raises(ValueError, match=words):
            sample(model, step=other, draws=1, tune=1, chains=1)


def uniform_model(width, latest):
    """y[17] = latest under Uniform(0, width[z])."""
    data = np.where(np.arange(len(COUNTS)) == 17, latest, 0.5)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, length=len(data))
        if width is None:
            width = pm.HalfNormal("width", 3.0, shape=3)
        pm.Uniform("y", 0.0, pt.as_tensor(width)[z], observed=data)
    return model


def test_impossible_observation_names_the_time():
    model = uniform_model(None, 2.0)
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]])
    step.tune = False
    point = {**model.initial_point(), "width_log__": np.log([1.0, 1.5, 1.9])}
    with pytest.raises(SamplingError, match=parts("y", "z[17]", "-inf in every state", "check it")):
        step.step(point)


def test_an_infinite_count_is_told():
    """PyMC makes it an integer; fails if that number is all that the user reads."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=4)
        rate = pm.Gamma("rate", 1.0, 0.1, shape=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the cast
            pm.Poisson("y", rate[z], observed=[1.0, np.inf, 2.0, 3.0])
    with model, pytest.raises(ValueError, match=parts("what an infinite value becomes", "(1,)")):
        dshdp.WeakLimitFFBS([z])


def test_observation_impossible_everywhere_is_not_left_out():
    model = uniform_model([1.0, 2.0, 3.0], 50.0)
    with model, pytest.raises(SamplingError, match=parts("y", "z[17]", "-inf in every state")):
        dshdp.WeakLimitFFBS([model["z"]])


def test_observation_impossible_everywhere_stops_pm_sample():
    model = uniform_model([1.0, 2.0, 3.0], 50.0)
    with pytest.raises((SamplingError, ValueError), match="y"):
        sample(model, tune=0, draws=2)


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "is NaN for some state"), (np.inf, "is infinite for some state")],
)
def test_broken_density_names_the_time(value, words):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), shape=(2, 4))
        x = pm.Normal("x", shape=3)
        at = np.zeros((2, 4))
        at[1, 2] = 1.0
        wall = pt.switch(pt.and_(pt.gt(x[z], 50.0), pt.eq(at, 1.0)), value, x[z])
        pm.Potential("wall", wall)
        step = dshdp.WeakLimitFFBS([z])
    step.tune = False
    point = {**model.initial_point(), "x": np.array([0.0, 60.0, 0.0])}
    with pytest.raises(SamplingError, match=parts("wall", "z[(1, 2)]", words)):
        step.step(point)


class Jump(BlockedStep):
    """Puts a variable where the states have become impossible."""

    name = "jump"
    stats_dtypes_shapes = {}

    def __init__(self, vars, **kwargs):
        self.vars = vars

    def step(self, point):
        return {**point, "x": np.array(1.0)}, [{}]


@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=needs_fork)])
def test_impossible_observation_reaches_the_user(cores):
    """What pm.sample shows, from a worker too, has the time."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), lengths=[4, 4])
        x = pm.Normal("x", initval=0.0)
        late = np.where(np.arange(8) == 5, -np.inf, 0.0)
        mu = pt.as_tensor(np.array([0.0, 0.5, 1.0]))[z]
        pm.Potential("wall", pt.switch(x > 0.5, late, 0.0) + mu)
        steps = [Jump([model.rvs_to_values[x]]), dshdp.WeakLimitFFBS([z])]
    with pytest.raises(Exception, match=parts("wall", "z[5]", "-inf in every state")):
        sample(
            model, step=steps, cores=cores, mp_ctx="fork" if cores > 1 else None, tune=0, draws=2
        )


def test_a_model_whose_variables_have_lost_their_prior():
    """Frozen models: nothing but NUTS' own AttributeError said so."""
    frozen = freeze_dims_and_data(poisson_model())
    with pytest.raises(ValueError, match=parts("'z' has lost", "freeze_dims_and_data", "use the")):
        dshdp.WeakLimitFFBS([frozen["z"]], model=frozen)
    with pytest.raises(ValueError, match=parts("'z' has lost", "freeze_dims_and_data", "use the")):
        sample(frozen)


@pytest.mark.parametrize("lengths", [{"length": 11}, {"lengths": [6, 5]}, {"shape": (11,)}])
def test_lengths_of_other_data_as_pm_sample_meets_them(lengths):
    """Fails if PyTensor's message about Elemwise comes first, for any way to say the length."""
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), **lengths)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=3)
        pm.Poisson("y", rate[z], observed=np.ones(12, int))
        words = ["'y' has data of shape (12,)", "'z'", "(11,)", "length", "HiddenStates"]
        with pytest.raises(ValueError, match=parts(*words)):
            pm.sample()


def test_a_density_built_in_the_context_of_another_model():
    """Fails if the states of one model are looked for among the data of another."""
    model = poisson_model()
    with pm.Model():
        pm.Normal("x", 0.0, 1.0)
        assert np.isfinite(model.compile_logp()(model.initial_point()))
