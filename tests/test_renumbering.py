"""What a renumbering of the states does to Deterministics, told from their graphs."""

import warnings

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import python_graphs, sample

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, with_groups
from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.kinds import FREE, LABEL, NUMBERED, free
from pymc_dshdp.graph.renumbering import kind_of
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.transitions.record import record_in
from pymc_dshdp.transitions.renumbered import _leaves, record_variables

L, T = 4, 7
TABLE = np.array([3.0, 1.0, 4.0, 1.5])

CASES = {
    "parameter of the state": (lambda z, mu, P, b, w: mu[z], FREE),
    "its transform": (lambda z, mu, P, b, w: pt.exp(2.0 * mu - 1.0)[z][::-1], FREE),
    "without dimensions": (lambda z, mu, P, b, w: w[z], FREE),
    "offsets that are no state's": (lambda z, mu, P, b, w: mu[z] + pt.arange(T), FREE),
    "stacked": (lambda z, mu, P, b, w: pt.stack([w[0], w[1], w[0], w[3]])[z], FREE),
    "channels": (lambda z, mu, P, b, w: b[z] * np.arange(2), FREE),
    "one channel": (lambda z, mu, P, b, w: b[:, 1][z], FREE),
    "one channel at once": (lambda z, mu, P, b, w: b[z[2:], 1], FREE),
    "transitions": (lambda z, mu, P, b, w: P[z[:-1], z[1:]], FREE),
    "rows": (lambda z, mu, P, b, w: P[z[3]], free([0])),
    "rows of times": (lambda z, mu, P, b, w: P[z], free([1])),
    "columns": (lambda z, mu, P, b, w: P[:, z], free([0])),
    "rows and columns apart": (
        lambda z, mu, P, b, w: (mu[:, None, None, None] * P[:, None])[:, z, :, z],
        free([1]),
    ),
    "next": (lambda z, mu, P, b, w: pt.dot(P[z], mu), FREE),
    "ahead": (lambda z, mu, P, b, w: P @ P @ mu, free([0])),
    "products with channels": (lambda z, mu, P, b, w: (P @ b)[z], FREE),
    "own entries": (lambda z, mu, P, b, w: pt.diag(P)[z], FREE),
    "softmax": (lambda z, mu, P, b, w: pt.special.softmax(mu, axis=-1)[z], FREE),
    "switches": (lambda z, mu, P, b, w: pt.neq(z[1:], z[:-1]).sum(), FREE),
    "alike": (lambda z, mu, P, b, w: pt.eq(z[:, None], z[None]).mean(), FREE),
    "one hot": (lambda z, mu, P, b, w: pt.eq(z[:, None], pt.arange(L)) @ mu, FREE),
    "one hot from data": (
        lambda z, mu, P, b, w: (pt.eq(z[:, None], np.arange(L)) * mu).sum(-1),
        FREE,
    ),
    "counts": (lambda z, mu, P, b, w: pt.bincount(z, minlength=L), free([0])),
    "occupied": (lambda z, mu, P, b, w: (pt.bincount(z, minlength=L) > 0).sum(), FREE),
    "distinct": (lambda z, mu, P, b, w: pt.unique(z).shape[0], FREE),
    "visited": (lambda z, mu, P, b, w: pt.zeros(L)[z].set(1.0).sum(), FREE),
    "largest": (lambda z, mu, P, b, w: mu.max() - mu.min(), FREE),
    "in order": (lambda z, mu, P, b, w: pt.sort(mu), FREE),
    "weighted": (lambda z, mu, P, b, w: pt.dot(pt.ones(L), mu), FREE),
    "how many times": (lambda z, mu, P, b, w: z.shape[0] + 0 * pt.zeros_like(z), FREE),
    "an axis moved": (lambda z, mu, P, b, w: (mu[:, None] * b).T, free([1])),
    "an axis put in": (lambda z, mu, P, b, w: mu.reshape((1, L))[0, z], FREE),
    "state at events": (lambda z, mu, P, b, w: z[[1, 4]], LABEL),
    "last state": (lambda z, mu, P, b, w: pt.cast(z[-1], "float64"), LABEL),
    "at a time that is drawn": (
        lambda z, mu, P, b, w: z[pt.clip(pt.cast(pt.abs(w[0]), "int64"), 0, T - 1)],
        LABEL,
    ),
    "two states": (lambda z, mu, P, b, w: pt.stack([z[0], z[5]]), LABEL),
    "one or the other": (lambda z, mu, P, b, w: pt.switch(w[0] > 0, z[1:], z[:-1]), LABEL),
    "number of the last": (lambda z, mu, P, b, w: z[-1] > 1, NUMBERED),
    "highest number": (lambda z, mu, P, b, w: z.max(), NUMBERED),
    "sum of numbers": (lambda z, mu, P, b, w: pt.sum(z), NUMBERED),
    "a multiple": (lambda z, mu, P, b, w: z[5] * 10, NUMBERED),
    "one state": (lambda z, mu, P, b, w: pt.eq(z, 2).mean(), NUMBERED),
    "times in a state": (lambda z, mu, P, b, w: z[pt.eq(z, 2)].shape[0], NUMBERED),
    "table of data": (lambda z, mu, P, b, w: pt.as_tensor(TABLE)[z], NUMBERED),
    "offsets by number": (lambda z, mu, P, b, w: (mu + TABLE)[z], NUMBERED),
    "difference of two states": (lambda z, mu, P, b, w: mu[1] - mu[0], NUMBERED),
    "first states": (lambda z, mu, P, b, w: mu[:2].sum(), NUMBERED),
    "turned round": (lambda z, mu, P, b, w: mu[::-1][z], NUMBERED),
    "in another place": (lambda z, mu, P, b, w: P[z, 0], NUMBERED),
    "cumulated": (lambda z, mu, P, b, w: pt.cumsum(mu)[z], NUMBERED),
    "largest of all": (lambda z, mu, P, b, w: pt.argmax(mu), NUMBERED),
    "ranks": (lambda z, mu, P, b, w: pt.argsort(mu), NUMBERED),
    "weighted by number": (lambda z, mu, P, b, w: pt.dot(TABLE, mu), NUMBERED),
    "mixed up": (lambda z, mu, P, b, w: pt.stack([z[0], 7]), NUMBERED),
    "neighbour": (lambda z, mu, P, b, w: mu[(z + 1) % L], NUMBERED),
    "counts by number": (lambda z, mu, P, b, w: pt.bincount(z, minlength=L)[0], NUMBERED),
    "distinct numbers": (lambda z, mu, P, b, w: pt.unique(z).sum(), NUMBERED),
    "states apart": (lambda z, mu, P, b, w: pt.concatenate([mu, w]), NUMBERED),
}


