"""Groups whose transitions differ, under the nonparametric priors."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import FAST, posterior_of, sample
from reference import assert_frequencies, monte_carlo_error
from scipy import special, stats

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.graph.terms import log_densities
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.transitions import find_transitions
from pymc_dshdp.transitions.update import TransitionReader

T, L, G = 6, 3, 2
Y = np.array([0.3, 0.8, 1.9, -0.4, -0.9, 0.1])
MEANS = np.array([-0.5, 1.0, 0.2])
PATHS = np.array(list(itertools.product(range(L), repeat=T)))
CODE = L ** np.arange(T - 1, -1, -1)
BY_TIME = [1, 0, 1, 1, 0, 1]
LAYOUTS = {
    "sequences": ({"lengths": [4, 2], "group": ["b", "a"]}, [1, 1, 1, 1, 0, 0], [0, 4]),
    "times": ({"lengths": [4, 2], "group": BY_TIME}, BY_TIME, [0, 4]),
    "batch": ({"shape": (2, 3), "group": [1, 0]}, [1, 1, 1, 0, 0, 0], [0, 3]),
}
PRIORS = {"ds": dshdp.DSHDP, "sticky": dshdp.StickyHDP, "hdp": dshdp.HDP}
rng = np.random.default_rng(3)
ROWS, FIRST = rng.dirichlet(np.ones(L), size=(G, L)), rng.dirichlet(np.ones(L))
KAPPA = np.array([[0.9, 0.2, 0.5], [0.1, 0.6, 0.3]])


def grouped_model(kind="ds", layout="sequences", y=Y, means=MEANS, **kwargs):
    """Gaussian observations of known means, in two groups."""
    with pm.Model(coords={"state": range(L), "subject": ["a", "b"]}) as model:
        prior = PRIORS[kind]("hmm", dims="state", groups="subject", **kwargs)
        given = LAYOUTS[layout][0]
        z = dshdp.HiddenStates("z", prior, **given)
        pm.Normal("y", pt.as_tensor(means)[z], 1.0, observed=y.reshape(given.get("shape", T)))
    return model


def at_rows(model):
    """The starting point with the rows, kappa and pi_init of this module."""
    new = {"hmm_pi_bar": ROWS, "hmm_kappa_logodds__": special.logit(KAPPA), "hmm_pi_init": FIRST}
    point = model.initial_point()
    return {**point, **{name: x for name, x in new.items() if name in point}}


def path_law(layout, kappa=KAPPA):
    """Probability of every path, by one transition after the other."""
    _, index, starts = LAYOUTS[layout]
    P = kappa[..., None] * np.eye(L) + (1.0 - kappa[..., None]) * ROWS
    out = np.ones(len(PATHS))
    for t in range(T):
        if t in starts:
            out *= FIRST[PATHS[:, t]]
        else:
            out *= P[index[t], PATHS[:, t - 1], PATHS[:, t]]
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_density_and_draws_equal_enumeration(quick, layout):
    """Fails if the groups are exchanged, or one is a time late."""
    model = grouped_model(layout=layout)
    [density] = log_densities(model, [model["z"]])
    values = {model.rvs_to_values[model[name]]: None for name in ("z", "hmm_pi_bar", "hmm_pi_init")}
    values[model.rvs_to_values[model["hmm_kappa"]]] = None
    point, law = at_rows(model), path_law(layout)
    some = np.random.default_rng(0).integers(len(PATHS), size=20)
    function = model.compile_fn(density.sum(), inputs=list(values), point_fn=True, **FAST)
    shape = point["z"].shape
    found = [
        function({**{v.name: point[v.name] for v in values}, "z": PATHS[i].reshape(shape)})
        for i in some
    ]
    np.testing.assert_allclose(found, np.log(law[some]))
    np.testing.assert_allclose(law.sum(), 1.0)

    [prior] = find_transitions(model)
    assert prior.grouped and prior.kappa_by_group and not prior.varies
    found = TransitionReader(model, prior)(point, shape)
    seen, generator = np.zeros(len(PATHS)), np.random.default_rng(1)
    table, lengths = stats.norm(MEANS, 1.0).logpdf(Y[:, None]), np.diff([*LAYOUTS[layout][2], T])
    for _ in range(4000):
        drawn = forward_filter_backward_sample(table, *found, lengths, generator.random(T))
        seen[drawn.states @ CODE] += 1
    weights = law * np.exp(stats.norm(MEANS[PATHS], 1.0).logpdf(Y).sum(axis=1))
    assert_frequencies(seen, weights / weights.sum())


STATES = np.array([0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0])


def observed_model(kind="hdp", **kwargs):
    """Three sequences whose path is data; the second is of another group than the others."""
    with pm.Model() as model:
        prior = PRIORS[kind]("hmm", n_states=2, groups=2, gamma=1.5, alpha=2.0, **kwargs)
        dshdp.HiddenStates("z", prior, lengths=[5, 4, 3], group=[0, 1, 0], observed=STATES)
    return model


def counts_of(states, lengths, groups):
    out, t = np.zeros((1 + 2 * G, 2)), 0
    for length, g in zip(lengths, groups, strict=True):
        out[0, states[t]] += 1
        for i in range(t + 1, t + length):
            out[1 + 2 * g + states[i - 1], states[i]] += 1
        t += length
    return out


def test_weights_and_rows_learn_from_all_groups(quick):
    """beta on a grid: fails if the tables of a group are left out, or its counts go to another."""
    model, draws = observed_model(), 6000
    rvs = [model["hmm_beta"], model["hmm_pi_bar"], model["hmm_pi_init"]]
    step = dshdp.WeakLimitFFBS(rvs, model=model)
    point, seen = model.initial_point(), []
    step.rng = np.random.default_rng(1)
    for _ in range(draws):
        point, _ = step.step(point)
        seen.append([point["hmm_beta"][0], *point["hmm_pi_bar"][..., 0].ravel()])
    seen = np.array(seen)
    n = counts_of(STATES, [5, 4, 3], [0, 1, 0])
    x = (np.arange(4000) + 0.5) / 4000
    base = 2.0 * np.stack([x, 1.0 - x], axis=-1)
    logs = stats.beta(0.75, 0.75).logpdf(x)
    for row in n:
        a = base + row
        logs += (special.gammaln(a) - special.gammaln(base)).sum(axis=-1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    expected = [x] + [(base[:, 0] + row[0]) / (2.0 + row.sum()) for row in n[1:]]
    for column, value in zip(seen.T, expected, strict=True):
        assert abs(column.mean() - weights @ value) < 4.5 * monte_carlo_error(column)


def test_kappa_of_every_group(quick):
    """Drawn with (phi, eta) given, and by a slice of a density of the user's: the same law."""
    means = []
    for own in (False, True):
        with pm.Model() as model:
            kappa = pm.Beta("kappa", 2.0, 1.0, shape=(2, 2)) if own else None
            rho = None if own else (2.0, 1.0)
            given = {"kappa": kappa, "rho": rho, "gamma": 1.5, "alpha": 2.0}
            prior = dshdp.DSHDP("hmm", n_states=2, groups=2, **given)
            dshdp.HiddenStates("z", prior, lengths=[5, 4, 3], group=[0, 1, 0], observed=STATES)
            name = "kappa" if own else "hmm_kappa"
            transitions = [model["hmm_beta"], model["hmm_pi_bar"], model["hmm_pi_init"]]
            steps = [dshdp.WeakLimitFFBS(transitions), dshdp.GridRhoStep([model[name]])]
        assert model["hmm_kappa"].type.shape == (2, 2)
        point, seen = model.initial_point(), []
        for i, step in enumerate(steps):
            step.rng = np.random.default_rng(i)
        for _ in range(1000):
            for step in steps:
                point, _ = step.step(point)
            seen.append(special.expit(point[f"{name}_logodds__"]).ravel())
        seen = np.array(seen)
        means.append((seen.mean(axis=0), np.array([monte_carlo_error(x) for x in seen.T])))
    (one, error), (two, other) = means
    assert np.ptp(one) > 0.02
    assert (abs(one - two) < 4.5 * np.hypot(error, other)).all()


