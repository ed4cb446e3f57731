"""Alignment: one numbering of the states over draws and chains, without a truth."""

import itertools
import re
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import sample
from pymc.exceptions import ImputationWarning
from results import dressed, from_groups, noisy_copies, recorded, renumbered, result, variables

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, group_names, with_groups
from pymc_dshdp.analysis import numbering
from pymc_dshdp.analysis.consensus import (
    chain_distances,
    common_numbering,
    distances_between,
)

TRUTH = np.repeat([0, 1, 0, 2, 1, 0], [14, 9, 12, 8, 10, 7])  # 33, 19 and 8 of 60 times
L = 6
STATE_VARIABLES = ("hmm_kappa", "rate", "mu", "hmm_beta", "hmm_pi_init")


def same(one, two):
    """Whether two results have the same posterior, bit for bit."""
    one, two = variables(one), variables(two)
    return one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)


def shuffled(idata, seed):
    """The same result with the states of each draw renumbered at random."""
    posterior = variables(idata)
    order = np.argsort(np.random.default_rng(seed).random(posterior["rate"].shape), axis=-1)
    groups = {
        "posterior": dict(posterior),
        "constant_data": variables(idata, "constant_data"),
    }
    groups["posterior"]["z"] = renumbered(posterior["z"], order, None).astype("int8")
    for name in STATE_VARIABLES:
        groups["posterior"][name] = renumbered(posterior[name], order, (2,))
    groups["posterior"]["hmm_pi_bar"] = renumbered(posterior["hmm_pi_bar"], order, (2, 3))
    _, described = dressed(posterior["z"], L, np.random.default_rng(0))
    return from_groups(groups, **described)


@pytest.fixture(scope="module")
def raw():
    return result(TRUTH, L)


@pytest.fixture(scope="module")
def aligned(raw):
    return dshdp.align(raw)


def test_states_are_found_and_numbered_by_occupancy(raw, aligned):
    """Fails if states are numbered by first visit, or parameters keep their old places."""
    assert dshdp.hamming_distance(raw["posterior"]["z"], TRUTH).max() < 0.1
    np.testing.assert_array_equal(aligned["alignment"]["z_consensus"], TRUTH)
    assert (aligned["posterior"]["z"].values == TRUTH).mean() > 0.96
    occupancy = [(aligned["posterior"]["z"] == k).mean() for k in range(L)]
    assert occupancy == sorted(occupancy, reverse=True)
    posterior = variables(aligned)
    for k in range(3):  # rate k and mu 10 k + side tell the states apart
        np.testing.assert_allclose(posterior["rate"][..., k], k, atol=0.3)
        np.testing.assert_allclose(posterior["mu"][..., k, 1], 10 * k + 1, atol=0.3)
        np.testing.assert_allclose(1 / posterior["hmm_kappa"][..., k] - 2, k, atol=0.3)
        for j in range(3):
            weights = 1 + k + 0.1 * np.arange(L)
            expected = weights[j] / weights.sum()
            np.testing.assert_allclose(posterior["hmm_pi_bar"][..., k, j], expected, atol=0.003)


def test_r_hat_means_something_after_alignment(raw, aligned):
    before, after = (az.rhat(i, var_names=["rate", "hmm_kappa"]) for i in (raw, aligned))
    for name in ("rate", "hmm_kappa"):
        assert float(after[name][:3].max()) < 1.05
    stuck = chains_with_their_own_numbering()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dshdp.align(stuck)
    before, after = (az.rhat(i, var_names=["rate", "hmm_kappa"]) for i in (stuck, found))
    for name in ("rate", "hmm_kappa"):
        assert float(before[name].max()) > 2.0
        assert float(after[name][:3].max()) < 1.05


def chains_with_their_own_numbering():
    rng = np.random.default_rng(5)
    z = noisy_copies(TRUTH, (4, 50), 4, 0.03, rng)
    groups, described = dressed(z, L, rng, shuffle=False)
    posterior = groups["posterior"]
    order = np.repeat(np.argsort(rng.random((4, 1, L)), axis=-1), 50, axis=1)
    for name, values in list(posterior.items()):
        if name == "z":
            posterior[name] = renumbered(values, order, None).astype("int8")
        elif values.ndim > 2:
            posterior[name] = renumbered(values, order, (2, 3) if "pi_bar" in name else (2,))
    return from_groups(groups, **described)


