"""Tables of a result, and the convergence check."""

import numpy as np
import pandas as pd
import pytest
from results import dressed, from_groups, noisy_copies, result, variables

import pymc_dshdp as dshdp
from pymc_dshdp.analysis import report

TRUTH = np.repeat([0, 1, 0, 2, 1, 0], [14, 9, 12, 8, 10, 7])
L = 6


@pytest.fixture(scope="module")
def exact():
    """Draws that all have the true path, numbered at random; rates exactly k but for noise."""
    return result(TRUTH, L, noise=0.0, extra=0, draws=100)


@pytest.fixture(scope="module")
def table(exact):
    return dshdp.summary(exact)


def test_states_of_a_known_path(exact, table):
    """Fails if runs are counted across draws, or P_jj leaves out pi_bar."""
    assert table.main == [0, 1, 2]
    np.testing.assert_allclose(table.occupied["probability"], [1.0])
    assert list(table.occupied.index) == [3]
    states = table.states
    np.testing.assert_allclose(states["in_use"], 1.0)
    np.testing.assert_allclose(states["occupancy"], np.array([33, 19, 8]) / 60)
    np.testing.assert_allclose(states["observed_dwell"], [33 / 3, 19 / 2, 8])
    np.testing.assert_allclose(states["self_persistence"], 1 / (2.0 + np.arange(3)), rtol=0.05)
    weights = 1 + np.arange(3)[:, None] + 0.1 * np.arange(L)
    pi_bar = weights / weights.sum(axis=1, keepdims=True)
    kappa = 1 / (2.0 + np.arange(3))
    P = np.diag(kappa) + (1 - kappa)[:, None] * pi_bar[:, :3]
    np.testing.assert_allclose(table.transition_matrix, P, atol=0.01)
    np.testing.assert_allclose(states["stay"], np.diag(P), atol=0.02)
    np.testing.assert_allclose(states["expected_dwell"], 1 / (1 - np.diag(P)), rtol=0.05)
    assert (states["stay_lower"] < states["stay"]).all()
    assert (states["stay"] < states["stay_upper"]).all()


def test_parameters_by_element(table):
    rate = table.parameters.loc["rate"]
    np.testing.assert_allclose(rate["mean"], [0, 1, 2], atol=0.03)
    mu = table.parameters.loc["mu"]
    assert list(mu.index) == [(k, side) for k in range(3) for side in ("left", "right")]
    np.testing.assert_allclose(mu["mean"], [0, 1, 10, 11, 20, 21], atol=0.03)


def test_intervals_are_over_draws_that_occupy_the_state():
    """Fails if prior draws of a state that is not in use enter its summary."""
    rng = np.random.default_rng(0)
    z = noisy_copies(TRUTH, (2, 60), 3, 0.0, rng)
    z[:, ::2][z[:, ::2] == 2] = 1  # half of the draws do without state 2
    groups, described = dressed(z, L, rng, shuffle=False)
    groups["posterior"]["rate"][:, ::2, 2] = 50.0
    groups["posterior"]["hmm_kappa"][:, ::2, 2] = 0.99
    found = dshdp.summary(from_groups(groups, **described), prob=0.5)
    assert found.states.loc[2, "in_use"] == 0.5
    assert list(found.occupied.index) == [2, 3]
    np.testing.assert_allclose(found.parameters.loc[("rate", 2, ""), "mean"], 2.0, atol=0.05)
    columns = ["self_persistence_lower", "self_persistence", "self_persistence_upper"]
    np.testing.assert_allclose(found.states.loc[2, columns].astype(float), 1 / 4, atol=0.01)
    np.testing.assert_allclose(found.states["occupancy"], [33 / 60, 23 / 60, 4 / 60])
    with pytest.raises(ValueError, match=r"prob must be in \(0, 1\), received 90"):
        dshdp.summary(from_groups(groups, **described), prob=90)


def test_a_summary_prints(exact, table):
    text = str(table)
    assert text == repr(table)
    assert max(map(len, text.splitlines())) <= 100
    for words in ("60 time points in 1 sequence; 3 chains of 100 draws", "Main states, numbered"):
        assert words in text
    assert "0.0% of the draws occupy all 6 states" in text
    mime = table._repr_mimebundle_(include=[], exclude=[])
    assert "Transition matrix" in mime["text/html"]
    assert str(dshdp.summary(dshdp.align(exact))) == text


def test_forty_states_print_within_the_width():
    truth = np.repeat(np.arange(40), 5)
    text = str(dshdp.summary(result(truth, 45, draws=20, noise=0.0, extra=0)))
    assert max(map(len, text.splitlines())) <= 100
    assert "28 more main states are in .states" in text


def test_columns_that_do_not_fit_go_below():
    """Fails if they are cut off."""
    cell = "0.123 [0.1, 0.2]"
    frame = pd.DataFrame({f"column {i}": [cell, cell] for i in range(8)}, index=["a", "b"])

    class Wide(report.Report):
        def __rich_console__(self, console, options):
            yield from report.table(frame, "title")

    text = str(Wide())
    assert all(f"column {i}" in text for i in range(8)) and text.count(cell) == 16
    assert max(map(len, text.splitlines())) <= report.WIDTH