def test_several_states_of_one_prior(quick):
    """Each says for itself which group it is of, and their counts are pooled by group."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=2, groups=2)
        dshdp.HiddenStates("z", prior, lengths=[5, 4, 3], group=[0, 1, 0])
        subject = pm.Data("subject", [1])
        dshdp.HiddenStates("x", prior, length=6, group=subject)
        for name in ("z", "x"):
            pm.Potential(f"data_{name}", 0.1 * model[name])
        step = dshdp.WeakLimitFFBS([model["z"], model["x"]], pilots=False)
    point = {**model.initial_point(), "z": STATES, "x": STATES[:6]}
    expected = counts_of(STATES, [5, 4, 3], [0, 1, 0]) + counts_of(STATES[:6], [6], [1])
    np.testing.assert_array_equal(step._priors[0].paths.counts(point), expected)
    rows = np.arange(8.0).reshape(2, 2, 2)
    read = step._priors[0].transition.transitions
    for i, index in enumerate([np.repeat([0, 1, 0], [5, 4, 3]), np.ones(6, int)]):
        found = read({**point, "hmm_pi_bar": rows}, index.shape, i)[1]
        np.testing.assert_array_equal(found.indices, index)
        assert found.grouped and found.kappa_logit.shape == (2, 2) and found.varying is None


LABELS = {"state": range(3), "subject": [4, 7]}


def declared(group=None, groups="subject", labels=None, kind=dshdp.DSHDP, length=None, **kwargs):
    with pm.Model(coords=LABELS | ({} if labels is None else {"subject": labels})):
        prior = kind("hmm", dims="state", groups=groups, **kwargs)
        layout = {"lengths": [4, 2]} if length is None else {"length": length}
        return dshdp.HiddenStates("z", prior, group=group, **layout).owner.inputs[5].eval()


def test_group_is_read_by_label_or_position():
    np.testing.assert_array_equal(declared([7, 4]), [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(declared([1, 0], labels=["a", "b"]), [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(declared(["b", "b"], labels=["a", "b"]), np.ones(6))
    np.testing.assert_array_equal(declared([2, 0], groups=3), [2, 2, 2, 2, 0, 0])
    np.testing.assert_array_equal(declared([0, 1, 1], groups=2, length=3), [0, 1, 1])
    np.testing.assert_array_equal(declared([1], groups=2, length=3), [1, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": None}, r"has groups, 'subject'; say by group=\[...\] .* in shape \(2,\)"),
        ({"group": [1, 0]}, r"must be labels of 'subject', which has \[4, 7\], received 1"),
        ({"group": ["a", "c"], "labels": ["a", "b"]}, "received 'c'"),
        ({"group": [0, 2], "groups": 2}, "received 2"),
        ({"group": [-1, 0], "labels": ["a", "b"]}, "positions 0 to 1 of 'subject', received -1"),
        ({"group": [4, 4, 7]}, r"shape \(2,\), .* or \(6,\), .*; received shape \(3,\)"),
        ({"group": [0, 1], "groups": None}, "'hmm' has not; declare them there"),
        ({"group": [0], "groups": "rat"}, "groups='rat' is not a coordinate of the model"),
        ({"group": [0], "groups": "state"}, "groups and dims must be different dimensions"),
        ({"group": [0], "groups": 0}, "groups must be at least 1, received 0"),
        ({"group": [0], "groups": 1.5}, "or their number, received 1.5"),
        ({"group": ["a", "a"], "labels": ["a", "a"]}, "a label of its own for each group"),
        ({"group": [4, 7], "kappa": np.full(3, 0.5)}, r"have shape \(2, 3\); received shape"),
        ({"group": [4, 7], "kappa": pt.ones((6, 3))}, r"have shape \(2, 3\); received shape"),
        ({"group": pt.zeros(2)}, "must be an array or a pm.Data"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        declared(**arguments)


NUMBERED = np.array([[0.7, 0.7], [0.2, 0.2]])  # kappa that lets states exchange their numbers


@pytest.mark.parametrize(
    ("weights", "kappa", "known"),
    [("weak-limit", KAPPA[:, :2], True), ("stick-breaking", NUMBERED, False)],
)
def test_direct_assignment_follows_the_enumerated_law(quick, weights, kappa, known):
    """Of the path, the rows integrated out, and beta of both groups by quadrature.

    Fails if a group's counts are used for the other's, or its tables do not reach beta; and, with
    means integrated out, if the rows of a group are not renumbered with those of the other.
    """
    gamma, alpha, index, starts = 1.5, 2.0, BY_TIME, [0, 4]
    with pm.Model(coords={"subject": ["a", "b"]}) as model:
        given = {"gamma": gamma, "alpha": alpha, "kappa": kappa, "weights": weights}
        prior = dshdp.DSHDP("hmm", n_states=2, groups="subject", **given)
        z = dshdp.HiddenStates("z", prior, lengths=[4, 2], group=index)
        mu = pt.as_tensor(MEANS[:2]) if known else pm.Normal("mu", 0.0, 1.5, shape=2)
        pm.Normal("y", mu[z], 1.0, observed=Y)
        step = dshdp.DSBlockGibbs([z], pilots=False, split_merge=False, rng=1)
    step.stop_tuning()
    point, seen = model.initial_point(), np.zeros(2**T)
    for _ in range(12_000):
        point, _ = step.step(point)
        seen[point["z"] @ 2 ** np.arange(T)] += 1
    x = (np.arange(2_000) + 0.5) / 2_000
    own = (1.0, gamma) if weights == "stick-breaking" else (gamma / 2, gamma / 2)
    mass, beta = stats.beta(*own).pdf(x), np.stack([x, 1.0 - x], axis=-1)
    law = np.zeros(2**T)
    for code in range(2**T):
        path = code // 2 ** np.arange(T) % 2
        choices = [[False, True] if t not in starts and path[t] == path[t - 1] else [False]
                   for t in range(T)]  # fmt: skip
        for w in itertools.product(*choices):
            n, choice = np.zeros((1 + 2 * G, 2)), 1.0
            for t in range(T):
                row = 0 if t in starts else 1 + 2 * index[t] + path[t - 1]
                n[row, path[t]] += not w[t]
                if row > 0:
                    share = kappa[index[t], path[t - 1]]
                    choice *= share if w[t] else 1.0 - share
            base = alpha * beta[:, None]
            logs = special.gammaln(base + n) - special.gammaln(base)
            totals = special.gammaln(alpha + n.sum(axis=1)) - special.gammaln(alpha)
            law[code] += choice * (mass @ np.exp(logs.sum(axis=(1, 2)) - totals.sum()))
        if known:
            law[code] *= np.exp(stats.norm(MEANS[path], 1.0).logpdf(Y).sum())
        else:
            together = np.equal.outer(path, path)
            covariance = np.eye(T) + 2.25 * together
            law[code] *= stats.multivariate_normal(np.zeros(T), covariance).pdf(Y)
    assert_frequencies(seen, law / law.sum())


def test_all_that_is_a_states_own_takes_its_new_number(quick):
    """Fails if rows, kappa or w of a group stay where they were."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=4, groups=2, weights="stick-breaking")
        z = dshdp.HiddenStates("z", prior, lengths=[15, 15], group=[0, 1])
        mu = pm.Normal("mu", 0.0, 3.0, shape=4)
        pm.Normal("y", mu[z], 1.0, observed=np.zeros(30))
        [sampler] = dshdp.DSBlockGibbs([z], pilots=False)._priors
    generator, moved = np.random.default_rng(3), 0
    for _ in range(20):
        path = np.repeat(generator.integers(4, size=15), 2)
        logit = np.arange(8.0).reshape(2, 4)
        point = {**model.initial_point(), "z": path, "hmm_kappa_logodds__": logit}
        own = generator.integers(3, size=(2, 4)) * (np.bincount(path, minlength=4) > 8)
        counts = sampler.paths.counts(point)
        rows = np.arange(8)
        persistences = np.minimum(own.ravel(), counts[1 + rows, rows % 4])
        switches = counts.copy()
        switches[1 + rows, rows % 4] -= persistences
        new, after, persisting = sampler._renumber(point, switches, persistences, generator)
        number = {new["z"][t]: path[t] for t in range(30)}
        for k, before in number.items():
            np.testing.assert_array_equal(new["hmm_kappa_logodds__"][:, k], logit[:, before])
        after[1 + rows, rows % 4] += persisting
        np.testing.assert_array_equal(after, sampler.paths.counts(new))
        moved += any(k != before for k, before in number.items())
    assert moved > 3