def test_each_draw_is_the_same_model_renumbered(raw, aligned):
    """Fails if an axis is permuted by the inverse, or only one axis of pi_bar is."""
    before, after = variables(raw), variables(aligned)
    order = aligned["alignment"]["state_label_before"].values
    assert (np.sort(order, axis=-1) == np.arange(L)).all()
    np.testing.assert_array_equal(after["z"], renumbered(before["z"], order, None))
    for name in STATE_VARIABLES:
        np.testing.assert_array_equal(after[name], renumbered(before[name], order, (2,)))
    expected = renumbered(before["hmm_pi_bar"], order, (2, 3))
    np.testing.assert_array_equal(after["hmm_pi_bar"], expected)
    np.testing.assert_array_equal(after["hmm_alpha"], before["hmm_alpha"])


def test_aligning_twice_changes_nothing(aligned):
    again = dshdp.align(aligned)
    assert same(again, aligned)
    order = again["alignment"]["state_label_before"].values
    assert (order == np.arange(L)).all()


def test_numbering_of_the_input_does_not_matter(raw, aligned):
    """Fails if ties between states, or unoccupied states, are ordered by their numbers."""
    for seed in range(2):
        assert same(dshdp.align(shuffled(raw, seed)), aligned)


def test_ties_between_states_are_broken_by_their_first_visit():
    """Fails if states of equal size take the order of their numbers."""
    rng = np.random.default_rng(3)
    path = np.tile(np.repeat(np.arange(4), 5), (2, 8, 1))
    path[:, 1::2, :2] = [1, 1]
    path[:, 1::2, 5:7] = [0, 0]
    groups, described = dressed(path, L, rng)
    tied = from_groups(groups, **described)
    aligned = dshdp.align(tied)
    either = np.repeat([0, 1, 2, 3], [7, 3, 5, 5])  # at times 5 and 6 half of the draws say 1
    np.testing.assert_array_equal(aligned["alignment"]["z_consensus"], either)
    for seed in range(3):
        assert same(dshdp.align(shuffled(tied, seed)), aligned)


def test_layout_is_kept_and_the_input_untouched():
    """Dimensions, coordinates, attributes, dtypes and the order of variables and groups."""
    raw = result(TRUTH, L, labels=list("abcdef"), seed=1)
    copy = {g: raw[g].copy(deep=True) for g in group_names(raw)}
    raw["posterior"].attrs["note"] = copy["posterior"].attrs["note"] = "kept"
    raw["posterior"]["rate"].attrs["unit"] = copy["posterior"]["rate"].attrs["unit"] = "Hz"
    found = dshdp.align(raw)
    assert type(found) is type(raw)
    assert group_names(found) == [*group_names(raw), "alignment"]
    for g in group_names(raw):
        before, after = copy[g], found[g]
        assert list(after.data_vars) == list(before.data_vars)
        assert after.attrs == before.attrs
        for name in before.data_vars:
            assert raw[g][name].equals(before[name])
            assert after[name].dims == before[name].dims
            assert after[name].dtype == before[name].dtype
            assert after[name].attrs == before[name].attrs
            assert list(after[name].coords) == list(before[name].coords)
    assert list(found["posterior"]["state"].values) == list("abcdef")
    assert list(found["alignment"]["z_consensus"]["time"].values[:2]) == [1900, 1901]


def test_dimensions_in_any_order(raw, aligned):
    """Fails if the state axis is found by position."""
    turned = {
        name: v.transpose(*reversed(v.dims)) for name, v in raw["posterior"].data_vars.items()
    }
    turned = xr.Dataset(turned)
    other = with_groups(raw, {"posterior": turned})
    found = dshdp.align(other)
    assert found["posterior"]["mu"].dims == ("side", "state", "draw", "chain")
    for name in ("z", "mu", "hmm_pi_bar"):
        expected = aligned["posterior"][name]
        assert found["posterior"][name].transpose(*expected.dims).equals(expected)