@pytest.fixture(scope="module")
def parts():
    """Model, and (z, mu, P, b, w): of states mu, P in both axes and b in the first."""
    coords = {"state": range(L), "channel": range(2)}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, length=T)
        mu = pm.Normal("mu", dims="state")
        b = pm.Normal("b", dims=("state", "channel"))
        w = pm.Normal("w", shape=L)
    return model, (z, mu, prior.pi_bar, b, w)


@pytest.mark.parametrize("name", CASES)
def test_kinds(parts, name):
    """Each kind is as it should be, and what is claimed of free ones and labels is true."""
    model, variables = parts
    make, expected = CASES[name]
    leaves = _leaves(model, [model["z"]], ("state", "state_to"))
    found = kind_of(make(*variables), leaves, L)
    assert found == expected
    fresh = [v.type() for v in variables]
    rng = np.random.default_rng(0)
    differs = False
    for _ in range(10):
        path, mu, w = rng.integers(L, size=T), rng.normal(size=L), rng.normal(size=L)
        P, b, s = rng.dirichlet(np.ones(L), L), rng.normal(size=(L, 2)), rng.permutation(L)
        before = np.argsort(s)  # the old number of each new state
        moved = s[path], mu[before], P[before][:, before], b[before]
        function = pytensor.function(
            fresh, pt.as_tensor(make(*fresh)), mode="FAST_COMPILE", on_unused_input="ignore"
        )
        one = function(path, mu, P, b, w)
        other = function(*moved, w[before] if name == "without dimensions" else w)
        if name == "stacked":
            continue  # which scalar is whose is known to the user alone
        if expected.name == "free":
            for axis in expected.axes:
                one = np.take(one, before, axis)
            np.testing.assert_allclose(other, one)
        elif expected == LABEL:
            np.testing.assert_array_equal(other, s[one.astype(int)])
        else:
            differs |= one.shape != other.shape or not np.allclose(one, other)
    assert differs == (expected == NUMBERED)