@pytest.mark.parametrize("kind", PRIORS)
def test_both_samplers_draw_the_same_posterior(quick, kind):
    """All hyperparameters, splits and merges among the moves: the same means."""
    data = np.random.default_rng(5)
    path = np.repeat([0, 1, 0, 1, 1, 0], 5)
    y, found = 3.0 * path + data.normal(size=30), []
    for build in (dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs):
        with pm.Model() as model:
            prior = PRIORS[kind]("hmm", n_states=4, groups=2)
            z = dshdp.HiddenStates("z", prior, lengths=[15, 15], group=[0, 1])
            mu = pm.Normal("mu", 0.0, 3.0, shape=4)
            pm.Normal("y", mu[z], 1.0, observed=y)
            steps = [build([z], pilots=False, rng=1)]
            if kind == "ds":
                steps.append(dshdp.GridRhoStep([z], rng=2))
            if build is dshdp.WeakLimitFFBS:
                steps.append(dshdp.ConjugateStep([mu], rng=3))
        for step in steps:
            step.stop_tuning()
        point, seen = model.initial_point(), []
        for _ in range(3_000):
            for step in steps:
                point, _ = step.step(point)
            z, rows = point["z"], point["hmm_pi_bar"]
            together = z[:, None] == z
            seen.append([
                len(np.unique(z)), together.mean(), together[:15, 15:].mean(),
                point["hmm_gamma_log__"],
                np.sum(rows[0, z[:14], z[1:15]]), np.sum(rows[1, z[15:29], z[16:]]),
            ])  # fmt: skip
        seen = np.array(seen[200:])
        found.append((seen.mean(axis=0), np.array([monte_carlo_error(x) for x in seen.T])))
    (one, error), (two, other) = found
    assert (abs(one - two) < 4.5 * np.hypot(error, other)).all()