def test_other_groups_of_the_same_draws(raw, aligned):
    """Fails if thinned predictions take the order of other draws, or prior draws are permuted."""
    some = group(raw, "posterior")[["rate", "z"]].isel(draw=slice(1, None, 3))
    both = with_groups(raw, {"posterior_predictive": some, "prior": some})
    found = dshdp.align(both)
    expected = aligned["posterior"].isel(draw=slice(1, None, 3))
    for name in ("rate", "z"):
        assert found["posterior_predictive"][name].equals(expected[name])
        assert found["prior"][name].equals(some[name])


def test_a_dictionary_of_groups(raw, aligned):
    """As other readers take it; fails if only InferenceData and DataTree are aligned."""
    groups = {name: group(raw, name) for name in group_names(raw)}
    found = dshdp.align(groups)
    assert "alignment" not in groups and same(found, aligned)
    assert str(dshdp.summary(groups)) == str(dshdp.summary(raw))


@pytest.mark.parametrize("stored", [True, False])
def test_stick_fractions_give_the_permuted_weights(stored):
    """Fails if they stay as they are where the weights are not stored."""
    rng = np.random.default_rng(2)
    groups, described = dressed(noisy_copies(TRUTH, (2, 10), 3, 0.02, rng), L, rng)
    beta = groups["posterior"]["hmm_beta"]
    left = np.cumsum(beta[..., ::-1], axis=-1)[..., ::-1]
    groups["posterior"]["hmm_v"] = (beta / left)[..., :-1]
    described["dims"]["hmm_v"] = ["state_stick"]
    if not stored:
        del groups["posterior"]["hmm_beta"]
    aligned = dshdp.align(from_groups(groups, **described))
    found = variables(aligned)
    v = np.concatenate([found["hmm_v"], np.ones((2, 10, 1))], axis=-1)
    rest = np.cumprod(np.concatenate([np.ones((2, 10, 1)), 1 - v[..., :-1]], axis=-1), axis=-1)
    order = aligned["alignment"]["state_label_before"].values
    np.testing.assert_allclose(v * rest, renumbered(beta, order, (2,)), rtol=1e-9)
    assert same(dshdp.align(aligned), aligned)


def with_copies(more):
    """A result with variables computed from its states as sampled, (chain, draw, ...)."""
    rng = np.random.default_rng(6)
    groups, described = dressed(noisy_copies(TRUTH, (3, 40), 4, 0.03, rng), L, rng)
    groups["posterior"] |= more(groups["posterior"]["z"].astype(int))
    return from_groups(groups, **described)


def test_copies_of_states_are_renumbered_with_them():
    """Fails if ``z[events]``, ``z[::-1]`` or a mask over z keep the numbers as sampled."""

    def copies(z):
        return {
            "z_at_events": z[..., [3, 14, 50]],
            "z_reversed": z[..., ::-1].astype("int8"),
            "last": z[..., -1].astype(float),
            "masked": np.where(np.arange(60) < 20, z, -1),
        }

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aligned = dshdp.align(with_copies(copies))
    found = variables(aligned)
    for name, expected in copies(found["z"].astype(int)).items():
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == expected.dtype
    assert same(dshdp.align(aligned), aligned)


def test_what_may_hold_numbers_of_states_is_named():
    """Fails if a lagged state is left without a word, or counts are taken for states."""
    lag = np.random.default_rng(0).integers(3, size=(3, 40, 1))
    counts = {"hits": np.random.default_rng(1).poisson(3.0, (3, 40, 8)), "n": np.full((3, 40), 7)}
    mixed = np.random.default_rng(2).integers(30, size=(3, 40, 1))

    def others(z):
        return {
            "z_lagged": np.take_along_axis(z, 20 - lag, axis=-1),
            "partly": np.concatenate([z[..., :2], mixed], axis=-1),
            "largest": z.max(axis=-1),
            **counts,
        }

    message = "may hold numbers of states: z_lagged, partly, largest. If they do, the numbers are"
    with pytest.warns(UserWarning, match=message):
        found = dshdp.align(with_copies(others))
    np.testing.assert_array_equal(found["posterior"]["hits"], counts["hits"])


