"""Transition matrices that the user writes, and zeros in them."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import COUNTS, evaluate, posterior_of, sample
from pytensor.gradient import grad
from reference import assert_frequencies, monte_carlo_error
from scipy import special, stats

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, make_result
from pymc_dshdp.analysis.transition_table import _stationary
from pymc_dshdp.distributions import HiddenPath
from pymc_dshdp.transitions.found import find_transitions
from pymc_dshdp.transitions.matrices import stationary_distribution
from pymc_dshdp.transitions.update import TransitionReader

Y = np.array([0.3, 0.8, 1.9, -0.4, -0.9, 0.1])
MEANS = np.array([-0.5, 1.0, 0.2])
INDEX = np.array([1, 0, 1, 1, 0, 1])
LENGTHS = [4, 2]
rng = np.random.default_rng(3)
ROWS = rng.dirichlet(np.ones(3), size=(2, 3))
ROWS[0, 0], ROWS[1, 2], ROWS[1, 0] = [0.0, 0.3, 0.7], [0.0, 0.0, 1.0], [0.6, 0.4, 0.0]
PATHS = np.array(list(itertools.product(range(3), repeat=6)))


def normal_model(P=ROWS, layout=None, y=Y, index=INDEX, data=None, **kwargs):
    """Gaussian observations of known means; ``index`` is pm.Data."""
    with pm.Model() as model:
        if callable(P):
            P = P()
        if index is not None:
            index = pm.Data("index", index)
        prior = dshdp.Transitions("hmm", P, index=index, **kwargs)
        z = dshdp.HiddenStates("z", prior, **(layout or {"lengths": LENGTHS}))
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=y)
    return model


def varying_model():
    """Self-persistence given as it is, with a row for each time."""
    with pm.Model() as model:
        kappa = np.linspace(0.1, 0.9, 18).reshape(6, 3)
        prior = dshdp.DSHDP("hmm", n_states=3, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, length=6)
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
    return model


@pytest.mark.parametrize("build", [normal_model, varying_model])
def test_kernels_are_compiled_once(quick, build):
    """Fails if constants and data come read-only: kernels would be compiled for these too."""
    model = build()
    [prior] = find_transitions(model)
    pi_init, transitions = TransitionReader(model, prior)(model.initial_point(0), (6,))
    for array in (pi_init, transitions.kappa_logit, transitions.pi_bar, transitions.indices):
        assert array.flags.writeable and array.flags.c_contiguous
        assert array.dtype in ("float64", "int64")


def path_law(P, initial, index=INDEX):
    out = initial[PATHS[:, 0]] * initial[PATHS[:, 4]]
    for t in (1, 2, 3, 5):
        out = out * P[index[t], PATHS[:, t - 1], PATHS[:, t]]
    return out * np.exp(stats.norm(MEANS[PATHS], 1.0).logpdf(Y).sum(axis=1))


@pytest.mark.parametrize("each", [False, True], ids=["index", "one-for-each-time"])
def test_states_follow_the_enumerated_law(quick, each):
    initial = np.array([0.7, 0.3, 0.0])
    given = {"P": ROWS[INDEX], "index": None} if each else {}
    model = normal_model(initial=initial, **given)
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(3))
    step.stop_tuning()
    law = path_law(ROWS, initial)
    point, seen = model.initial_point(), np.zeros(len(PATHS))
    for _ in range(4000):
        point, _ = step.step(point)
        seen[point["z"] @ 3 ** np.arange(5, -1, -1)] += 1
    assert_frequencies(seen, law / law.sum())


# -- the log-density -------------------------------------------------------------------------------


def softmax_rows(x):
    return pm.math.softmax(x, axis=-1)


FORMS = {  # shape of logits, index, layout of the states, initial
    "one": ((3, 3), None, (6,), None),
    "stationary": ((3, 3), None, (6,), "stationary"),
    "index": ((2, 3, 3), INDEX, (6,), None),
    "index by sequence": ((2, 3, 3), np.array([INDEX, 1 - INDEX]), (2, 6), None),
    "one index for a batch": ((2, 3, 3), INDEX, (2, 6), None),
    "each": ((6, 3, 3), None, (6,), None),
    "each of a batch": ((2, 6, 3, 3), None, (2, 6), None),
}


@pytest.mark.parametrize("form", FORMS)
def test_log_density_and_its_gradient(form):
    """Against sums over the path, and finite differences."""
    shape, index, layout, initial = FORMS[form]
    values = np.random.default_rng(5).normal(size=shape)
    path = np.random.default_rng(6).integers(3, size=layout)
    with pm.Model() as model:
        logits = pm.Normal("logits", shape=shape)
        prior = dshdp.Transitions("hmm", softmax_rows(logits), index=index, initial=initial)
        z = dshdp.HiddenStates("z", prior, shape=layout)
    inputs = {model.rvs_to_values[logits]: values, model.rvs_to_values[z]: path}
    logp = model.logp(vars=[z])
    slope = grad(logp, model.rvs_to_values[logits])

    def direct(values):
        P = special.softmax(values, axis=-1)
        total = 0.0
        start = np.full(3, 1 / 3)
        if initial:
            vectors = np.linalg.eig(P.T)
            start = np.real(vectors[1][:, np.argmax(np.real(vectors[0]))])
            start = start / start.sum()
        for n, row in enumerate(np.atleast_2d(path)):
            total += np.log(start[row[0]])
            for t in range(1, 6):
                at = P
                if index is not None:
                    at = P[np.broadcast_to(index, np.atleast_2d(path).shape)[n, t]]
                elif len(shape) > 2:
                    at = P.reshape(-1, 6, 3, 3)[n, t]
                total += np.log(at[row[t - 1], row[t]])
        return total

    found, gradient = evaluate([logp, slope], inputs)
    assert found == pytest.approx(direct(values))
    assert gradient.shape == shape
    for at in itertools.islice(np.ndindex(shape), 0, None, 4):
        up, down = values.copy(), values.copy()
        up[at] += 1e-5
        down[at] -= 1e-5
        expected = (direct(up) - direct(down)) / 2e-5
        assert gradient[at] == pytest.approx(expected, abs=1e-7)


def test_a_forbidden_transition_has_no_density_and_no_gradient():
    rows = pt.dtensor3("rows")
    path = np.array([0, 1, 2, 2, 1, 0])
    z = HiddenPath.dist(np.full(3, 1 / 3), rows, np.zeros(3), [6], index=INDEX)
    logp = pm.logp(z, path)
    found, slope = evaluate([logp, grad(logp, rows)], {rows: ROWS})
    visited = np.zeros((2, 3, 3), bool)
    visited[INDEX[1:], path[:-1], path[1:]] = True
    np.testing.assert_array_equal(slope != 0.0, visited)
    assert np.isfinite(slope).all() and np.isfinite(found)
    [found] = evaluate([pm.logp(z, np.array([0, 0, 0, 2, 1, 0]))], {rows: ROWS})
    assert found == -np.inf


def test_rows_that_are_no_probabilities_have_no_density():
    """As those of ``expm`` far out, whose entries may be finite where the path goes."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=3, initval=[0.5, 0.5, 0.6])
        P = pt.stack([pt.stack([x[0], x[1]]), pt.stack([0.4, x[2]])])
        z = dshdp.HiddenStates("z", dshdp.Transitions("hmm", P), length=4)
    logp, inputs = model.logp(vars=[z]), [model.rvs_to_values[v] for v in (x, z)]
    slope = grad(logp, inputs[0])

    def at(values):
        return evaluate([logp, slope], dict(zip(inputs, (values, np.zeros(4, int)), strict=True)))

    found, gradient = at(np.array([0.3, 0.7, 0.6]))
    assert found == pytest.approx(np.log(0.5) + 3.0 * np.log(0.3))
    np.testing.assert_allclose(gradient, [10.0, 0.0, 0.0])
    for wrong in ([0.3, np.inf, 0.6], [0.3, 0.7, 0.7], [0.3, 0.8, 0.6], [0.3, 0.7, np.nan],
                  [1.5, -0.5, 0.6]):  # fmt: skip
        assert at(np.array(wrong))[0] == -np.inf