@pytest.fixture(scope="module")
def sampled():
    """Two subjects in turn, of which the second switches more often."""
    generator, y = np.random.default_rng(2), []
    for n in range(6):
        path = [0]
        for _ in range(39):
            path.append(path[-1] if generator.random() < (0.95, 0.6)[n % 2] else 1 - path[-1])
        y += list(generator.normal(4.0 * np.array(path), 1.0))
    with pm.Model(coords={"state": range(L), "subject": ["slow", "quick"]}) as model:
        prior = dshdp.DSHDP("hmm", dims="state", groups="subject")
        z = dshdp.HiddenStates("z", prior, lengths=[40] * 6, group=["slow", "quick"] * 3)
        pm.Normal("y", pt.as_tensor([0.0, 4.0, 20.0])[z], 1.0, observed=np.array(y))
    return model, sample(model, draws=100, tune=40, chains=1)


def test_summary_and_transition_matrix_by_group(sampled):
    _, idata = sampled
    found = dshdp.summary(idata)
    dwell = found.groups["expected_dwell"]
    assert (dwell["slow"][found.main] > 3.0 * dwell["quick"][found.main]).all()
    assert not {"stay", "expected_dwell"} & set(found.states)
    matrix = found.transition_matrix
    assert matrix.index.names == ["group", "from"] and list(matrix) == found.main
    assert {"% of time, by group", "of slow", "of quick"} <= {
        part for part in ("% of time, by group", "of slow", "of quick") if part in str(found)
    }
    share = found.groups["occupancy"].groupby("group").sum()
    np.testing.assert_allclose(share, 1.0)
    table = dshdp.transition_matrix(idata)
    posterior = group(idata, "posterior")
    kappa = posterior["hmm_kappa"].transpose("chain", "draw", "subject", "state").values
    rows = posterior["hmm_pi_bar"].values
    P = kappa[..., None] * np.eye(L) + (1.0 - kappa[..., None]) * rows
    assert table.draws.dims == ("chain", "draw", "subject", "state", "state_to")
    np.testing.assert_allclose(table.draws, P)
    np.testing.assert_allclose(
        table.transitions.loc[("quick", 0, 1), "mean"], P[:, :, 1, 0, 1].mean()
    )
    assert "of quick" in str(table)