def test_what_is_computed_from_numbers_of_states_is_named():
    """Fails if only what holds the numbers themselves is looked for."""
    level = np.random.default_rng(0).normal(size=(3, 40, L))

    def others(z):
        return {
            "is_second": z == 2,
            "late": z > 2,
            "code": 10 * z + 1,
            "ends_in_second": z[..., -1] == 2,
            "square_at_events": 1.5 * z[..., [3, 14, 50]] ** 2,
            "switch": z[..., 1:] != z[..., :-1],
            "level": np.take_along_axis(level, z, axis=-1),
        }

    with pytest.warns(UserWarning, match="may hold") as told:
        dshdp.align(with_copies(others))
    [names] = re.findall("of states: (.*). If they do", str(told[0].message))
    assert names == "is_second, late, code, ends_in_second, square_at_events"


def test_priors_that_share_a_state_dimension_are_refused():
    """Fails if the states of two priors are matched as if they were the same."""
    idata, _ = two_priors(shared=True)
    record = xr.DataArray(recorded("z2", L, prior="other"), dims="record")
    both = group(idata, "constant_data").assign(z2_record=record)
    shared = with_groups(idata, {"constant_data": both})
    message = "the priors hmm, other share the state dimension 'state'.*give each prior a dimension"
    for use in (dshdp.align, lambda i: dshdp.check(i, states="z1")):
        with pytest.raises(ValueError, match=message):
            use(shared)


def two_priors(shared):
    """Two state variables, on one state dimension or on two."""
    rng = np.random.default_rng(7)
    shape = (2, 12)
    other = (TRUTH + 1)[::-1] % 3
    names = ("state", "state") if shared else ("state", "mood")
    z = [noisy_copies(path, shape, 3, 0.02, rng) for path in (TRUTH, other)]
    groups, described = dressed(np.concatenate(z, axis=-1), L, rng)
    joint = groups["posterior"].pop("z")
    groups["posterior"]["z1"] = joint[..., :60]
    groups["constant_data"] = {
        "z1_lengths": np.array([60]),
        "z1_record": recorded("z1", L),
        "z2_lengths": np.array([60]),
        "z2_record": recorded("z2", L, dim=names[1], prior="hmm" if shared else "other"),
    }
    described["coords"]["time"] = np.arange(60)
    described["dims"] |= {"z1": ["time"], "z2": ["time"]}
    if shared:
        groups["posterior"]["z2"] = joint[..., 60:]
    else:
        more, also = dressed(z[1], L, rng, name="z2", dim="mood", prior="other")
        more["posterior"]["pace"] = more["posterior"].pop("rate")
        del more["posterior"]["mu"]
        groups["posterior"] |= more["posterior"]
        described["coords"] |= {"mood": np.arange(L), "mood_to": np.arange(L)}
        also["dims"] = {k: v for k, v in also["dims"].items() if k not in ("rate", "mu")}
        described["dims"] |= {**also["dims"], "pace": ["mood"]}
    return from_groups(groups, **described), other


@pytest.mark.parametrize("shared", [True, False])
def test_several_state_variables(shared):
    """Fails if variables that share a state dimension are aligned one by one."""
    idata, other = two_priors(shared)
    found = dshdp.align(idata)
    z1, z2 = (found["posterior"][name].values for name in ("z1", "z2"))
    if shared:
        both = np.concatenate([TRUTH, other])
        together = np.concatenate([z1, z2], axis=-1)
        order = np.argsort(-np.bincount(both), kind="stable")
        assert (np.argsort(order)[both] == together).mean() > 0.95
        np.testing.assert_allclose(
            found["posterior"]["rate"][..., :3].mean(("chain", "draw")), order, atol=0.2
        )
    else:
        assert (z1 == TRUTH).mean() > 0.95
        order = np.argsort(-np.bincount(other))
        assert (z2 == np.argsort(order)[other]).mean() > 0.95
        pace = found["posterior"]["pace"][..., :3].mean(("chain", "draw"))
        np.testing.assert_allclose(pace, order, atol=0.2)
        only = dshdp.align(idata, states="z2")
        assert only["posterior"]["z1"].equals(idata["posterior"]["z1"])
        assert only["posterior"]["z2"].equals(found["posterior"]["z2"])
    with pytest.raises(ValueError, match="states must say which|reference must be one path"):
        dshdp.align(idata, reference=TRUTH[:50])