def test_stationary_distribution():
    P = special.softmax(np.random.default_rng(1).normal(size=(4, 4)), axis=-1)
    [pi] = evaluate([stationary_distribution(pt.as_tensor(P))])
    np.testing.assert_allclose(pi @ P, pi, rtol=1e-12)
    assert pi.sum() == pytest.approx(1.0)


def one_parameter():
    a = pm.Normal("a", 0.0, 1.5)
    stay = pm.math.invlogit(a)
    return pt.stack([pt.stack([stay, 1.0 - stay]), pt.stack([1.0 - stay, stay])])


@pytest.mark.slow
def test_parameters_agree_with_a_grid():
    """A parameter of P by NUTS, the states by our step, against its marginal posterior."""
    model = normal_model(one_parameter, index=None, initial="stationary")
    idata = sample(model, draws=4000, tune=1000, chains=2, random_seed=4)
    paths = np.array(list(itertools.product(range(2), repeat=6)))
    grid = np.linspace(-7.0, 7.0, 400)
    density = np.exp(-0.5 * (grid / 1.5) ** 2)
    stay = special.expit(grid)
    total = 0.0
    for path in paths:
        p = 0.25 * np.exp(stats.norm(MEANS[path], 1.0).logpdf(Y).sum()) * np.ones(len(grid))
        for t in (1, 2, 3, 5):
            p = p * np.where(path[t] == path[t - 1], stay, 1.0 - stay)
        total = total + p
    density *= total
    density /= density.sum()
    chains = group(idata, "posterior")["a"].values
    for power in (1, 2):
        error = np.hypot(*(monte_carlo_error(c**power) for c in chains)) / 2
        assert abs((chains**power).mean() - (density * grid**power).sum()) < 4.5 * error