def test_sequences_end_their_runs():
    """Fails if the two sequences are read as one: state 1 would have one run of 15."""
    truth = np.repeat([0, 1, 1, 0], [20, 10, 5, 30])
    found = dshdp.summary(result(truth, 4, noise=0.0, extra=0, lengths=[30, 35]))
    assert found.states.loc[1, "observed_dwell"] == 7.5
    assert found.shape == (3, 40, 2, 65)
    np.testing.assert_allclose(found.diagnostics.loc["n_switches", "mean"], 2)


def test_summary_needs_the_transition_prior(exact):
    groups, described = dressed(
        noisy_copies(TRUTH, (2, 5), 3, 0, np.random.default_rng(0)), L, np.random.default_rng(0)
    )
    del groups["posterior"]["hmm_pi_bar"]
    with pytest.raises(ValueError, match="one variable named <prior>_pi_bar with dimensions"):
        dshdp.summary(from_groups(groups, **described))
    groups["posterior"]["hmm_pi_bar"] = np.full((2, 5, L, L), 1 / L)
    groups["posterior"]["hmm_phi"] = np.full((2, 5), 0.5)
    del groups["posterior"]["hmm_kappa"]
    with pytest.raises(ValueError, match="'hmm_kappa' is not in the posterior; keep it in var_n"):
        dshdp.summary(from_groups(groups, **described))
    del groups["posterior"]["hmm_phi"]  # as of HDP: no self-persistence
    found = dshdp.summary(from_groups(groups, **described))
    np.testing.assert_allclose(found.transition_matrix, 1 / L)
    assert "self_persistence" not in found.states


def good(seed=0, **kwargs):
    return result(TRUTH, L, chains=4, draws=150, seed=seed, **kwargs)


def test_a_good_result_passes():
    found = dshdp.check(good())
    assert found.ok and found.problems == []
    assert "No problem found." in str(found)
    assert {"n_occupied", "n_switches", "hmm_alpha"} <= set(found.diagnostics.index)
    assert "distance_to_consensus" in found.diagnostics.index
    assert {"rate[0]", "rate[2]", "hmm_kappa[1]", "mu[1, right]"} <= set(found.aligned.index)
    assert found.aligned["r_hat"].max() < 1.01
    assert found.chain_distance.shape == (4, 4)


def test_chains_that_disagree_are_reported_and_left_out():
    """Fails if parameters are compared over chains with different segmentations."""
    rng = np.random.default_rng(1)
    z = noisy_copies(TRUTH, (4, 150), 4, 0.02, rng)
    divided = np.where(np.arange(60) < 14, 3, TRUTH)
    z[2] = noisy_copies(divided, (150,), 4, 0.02, rng)
    groups, described = dressed(z, L, rng)
    found = dshdp.check(from_groups(groups, **described))
    assert not found.ok
    assert any("the chains [0, 1, 3] and [2] found different" in p for p in found.problems)
    assert any("distance_to_consensus" in p for p in found.problems)
    assert any("chains 0, 1, 3 that agree" in note for note in found.notes)
    assert found.aligned["r_hat"].max() < 1.02
    assert "different segmentations" in str(found)


def test_each_problem_has_its_advice():
    """Fails if any of these is missed: apart, few draws, truncation, divergences, parameters."""
    groups, described = dressed(
        noisy_copies(TRUTH, (4, 150), L, 0.3, np.random.default_rng(3)), L, np.random.default_rng(3)
    )
    posterior = groups["posterior"]
    posterior["hmm_alpha"] += np.arange(4)[:, None]
    posterior["hmm_gamma"] = np.cumsum(np.random.default_rng(0).normal(size=(4, 150)), axis=1)
    posterior["rate"] += 0.1 * np.arange(4)[:, None, None]
    stats = np.random.default_rng(0).normal(size=(4, 150))
    groups["sample_stats"] = {
        "diverging": stats > 2.0,
        "log_marginal_likelihood": stats - 50.0 * (np.arange(4) == 3)[:, None],
    }
    found = dshdp.check(from_groups(groups, **described))
    text = " ".join(found.problems)
    for words in (
        "R-hat is above 1.01 for log_marginal_likelihood",
        "hmm_alpha",
        "mean log marginal likelihoods are 0: ",
        "give it more tuning",
        "the effective sample size of 4 x 150 draws is below 400 for",
        "of the draws occupy all 6 states",
        "raise n_states, to 12 say",
        "raise target_accept",
        "after alignment R-hat is above 1.01 for rate[",
    ):
        assert words in text, words
    assert found.divergences == int((stats > 2.0).sum())
    assert found.truncated > 0.5


def test_one_chain_is_noted():
    found = dshdp.check(result(TRUTH, L, chains=1, draws=150))
    assert any("one chain cannot show whether others agree" in note for note in found.notes)
    assert "one chain" in str(found)


def test_check_does_not_see_labels():
    raw = good(seed=4)
    one, two = dshdp.check(raw), dshdp.check(dshdp.align(raw))
    assert one.problems == two.problems
    np.testing.assert_array_equal(one.diagnostics, two.diagnostics)
    np.testing.assert_array_equal(one.aligned, two.aligned)
    assert "z" in variables(raw)