def test_reference_keeps_its_numbers(raw):
    """Fails if the result is renumbered by occupancy."""
    numbers = np.array([4, 1, 2])
    found = dshdp.align(raw, reference=numbers[TRUTH])
    assert (found["posterior"]["z"].values == numbers[TRUTH]).mean() > 0.96
    np.testing.assert_allclose(
        found["posterior"]["rate"].mean(("chain", "draw"))[[4, 1, 2]], [0, 1, 2], atol=0.1
    )
    np.testing.assert_array_equal(found["alignment"]["z_consensus"], numbers[TRUTH])
    for reference, error, message in [
        (TRUTH[:-1], ValueError, r"one path of 'z', of shape \(60,\); received shape \(59,\)"),
        (TRUTH + 1.0, TypeError, "reference must have integer labels, received dtype float64"),
        (TRUTH + 4, ValueError, "reference must have labels 0 to 5, received 4 to 6; renumber"),
    ]:
        with pytest.raises(error, match=message):
            dshdp.align(raw, reference=reference)


def test_known_states_keep_their_numbers():
    """Fails if a state with known times is numbered by occupancy, or takes part in the matching."""
    rng = np.random.default_rng(8)
    numbers = np.array([1, 5, 2])  # of the three states of the truth; 5 and 2 are known
    known = np.where(np.isin(np.arange(60), [15, 16, 36, 37]), numbers[TRUTH], -1)
    z = np.where(known < 0, noisy_copies(numbers[TRUTH], (3, 40), 3, 0.03, rng), known)
    groups, described = dressed(z, L, rng, shuffle=False)
    posterior = groups["posterior"]
    free = np.array([0, 1, 3, 4])
    order = np.broadcast_to(np.arange(L), (3, 40, L)).copy()
    order[..., free] = rng.permuted(np.broadcast_to(free, (3, 40, 4)), axis=-1)
    posterior["z"] = renumbered(posterior["z"], order, None).astype("int8")
    posterior["rate"] = renumbered(posterior["rate"], order, (2,))
    groups["constant_data"]["z_known"] = known
    described["dims"]["z_known"] = ["time"]
    found = dshdp.align(from_groups(groups, **described))
    aligned = np.array([0, 5, 2])[TRUTH]
    np.testing.assert_array_equal(found["alignment"]["z_consensus"], aligned)
    assert (found["posterior"]["z"].values == aligned).mean() > 0.95
    np.testing.assert_array_equal(
        found["posterior"]["rate"][..., [2, 5]], posterior["rate"][..., [2, 5]]
    )
    np.testing.assert_allclose(found["posterior"]["rate"][..., 0], 1.0, atol=0.3)


def split_chains():
    """Chain 1 divides state 0 into two, which the other chains do not."""
    rng = np.random.default_rng(11)
    z = noisy_copies(TRUTH, (3, 30), 3, 0.02, rng)
    divided = TRUTH.copy()
    divided[:14] = 3
    z[1] = noisy_copies(divided, (30,), 4, 0.02, rng)
    groups, described = dressed(z, L, rng)
    return from_groups(groups, **described)


def test_chains_that_disagree_are_named():
    """Fails if the distance within chains is taken between a draw and itself too."""
    message = r"the chains \[0, 2\] and \[1\] found different segmentations: draws of different"
    with pytest.warns(UserWarning, match=message):
        found = dshdp.align(split_chains())
    distance = found["alignment"]["state_chain_distance"].values
    np.testing.assert_array_equal(distance, distance.T)
    assert distance[0, 2] < 0.06 < 0.2 < distance[0, 1]
    np.testing.assert_array_equal(found["alignment"]["state_chain_group"], [0, 1, 0])
    paths = np.array([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]], [[0, 0, 1, 1]] * 3])
    between = distances_between(paths.reshape(6, 4), 2)
    np.testing.assert_allclose(
        chain_distances(between, 2).distances, [[1 / 6, 1 / 12], [1 / 12, 0]]
    )