# -- readers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seasons():
    """Draws of two matrices, as if they were a posterior, and their model."""
    model = normal_model(lambda: pm.Dirichlet("P", np.ones((2, 3, 3))), initial=[0.7, 0.2, 0.1])
    return model, posterior_of(model, draws=3)


def log_evidence(y, P, index, initial=(0.7, 0.2, 0.1)):
    ell = stats.norm(MEANS, 1.0).logpdf(y[:, None])
    weights = np.log(initial) + ell[0]
    for t in range(1, len(y)):
        weights = special.logsumexp(weights[:, None] + np.log(P[index[t]]), axis=0) + ell[t]
    return special.logsumexp(weights)


def test_other_data_need_their_index(seasons):
    """By name; fails if the index of the model's own times stands for that of others."""
    model, idata = seasons
    y, index = np.array([0.2, 1.4, -0.3, 0.9, 0.1]), np.array([0, 0, 1, 1, 0])
    found = dshdp.held_out_log_likelihood(
        idata, model=model, observed={"y": y, "index": index}, lengths=[5]
    )
    P = idata["posterior"]["P"].values[0]
    expected = [log_evidence(y, each, index) for each in P]
    np.testing.assert_allclose(found["total"].values[0], expected)
    with pytest.raises(ValueError, match=r"'index'"):
        dshdp.held_out_log_likelihood(idata, model=model, observed={"y": y}, lengths=[5])
    with pytest.raises(ValueError, match="transition matrices must be 0 to 1, rec.* 2"):
        dshdp.smooth(idata, model=model, observed={"y": y, "index": index + 1}, lengths=[5])


def test_paths_and_probabilities(seasons):
    """Smoothed, filtered and decoded against sums over the paths."""
    model, idata = seasons
    initial = np.array([0.7, 0.2, 0.1])
    laws = np.array([path_law(P, initial) for P in idata["posterior"]["P"].values[0]])
    smoothed, shares = dshdp.smooth(idata, model=model), laws / laws.sum(axis=1, keepdims=True)
    for t, k in np.ndindex(6, 3):
        expected = shares[:, PATHS[:, t] == k].sum(axis=1).mean()
        assert smoothed.values[t, k] == pytest.approx(expected)
    best = np.unravel_index(laws.argmax(), laws.shape)
    np.testing.assert_array_equal(dshdp.viterbi(idata, model=model), PATHS[best[1]])
    filtered = dshdp.filter_states(idata, model=model, pointwise=True)
    total = filtered["log_predictive"].values[0].sum(axis=1)
    np.testing.assert_allclose(total, np.log(laws.sum(axis=1)))