def test_readers_use_the_group_of_each_time(sampled):
    model, idata = sampled
    with model:
        smoothed = dshdp.smooth(idata, thin=25)
        share = dshdp.state_probabilities(idata)
        assert abs(smoothed.values - share.values).mean() < 0.03
        path = dshdp.viterbi(idata, thin=25)
        assert (path.values == share.values.argmax(axis=1)).mean() > 0.9
        ahead = dshdp.forecast(idata, horizon=30, random_seed=1)["z"].values
        stays = (ahead[..., 1:] == ahead[..., :-1]).mean(axis=(0, 1, 3))
        assert stays[0::2].min() > 0.75 > stays[1::2].max()
        y = np.array([0.0, 0.1, 4.2, 0.3, 3.9, 0.2])
        with pytest.raises(ValueError, match="give 'z_group' too"):
            dshdp.held_out_log_likelihood(idata, observed={"y": y}, lengths=[6])
        totals = [
            float(
                dshdp.held_out_log_likelihood(
                    idata, observed={"y": y, "z_group": np.array([g])}, lengths=[6]
                )["mean"]
            )
            for g in range(2)
        ]
        assert totals[1] > totals[0] + 1.0  # it switches as the second does
        other = {"y": y, "z_group": ["quick"]}
        named = dshdp.held_out_log_likelihood(idata, observed=other, lengths=[6])
        assert float(named["mean"]) == totals[1]
        assert dshdp.smooth(idata, observed=other, lengths=[6], thin=25).shape == (6, L)
        for wrong, message in (
            (["cat"], r"observed\['z_group'\] must be labels of 'subject', .* received 'cat'"),
            ([2], r"observed\['z_group'\] must be positions 0 to 1 of 'subject', .*received 2"),
        ):
            with pytest.raises(ValueError, match=message):
                dshdp.smooth(idata, observed={"y": y, "z_group": wrong}, lengths=[6])
    persist = dshdp.self_persistence_probability(idata)
    assert np.isnan(persist.values[::40]).all()
    assert len(dshdp.segments(idata)) > 10
    dshdp.check(idata, model=model)