def test_long_series_are_searched_on_a_grid(monkeypatch, raw, aligned):
    """Fails if times between those of the grid take the label of a neighbour."""
    monkeypatch.setattr(numbering, "TIMES", 31)
    found = dshdp.align(raw)
    consensus = found["alignment"]["z_consensus"]
    np.testing.assert_array_equal(consensus, aligned["alignment"]["z_consensus"])
    assert (found["posterior"]["z"].values == TRUTH).mean() > 0.96


@pytest.mark.parametrize("seed", range(6))
def test_the_common_numbering_is_the_best_of_all(seed):
    """Compare with all 6^3 numberings of four paths; fails if votes are counted for old numbers."""
    rng = np.random.default_rng(seed)
    paths = noisy_copies(np.repeat([0, 1, 2], [5, 4, 3]), (4,), 3, 0.25, rng)
    paths = renumbered(paths, np.argsort(rng.random((4, 3)), axis=-1), None)
    permutations = np.array(list(itertools.permutations(range(3))))

    def apart(numbered):
        return np.mean([np.mean(a != b) for a in numbered for b in numbered])

    others = itertools.product(permutations, repeat=3)
    costs = [
        apart([paths[0], *(n[p] for n, p in zip(numbers, paths[1:], strict=True))])
        for numbers in others
    ]
    found = [common_numbering(paths, start, 3) for start in paths]
    distance, numbers = min(found, key=lambda one: one[0])
    assert distance == pytest.approx(min(costs), abs=1e-12)
    numbered = np.take_along_axis(numbers, paths, axis=1)
    assert apart(numbered) == pytest.approx(distance, abs=1e-12)


def doubtful_draws(means, stay, seed, T=220, draws=400):
    """Draws of the path of a Gaussian HMM whose states overlap, renumbered; and as they were."""
    rng = np.random.default_rng(seed)
    K = len(means)
    P = np.full((K, K), (1 - stay) / (K - 1)) + (stay - (1 - stay) / (K - 1)) * np.eye(K)
    truth = [0]
    for _ in range(T - 1):
        truth.append(rng.choice(K, p=P[truth[-1]]))
    y = means[truth] + rng.standard_normal(T)
    density = np.exp(-0.5 * (y[:, None] - means) ** 2)
    filtered = [density[0] / density[0].sum()]
    for row in density[1:]:
        joint = filtered[-1] @ P * row
        filtered.append(joint / joint.sum())
    z = np.empty((draws, T), int)
    weights = np.broadcast_to(filtered[-1], (draws, K))
    for t in range(T - 1, -1, -1):
        z[:, t] = (weights.cumsum(axis=1) < rng.random((draws, 1)) * weights.sum(1)[:, None]).sum(1)
        weights = filtered[t - 1] * P[:, z[:, t]].T
    order = np.argsort(rng.random((draws, K)), axis=1)
    level = np.array([[y[path == k].mean() for k in range(K)] for path in z])
    groups = {
        "posterior": {
            "z": renumbered(z[None], order[None], None).astype("int8"),
            "level": renumbered(level[None], order[None], (2,)),
        },
        "constant_data": {"z_lengths": np.array([T]), "z_record": recorded("z", K)},
    }
    dims = {"z": ["time"], "level": ["state"], "z_lengths": ["sequence"]}
    return from_groups(groups, coords={"state": np.arange(K)}, dims=dims), z


@pytest.mark.parametrize("seed", range(2))
def test_draws_are_not_mislabelled_where_single_times_are_doubtful(seed):
    """Two regimes; a segmentation of least variation of information to the draws is one state.

    Fails if draws are matched with such a segmentation: many have the other's numbers.
    """
    idata, z = doubtful_draws(np.array([0.0, 1.2]), 0.75, seed)
    found = dshdp.align(idata)["posterior"]["z"].values[0]
    same = (found == z).all(axis=1)
    flipped = (found == 1 - z).all(axis=1)
    assert (same | flipped).all()
    assert min(same.mean(), flipped.mean()) < 0.005