def test_forecast_follows_the_index_of_the_future():
    """Fails if the matrix of the last time goes on."""
    cycle = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    model = normal_model(np.array([cycle, np.eye(3)]), layout={"length": 6})
    idata = posterior_of(model, draws=3)
    ahead = np.array([1, 0, 0, 1, 0])
    found = dshdp.forecast(
        idata, model=model, horizon=5, covariates={"index": ahead}, random_seed=1
    )
    last = idata["posterior"]["z"].values[0, :, -1]
    expected = (last[:, None] + np.cumsum(ahead == 0)) % 3
    np.testing.assert_array_equal(found["z"].values[0], expected)
    with pytest.raises(ValueError, match="index"):
        dshdp.forecast(idata, model=model, horizon=5)


def test_alignment_permutes_both_axes(seasons):
    _, idata = seasons
    before = idata["posterior"]
    with pytest.warns(UserWarning, match=r"have no name: P \(P_dim_1\)"):
        after = group(dshdp.align(make_result(idata)), "posterior")
    z = before["z"].values[0]
    for s in range(len(z)):
        number = np.full(3, -1)
        number[z[s]] = after["z"].values[0, s]
        seen = np.flatnonzero(number >= 0)
        P, Q = before["hmm_P"].values[0, s], after["hmm_P"].values[0, s]
        np.testing.assert_array_equal(
            P[:, seen][:, :, seen], Q[:, number[seen]][:, :, number[seen]]
        )


def test_tables_are_of_the_average_over_time(seasons):
    """With the eigenvectors of it; where there are several, and states that are left for ever."""
    _, idata = seasons
    P = idata["posterior"]["hmm_P"].values[0]
    with pytest.warns(UserWarning, match="have no name"):
        table = dshdp.transition_matrix(make_result(idata), prob=0.5)
    mean = table.draws.values[0]
    for pi, matrix in zip(_stationary(mean), mean, strict=True):
        np.testing.assert_allclose(pi @ matrix, pi)
    assert "expected dwell" in str(table) and 0.0 < table.states["stationary"].sum() <= 1.0
    absorbing = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    ends = np.array([absorbing, CYCLE, np.full((3, 3), 1 / 3)])
    expected = [[np.nan] * 3, [0.0, 0.0, 1.0], [1 / 3] * 3]
    np.testing.assert_allclose(_stationary(ends), expected, atol=1e-15)
    np.testing.assert_allclose(idata["posterior"]["hmm_P_mean"].values[0], P[:, INDEX].mean(axis=1))


def test_stationary_shares_of_states_that_are_hardly_left():
    """Fails if I - P is solved: its difference from a singular matrix is below the rounding."""
    pair = np.array([[1.0, 1e-17], [3e-17, 1.0]])  # pi_0 1e-17 = pi_1 3e-17
    np.testing.assert_allclose(_stationary(pair[None]), [[0.75, 0.25]], rtol=1e-14)
    three = np.zeros((3, 3))
    three[:2, :2], three[2] = pair, [0.3, 0.3, 0.4]  # the last is left for ever
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        found = _stationary(three[np.ix_(order, order)][None])
        np.testing.assert_allclose(found, [np.array([0.75, 0.25, 0.0])[order]], rtol=1e-14)
    many = np.random.default_rng(0).dirichlet(np.ones(4), (300, 4))
    pi = _stationary(many)
    np.testing.assert_allclose(np.einsum("si,sij->sj", pi, many), pi, rtol=1e-13)


# -- bad input -------------------------------------------------------------------------------------