def declared(more):
    """A model of two states that are far apart, with Deterministics made of (z, mu)."""
    y = np.repeat([0.0, 20.0, 0.0], 8) + np.random.default_rng(0).normal(size=24)
    with pm.Model(coords={"state": range(3)}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        start = np.repeat([2, 1, 2], 8)  # not in the order of occupancy
        z = dshdp.HiddenStates("z", prior, length=24, initial_states=start)
        mu = pm.Normal("mu", 0.0, 20.0, dims="state")
        pm.Normal("y", mu[z], 1.0, observed=y)
        for name, graph in more(z, mu).items():
            pm.Deterministic(name, graph)
    return model


def aligned(model):
    """(raw and aligned draws by name, what was said)."""
    with pytest.MonkeyPatch.context() as patch:
        python_graphs(patch)
        idata = sample(model, draws=30, tune=30)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = dshdp.align(idata)
    raw, new = group(idata, "posterior"), group(found, "posterior")
    return raw, new, [str(w.message) for w in told if "left as they are" in str(w.message)]


def test_deterministics_of_a_model():
    """What depends on numbers is named once; what does not is passed; labels are renumbered."""

    def more(z, mu):
        return {
            "rate": pt.exp(mu / 20.0)[z],
            "switches": pt.neq(z[1:], z[:-1]).astype("int64"),
            "n_occupied": (pt.bincount(z, minlength=3) > 0).sum(),
            "late": z[-1] > 1,
            "highest": z.max(),
            "total": pt.sum(z),
            "ten": z[5] * 10,
            "contrast": mu[1] - mu[0],
            "at_five": z[5],
            "somewhere": z[pt.argmax(pt.abs(mu[z]))],
        }

    raw, new, [told] = aligned(declared(more))
    names = "late, highest, total, ten, contrast"
    assert told.startswith(
        f"left as they are, although they depend on how the states are numbered: {names}. They are"
    )
    assert "may hold" not in told
    for name in ("rate", "switches", "n_occupied", *names.split(", ")):
        np.testing.assert_array_equal(new[name], raw[name])
    np.testing.assert_array_equal(new["at_five"], new["z"][..., 5])
    at = np.abs(np.take_along_axis(new["mu"].values, new["z"].values, axis=-1)).argmax(axis=-1)
    held = np.take_along_axis(new["z"].values, at[..., None], axis=-1)[..., 0]
    np.testing.assert_array_equal(new["somewhere"], held)
    assert (raw["at_five"] != new["at_five"]).any()


def test_what_depends_on_numbers_is_not_compared_between_chains():
    """Unless all of them are known, so that they mean the same in every draw."""

    def build(known):
        with pm.Model(coords={"state": ["deep", "wake"]}) as model:
            prior = dshdp.FixedTransitions("hmm", dims="state")
            z = dshdp.HiddenStates("z", prior, length=20, known=known)
            mu = pm.Normal("mu", 0.0, 20.0, dims="state")
            pm.Normal("y", mu[z], 1.0, observed=np.repeat([0.0, 20.0], 10))
            pm.Deterministic("contrast", mu[1] - mu[0])
            pm.Deterministic("spread", mu.max() - mu.min())
            pm.Deterministic("last", z[-1])
        return sample(model, draws=10, tune=10)

    with pytest.MonkeyPatch.context() as patch:
        python_graphs(patch)
        free, half, all_known = map(build, (None, {0: 0}, {0: 0, 19: 1}))
    for idata in (free, half):
        assert {"contrast", "last"}.isdisjoint(dshdp.label_invariant(idata))
        assert "spread" in dshdp.label_invariant(idata)
    assert {"contrast", "last", "spread"} <= set(dshdp.label_invariant(all_known))
    rows = [line.split()[0] for line in str(dshdp.check(all_known)).splitlines() if line]
    assert {"mu[deep]", "mu[wake]"} <= set(rows)  # brackets are no markup


def test_a_model_without_such_is_quiet():
    def more(z, mu):
        return {"rate": mu[z], "spread": mu.max() - mu.min(), "last": mu[z[-1]]}

    raw, new, told = aligned(declared(more))
    assert told == [] and (raw["z"] != new["z"]).any()


def test_deterministics_of_labelled_dimensions():
    """Of ``pymc.dims``, whose graphs are written with other Ops."""
    with pm.Model(coords={"state": range(3), "time": range(12)}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = pmd.as_xtensor(dshdp.HiddenStates("z", prior, dims="time"), dims=("time",))
        mu = pmd.Normal("mu", 0.0, 1.0, dims="state")
        pmd.Deterministic("rate", mu.isel(state=z))
        pmd.Deterministic("late", z > 1)
        pmd.Deterministic("last", z.isel(time=-1))
        pmd.Deterministic("first", mu.isel(state=0))
        pmd.Deterministic("spread", mu.max("state") - mu.min("state"))
    record_variables(model)
    found = record_in(model, model["z"])
    assert found.numbered == ("late", "first") and found.labels == ("last",)
    assert found.invariant == ("rate", "spread")


def test_each_prior_is_told_of_its_own():
    """A function of the states of two priors; fails if those of the one count for the other."""
    with pm.Model(coords={"a": range(2), "b": range(3)}) as model:
        states, levels = [], []
        for dim in "ab":
            prior = dshdp.DSHDP(f"hmm_{dim}", dims=dim)
            states.append(dshdp.HiddenStates(f"z_{dim}", prior, length=8))
            levels.append(pm.Normal(f"mu_{dim}", dims=dim))
        pm.Deterministic("rate", levels[0][states[0]] + levels[1][states[1]])
        pm.Deterministic("half", levels[0][states[0]] + states[1])
        pm.Deterministic("crossed", pt.eq(states[0], states[1]))
    assert all(has_op(z, HiddenPathRV) for z in states)
    record_variables(model)
    of_a, of_b = (record_in(model, z) for z in states)
    assert of_a.invariant == ("rate", "half") and of_a.numbered == ("crossed",)
    assert of_b.invariant == ("rate",) and of_b.numbered == ("half", "crossed")


UNARY = (
    pt.exp,
    lambda x: x + 1,
    lambda x: x[..., None] if x.ndim else x,
    lambda x: x[::-1] if x.ndim else x,
    lambda x: x[0] if x.ndim else x,
    lambda x: x.T,
    lambda x: x.sum(-1) if x.ndim else x,
    lambda x: pt.max(x),
    lambda x: pt.sort(x, axis=-1) if x.ndim else x,
    lambda x: pt.cumsum(1.0 * x),
    lambda x: pt.argmax(x, axis=-1) if x.ndim else x,
    lambda x: pt.flatten(x),
)
BINARY = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: pt.eq(x, y),
    lambda x, y: pt.switch(x > y, x, y),
    lambda x, y: pt.dot(x, y),
    lambda x, y: x[y],
    lambda x, y: x[:, y],
    lambda x, y: x[y, y],
    lambda x, y: x[y].set(1.0),
    lambda x, y: x[y].inc(1.0),
    lambda x, y: pt.stack([x, y]),
    lambda x, y: pt.concatenate([x, y]),
)


def compositions(parts, rng, n):
    """Graphs of random operations on (z, mu, P, b) and some constants."""
    pool = [*parts, pt.arange(L), pt.zeros(L), pt.as_tensor(TABLE)]
    while len(pool) < n + 7:
        x, y = (pool[i] for i in rng.integers(len(pool), size=2))
        try:
            if rng.random() < 0.4:
                new = UNARY[rng.integers(len(UNARY))](x)
            else:
                new = BINARY[rng.integers(len(BINARY))](x, y)
        except (TypeError, ValueError, IndexError, NotImplementedError):
            continue
        if new.type.ndim <= 3:
            pool.append(new)
    return pool[7:]


def test_no_composition_is_claimed_wrongly(parts):
    """Random graphs at random values: what is claimed to be free, or a label, is."""
    model, variables = parts
    leaves = _leaves(model, [model["z"]], ("state", "state_to"))
    fresh = [v.type() for v in variables[:4]]
    claims = {"free": 0, "label": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        path, mu = rng.integers(L, size=T), rng.normal(size=L)
        P, b, s = rng.dirichlet(np.ones(L), L), rng.normal(size=(L, 2)), rng.permutation(L)
        before = np.argsort(s)
        moved = s[path], mu[before], P[before][:, before], b[before]
        one = compositions(variables[:4], np.random.default_rng(seed), 12)
        other = compositions(fresh, np.random.default_rng(seed), 12)
        for graph, again in zip(one, other, strict=True):
            kind = kind_of(graph, leaves, L)
            if kind == NUMBERED:
                continue
            function = pytensor.function(
                fresh, again, mode="FAST_COMPILE", on_unused_input="ignore"
            )
            try:
                old, new = function(path, mu, P, b), function(*moved)
            except (AssertionError, IndexError, ValueError):
                continue  # shapes that do not fit, or indices out of bounds
            for axis in kind.axes:
                old = np.take(old, before, axis)
            np.testing.assert_allclose(new, s[old.astype(int)] if kind == LABEL else old)
            claims[kind.name] += 1
    assert claims["free"] > 100 and claims["label"] > 10


Y = np.repeat([-3.0, 0.0, 3.0], 4) + 0.1


def stacked():
    return pt.stack([pm.Normal(name, 0.0, 3.0) for name in "abc"])


ROWS = {
    "declared": (lambda: pm.Normal("mu", 0.0, 3.0, dims="hmm_state"), (), False),
    "computed": (lambda: pt.exp(pm.Normal("mu", 0.0, 3.0, dims="hmm_state")), (), False),
    "the same": (lambda: pm.Normal("mu", 0.0, 3.0) * pt.ones(3), (), False),
    "without a name": (lambda: pm.Normal("mu", 0.0, 3.0, shape=3), ("mu",), False),
    "stacked": (stacked, ("a", "b", "c"), False),
    "of a reference": (
        lambda: pt.concatenate([pt.zeros(1), pm.Normal("mu", 0.0, 3.0, shape=2)]),
        ("mu",),
        False,
    ),
    "constant": (lambda: pt.as_tensor(np.array([-3.0, 0.0, 3.0])), ("a constant",), True),
    "some alike": (lambda: pt.as_tensor(np.array([-3.0, 3.0, 3.0])), ("a constant",), False),
}


@pytest.mark.parametrize("case", ROWS)
def test_what_is_left_behind(case):
    """Rows that the model indexes with states and no renumbering moves are recorded."""
    rows, unnamed, tied = ROWS[case]
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=len(Y))
        pm.Normal("y", rows()[z], 0.5, observed=Y)
    record_variables(model)
    record = record_in(model, z)
    assert record.unnamed == unnamed
    assert record.tied == tied


@pytest.mark.parametrize("how", [pm.observe, pm.do])
def test_parameters_that_are_fixed(how):
    """Fails if what has the dimension of the states, and is not drawn, counts as permuted."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=len(Y))
        mu = pm.Normal("mu", 0.0, 3.0, dims="hmm_state")
        pm.Potential("p", pm.logp(pm.Normal.dist(mu[z], 0.5), Y).sum())
    record_variables(model)
    assert record_in(model, z).unnamed == ()
    fixed = how(model, {"mu": np.array([-3.0, 0.0, 3.0])})
    record_variables(fixed)
    assert record_in(fixed, fixed["z"]).unnamed == ("mu" if how is pm.observe else "a constant",)


@pytest.mark.parametrize("case", ["without a name", "stacked"])
def test_states_apart_from_their_parameters(case):
    """Fails if what is read with the model takes new numbers of z for old ones of mu.

    Not refused where align has changed no number, or the axis was named before.
    """
    rows, unnamed, _ = ROWS[case]
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=len(Y))
        pm.Normal("y", rows()[z], 0.5, observed=Y)
    one = sample(model, draws=6, tune=20, chains=1)
    with pytest.warns(UserWarning, match="left as they are"):
        same = dshdp.align(one, reference=one["posterior"]["z"].values[0, -1])
    xr.testing.assert_equal(dshdp.smooth(same, model=model), dshdp.smooth(one, model=model))
    idata = sample(model, draws=10, tune=5)
    z = idata["posterior"]["z"].values
    z[:, :5] = (z[:, :5] + 1) % 3  # label switching, along with mu
    for name in unnamed:
        x = idata["posterior"][name].values
        if x.ndim == 3:
            x[:, :5] = x[:, :5][..., [2, 0, 1]]
    with pytest.warns(UserWarning, match="left as they are"):
        aligned = dshdp.align(idata)
    for read in (
        lambda: dshdp.smooth(aligned, model=model),
        lambda: dshdp.forecast(aligned, model=model, horizon=2),
        lambda: dshdp.held_out_log_likelihood(aligned, model=model),
    ):
        with pytest.raises(ValueError, match=f"but not {', '.join(unnamed)}, which the model"):
            read()
    with pytest.raises(ValueError, match="Declare what the states have with dims='hmm_state'"):
        with pytest.warns(UserWarning, match="left as they are"):
            dshdp.plot_densities(idata, model=model)  # aligns by itself
    if case == "stacked":
        return
    posterior = group(idata, "posterior")
    named = posterior.assign(mu=posterior["mu"].rename(mu_dim_0="hmm_state"))
    renamed = dshdp.align(with_groups(idata, {"posterior": named}))
    assert dshdp.smooth(renamed, model=model).max("hmm_state").min() > 0.85
    assert dshdp.smooth(idata, model=model).max("hmm_state").min() < 0.8  # numbers are mixed


def test_constants_tell_states_apart():
    """Numbers of z are those of the constants, before and after everything that aligns."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=len(Y))
        pm.Normal("y", ROWS["constant"][0]()[z], 0.5, observed=Y)
    idata = sample(model, draws=10, tune=10)
    with pytest.raises(ValueError, match="constants that it indexes with"):
        dshdp.align(idata)
    found = dshdp.segments(idata)
    assert found["label"].tolist() == [0, 1, 2]
    assert (
        dshdp.smooth(idata, model=model).values.argmax(axis=1).tolist()
        == [0] * 4 + [1] * 4 + [2] * 4
    )