def test_parameters_help_where_paths_cannot_tell(monkeypatch):
    """Paths that are fair coins, beside levels that tell; fails if the levels have no say."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=(1, 400, 60))
    groups, described = dressed(truth, 2, rng)
    idata = from_groups(groups, **described)

    def mislabelled():
        found = dshdp.align(idata)["posterior"]["z"].values
        return dshdp.hamming_distance(found.reshape(-1), truth.reshape(-1))

    helped = mislabelled()
    monkeypatch.setattr(numbering, "PARAMETERS", 0.0)
    assert helped == 0.0 and mislabelled() > 0.3


def test_unnamed_state_axes_are_pointed_out():
    rng = np.random.default_rng(2)
    groups, described = dressed(noisy_copies(TRUTH, (2, 10), 3, 0.02, rng), L, rng)
    del described["dims"]["mu"]
    message = (
        r"no name: mu \(mu_dim_0\). If they are states, declare the variables with dims='state'"
    )
    with pytest.warns(UserWarning, match=message):
        found = dshdp.align(from_groups(groups, **described))
    np.testing.assert_array_equal(found["posterior"]["mu"], groups["posterior"]["mu"])


def test_missing_observations_are_no_states():
    """As many missing values as states; fails if their axis is pointed out as perhaps states."""
    y = np.ma.masked_invalid([0.1, np.nan, 5.2, 4.9, np.nan, 0.2, -0.3, np.nan])
    with pm.Model(coords={"state": range(3)}):
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), length=8)
        mu = pm.Normal("mu", 0, 5, dims="state")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImputationWarning)
            pm.Normal("y", mu[z], 1.0, observed=y)
        idata = pm.sample(
            5, tune=5, chains=1, cores=1, progressbar=False, compute_convergence_checks=False
        )
    assert idata["posterior"]["y_unobserved"].shape == (1, 5, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dshdp.align(idata)


def test_results_that_cannot_be_aligned(raw):
    rng = np.random.default_rng(2)
    groups, described = dressed(noisy_copies(TRUTH, (2, 4), 3, 0.02, rng), L, rng)
    with pytest.raises(ValueError, match="states='w' is not in the posterior; it has"):
        dshdp.align(raw, states="w")
    record = groups["constant_data"].pop("z_record")
    with pytest.raises(ValueError, match="does not say which of its variables are hidden states"):
        dshdp.align(from_groups(groups, **described))
    groups["constant_data"]["z_record"] = record
    groups["posterior"]["z"] = groups["posterior"]["z"] + 1.0
    with pytest.raises(ValueError, match="must hold integer labels, received dtype float64"):
        dshdp.align(from_groups(groups, **described))
    groups, described = dressed(noisy_copies(TRUTH, (2, 4), 3, 0.02, rng) + L, L + 9, rng)
    groups["constant_data"]["z_record"] = recorded("z", 3, dim="short")
    with pytest.raises(ValueError, match="must have labels 0 to 2, one for each entry of 'short'"):
        dshdp.align(from_groups(groups, **described))


@pytest.fixture(scope="module")
def fitted():
    """A real fit: three well separated rates, each chain with its own numbering."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.array([5.0, 20.0, 50.0])[TRUTH, None], (TRUTH.size, 3))
    coords = {"state": list("abcd"), "time": np.arange(TRUTH.size), "cell": np.arange(3)}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="time")
        rate = pm.Gamma("rate", 1.0, 0.05, dims=("state", "cell"))
        pm.Poisson("counts", rate[z], observed=counts, dims=("time", "cell"))
    return sample(model, draws=400, tune=200, chains=4)


def test_a_real_fit(fitted):
    """R-hat above 1.5 as sampled and below 1.05 aligned, on states that all chains found.

    As sampled it depends on how many of the four chains share a numbering by chance: two do here.
    """
    aligned = dshdp.align(fitted)
    names = ["rate", "hmm_kappa"]
    raw, found = (az.rhat(i, var_names=names) for i in (fitted, aligned))
    assert float(raw["rate"].max()) > 1.5
    assert max(float(found[name].sel(state=["a", "b", "c"]).max()) for name in names) < 1.05
    rate = aligned["posterior"]["rate"].mean(("chain", "draw")).sel(state=["a", "b", "c"])
    np.testing.assert_allclose(rate.mean("cell"), [5.0, 20.0, 50.0], rtol=0.1)
    np.testing.assert_array_equal(aligned["alignment"]["z_consensus"], TRUTH)