GOOD = np.full((2, 3, 3), 1 / 3)
UNEVEN = GOOD.copy()
UNEVEN[1, 2, 0] += 0.05
NEGATIVE = GOOD.copy()
NEGATIVE[0, 1] = [-0.5, 0.75, 0.75]
CYCLE = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
REFUSED = {
    "rows": (UNEVEN, {"index": INDEX}, r"a sum of 1.05 in row 2 of matrix 1, \+0.05 from one"),
    "negative": (NEGATIVE, {"index": INDEX}, "an entry of -0.5 in row 1 of matrix 0"),
    "shape": (np.ones(3) / 3, {}, r"P must have shape .*received \(3,\)"),
    "not square": (np.full((2, 3), 1 / 3), {}, r"square in its last two dim.*received shape \(2, "),
    "index beyond": (GOOD, {"index": INDEX + 1}, "index must be 0 to 1, .*received 1 to 2"),
    "index of floats": (
        GOOD,
        {"index": INDEX * 1.0},
        "must be integers, received .* float64",
    ),
    "index without need": (GOOD[0], {"index": INDEX}, "received a P of 2 dimensions"),
    "initial": (GOOD[0], {"initial": [0.5, 0.6, 0.0]}, "initial must be prob.*a sum of 1.1, "),
    "initial of other states": (GOOD[0], {"initial": [0.5, 0.5]}, r"must have shape \(3,\), rec"),
    "initial by another name": (GOOD[0], {"initial": "uniform"}, "received 'uniform'"),
    "stationary of many": (GOOD, {"index": INDEX, "initial": "stationary"}, "of 3 dimensions"),
    "stationary of none": (CYCLE, {"initial": "stationary"}, "every state leads to every other"),
    "text": (np.array([["a"]]), {}, "P must be probabilities, received dtype"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    P, kwargs, message = REFUSED[case]
    with pm.Model() as model, pytest.raises((ValueError, TypeError), match=message):
        dshdp.Transitions("hmm", P, **kwargs)
    assert not model.named_vars and not model.coords


def test_times_that_do_not_fit():
    with pm.Model():
        prior = dshdp.Transitions("hmm", GOOD, index=INDEX)
        with pytest.raises(ValueError, match=r"matrices of 'hmm' are for times of shape \(6,\).*8"):
            dshdp.HiddenStates("z", prior, length=8)
        each = dshdp.Transitions("other", GOOD)  # of a season, the index forgotten
        with pytest.raises(ValueError, match=r"times of shape \(2,\).*give index, or a P for each"):
            dshdp.HiddenStates("x", each, length=6)


def test_rows_are_checked_while_sampling(quick):
    """Fails if a P that leaves the simplex later on is filtered as it is."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1e-9)
        P = pt.as_tensor(GOOD[0]) * (1.0 + a)
        dshdp.HiddenStates("z", dshdp.Transitions("hmm", P), length=6)
        with pytest.warns(UserWarning, match="No likelihood"):
            step = dshdp.WeakLimitFFBS([model["z"]])
    with pytest.raises(ValueError, match="z: .* a sum of 1.5 in row 0, .0.5 from one"):
        step.step({**model.initial_point(), "a": np.array(0.5)})


LEFT_TO_RIGHT = np.triu(np.ones((3, 3)))


@pytest.mark.parametrize("kind", ["matrices", "rows"])
def test_impossible_starts(quick, kind):
    with pm.Model() as model:
        if kind == "rows":
            prior = dshdp.FixedTransitions("hmm", n_states=3, concentration=LEFT_TO_RIGHT)
        else:
            P = LEFT_TO_RIGHT / LEFT_TO_RIGHT.sum(axis=1, keepdims=True)
            prior = dshdp.Transitions("hmm", P)
        z = dshdp.HiddenStates("z", prior, length=6, initial_states=np.array([0, 1, 0, 1, 1, 2]))
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
        with pytest.raises(ValueError, match="initial_states of 'z' .* 1 to state 0 at position 2"):
            dshdp.WeakLimitFFBS([z])
        start = {**model.initial_point(), "z": np.array([2, 2, 2, 1, 1, 1])}
        with pytest.raises(ValueError, match="starting path of 'z' .* 2 to state 1 at position 3"):
            dshdp.WeakLimitFFBS([z], initial_point=start)


def test_an_observation_only_possible_in_a_forbidden_state(quick):
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    with pm.Model():
        prior = dshdp.Transitions("hmm", P, initial=[1.0, 0.0, 0.0])
        z = dshdp.HiddenStates("z", prior, length=4)
        lower = pt.as_tensor(np.array([0.0, 0.0, 5.0]))
        pm.Uniform("y", lower[z], lower[z] + 2.0, observed=[1.0, 1.5, 5.5, 1.0])
        with pytest.raises(
            pm.exceptions.SamplingError, match=r"y at z\[2\] is -inf in every state"
        ):
            dshdp.WeakLimitFFBS([z])


def test_other_samplers_refuse_by_name(quick):
    model = normal_model()
    with (
        model,
        pytest.raises(ValueError, match="DSBlockGibbs: the transition matrices of"),
    ):
        dshdp.DSBlockGibbs([model["z"]])


# -- zeros of conjugate rows -----------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["filter", "direct"])
def test_zeros_of_fixed_rows_follow_the_enumerated_law(quick, sampler):
    """Rows integrated out; fails if a zero leaks into the rows, or into the start."""
    a = np.array([[1.0, 2.0, 0.0], [0.0, 0.5, 1.5], [1.0, 0.0, 3.0]])
    first = np.array([1.0, 1.0, 0.0])
    with pm.Model() as model:
        prior = dshdp.FixedTransitions(
            "hmm", n_states=3, concentration=a, initial_concentration=first
        )
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
        kind = dshdp.WeakLimitFFBS if sampler == "filter" else dshdp.DSBlockGibbs
        step = kind([z], rng=np.random.default_rng(8))
    law = np.exp(stats.norm(MEANS[PATHS], 1.0).logpdf(Y).sum(axis=1))
    for i, path in enumerate(PATHS):
        counts = np.zeros((4, 3))
        for t in range(6):
            row = 0 if t in (0, 4) else path[t - 1] + 1
            base = first if row == 0 else a[row - 1]
            law[i] *= (base[path[t]] + counts[row, path[t]] * (base[path[t]] > 0)) / (
                base.sum() + counts[row].sum()
            )
            counts[row, path[t]] += 1
    point, _ = step.step(model.initial_point())  # from a segmentation made possible
    step.stop_tuning()
    seen = np.zeros(len(PATHS))
    for i in range(12000):
        point, _ = step.step(point)
        assert (point["hmm_pi_bar"][a == 0.0] == 0.0).all()
        if i % 3 == 0:
            seen[point["z"] @ 3 ** np.arange(5, -1, -1)] += 1
    assert_frequencies(seen, law / law.sum())


def test_left_to_right_keeps_its_numbers():
    """Numbers of states mean the same in every draw: nothing is aligned, tables are as they are."""
    with pm.Model() as model:
        first = [1.0, 0.0, 0.0]
        prior = dshdp.FixedTransitions(
            "hmm", n_states=3, concentration=LEFT_TO_RIGHT, initial_concentration=first
        )
        z = dshdp.HiddenStates("z", prior, length=30)
        rate = pm.Gamma("rate", 1.0, 0.1, dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=np.sort(COUNTS))
    idata = sample(model, draws=30, tune=30, chains=1)
    paths = group(idata, "posterior")["z"].values[0]
    assert (np.diff(paths, axis=1) >= 0).all() and (paths[:, 0] == 0).all()
    with pytest.raises(
        ValueError, match="'z' are told apart by the model, by transitions that 'hmm'"
    ):
        dshdp.align(idata)
    table = dshdp.summary(idata).states
    assert list(table.index) == [0, 1, 2]
    assert dshdp.segments(idata)["label"].tolist() == [0, 1, 2]
    with model:
        assert (np.diff(dshdp.viterbi(idata)) >= 0).all()