def test_a_forecast_takes_the_groups_of_its_times_by_label(quick):
    """Fails if labels are not read, or read as others."""
    with pm.Model(coords={"subject": ["slow", "quick"]}) as model:
        prior = dshdp.DSHDP("hmm", n_states=2, groups="subject")
        z = dshdp.HiddenStates("z", prior, length=4, group=["slow", "quick", "slow", "slow"])
        pm.Normal("y", 3.0 * z, 1.0, observed=np.zeros(4))
        idata = posterior_of(model, draws=3)
        ahead = [
            dshdp.forecast(idata, horizon=9, covariates={"z_group": future}, random_seed=1)["z"]
            for future in (["quick"] * 9, [1] * 9, ["slow"] * 9)
        ]
        assert (ahead[0] == ahead[1]).all() and not (ahead[0] == ahead[2]).all()
        with pytest.raises(ValueError, match=r"covariates\['z_group'\] .*, received 'cat'"):
            dshdp.forecast(idata, horizon=1, covariates={"z_group": ["cat"]})


def test_plots_by_group(sampled):
    _, idata = sampled
    panels = dshdp.plot_transitions(idata)
    assert [panel.get_title() for panel in panels.ravel()] == ["slow", "quick"]
    assert dshdp.plot_transitions(idata, group="quick").get_title() == ""
    assert dshdp.plot_dwell_times(idata, group="slow", label=0).get_title().startswith("state 0")
    with pytest.raises(ValueError, match=r"must be one of \['slow', 'quick'\]; received 'x'"):
        dshdp.plot_transitions(idata, group="x")
    with pytest.raises(ValueError, match="differ between groups; say whose"):
        dshdp.plot_dwell_times(idata)
    with pytest.raises(ValueError, match="ax is for one group"):
        dshdp.plot_transitions(idata, ax=panels.ravel()[0])


@pytest.mark.parametrize("layout", ["one", "batch"])
def test_sequences_go_on_in_their_groups(quick, layout):
    """Also one, and a batch that follows named dimensions; other data say theirs.

    Fails if a length of the data is kept in the graph of the index.
    """
    shape, group = ((9,), [1]) if layout == "one" else ((2, 9), [1, 0])
    dims = ("sequence", "time")[-len(shape) :]
    with pm.Model(coords={"sequence": range(shape[0]), "time": range(9)}) as model:
        prior = dshdp.DSHDP("hmm", n_states=2, groups=2)
        z = dshdp.HiddenStates("z", prior, dims=dims, group=group)
        pm.Normal("y", 3.0 * z, 1.0, observed=np.zeros(shape), dims=dims)
        idata = posterior_of(model, draws=3)
        ahead = dshdp.forecast(idata, horizon=4, random_seed=1)["z"]
        assert ahead.shape == (1, 3, *shape[:-1], 4)
        other = {"y": np.zeros((*shape[:-1], 5)), "z_group": np.array(group)}
        found = dshdp.held_out_log_likelihood(idata, observed=other)["log_likelihood"].values
    draws = idata["posterior"]
    density = stats.norm([0.0, 3.0], 1.0).pdf(0.0)
    for s in range(3):
        kappa, rows, first = (
            draws[f"hmm_{name}"].values[0, s] for name in ("kappa", "pi_bar", "pi_init")
        )
        P = kappa[..., None] * np.eye(2) + (1.0 - kappa[..., None]) * rows
        for n, g in enumerate(group):
            mass = first * density
            for _ in range(4):
                mass = mass @ P[g] * density
            np.testing.assert_allclose(found[0, s, n], np.log(mass.sum()))
