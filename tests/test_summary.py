"""Tables of a result, and the convergence check."""

import io
import re
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from results import dressed, from_groups, noisy_copies, recorded, result, variables
from rich.console import Console

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, with_groups
from pymc_dshdp.analysis import checks, report
from pymc_dshdp.analysis.convergence import judge
from pymc_dshdp.analysis.invariant import diagnostics
from pymc_dshdp.likelihood.conditional import reasons

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
    assert max(map(len, text.splitlines())) <= report.WIDTH
    for words in ("60 time points in 1 sequence; 3 chains of 100 draws", "Main states, numbered"):
        assert words in text
    assert "0.0% of the draws occupy all 6 states" in text
    assert "Transition matrix" in table._repr_html_()
    assert str(dshdp.summary(dshdp.align(exact))) == text


def test_forty_states_print_within_the_width():
    truth = np.repeat(np.arange(40), 5)
    text = str(dshdp.summary(result(truth, 45, draws=20, noise=0.0, extra=0)))
    assert max(map(len, text.splitlines())) <= report.WIDTH
    assert "28 more main states are in .states" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_reports_are_as_wide_as_the_terminal(width, monkeypatch):
    """Fails if columns are cut off: the gap between two is two columns wide."""
    monkeypatch.setenv("COLUMNS", str(width))
    cell = "0.123 [0.1, 0.2]"
    frame = pd.DataFrame({f"column {i}": [cell, cell] for i in range(8)}, index=["state", "b"])

    class Wide(report.Report):
        def __rich_console__(self, console, options):
            yield from report.table(frame, "title", options)

    text = str(Wide())
    assert all(f"column {i}" in text for i in range(8)) and text.count(cell) == 16
    assert max(map(len, text.splitlines())) <= width
    assert text.count("state") == -(-8 // ((width - 5) // 18))
    assert "…" not in text
    console = Console(file=io.StringIO(), width=width)
    console.print(Wide())
    assert console.file.getvalue().count(cell) == 16


def test_notebooks_get_no_escape_codes(table, monkeypatch):
    """Fails if the text of a report is that of a colour terminal, as in notebooks and exports."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    for text in (str(table), repr(table), table._repr_html_()):
        assert "\x1b" not in text
    assert table._repr_html_().startswith("<pre") and "font-weight: bold" in table._repr_html_()


def test_all_state_parameters_are_printed_or_named(exact):
    """Fails if the first one only is printed, without a word on the others."""
    groups = {"posterior": group(exact, "posterior")}
    groups["posterior"] = groups["posterior"].assign(
        **{name: groups["posterior"]["rate"] * i for i, name in enumerate(("shape", "slope"), 1)}
    )
    text = str(dshdp.summary(with_groups(exact, groups)))
    for name in ("rate", "shape", "slope"):
        assert name in text
    assert "mu: see .parameters" in text


def test_infinite_dwells_and_tiny_probabilities():
    """Fails if a quantile of dwells is taken between a number and infinity."""
    groups, described = dressed(
        noisy_copies(TRUTH, (2, 50), 3, 0.0, np.random.default_rng(0)), L, np.random.default_rng(0)
    )
    groups["posterior"]["hmm_kappa"][:, ::3] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dshdp.summary(from_groups(groups, **described), prob=0.9)
    states = found.states
    assert np.isfinite(states["expected_dwell"]).all()
    assert (states["expected_dwell_upper"] == np.inf).all()
    assert "∞]" in str(found) and "-]" not in str(found)
    texts = report.interval(
        [4e-6, 0.5, 3e-5, -2e-5], [4e-103, 0.0, 2e-5, -1.0], [0.18, np.inf, 4e-5, 1]
    )
    assert texts == [
        "<0.001 [<0.001, 0.18]",
        "0.5 [0, ∞]",
        "3e-05 [2e-05, 4e-05]",
        ">-0.001 [-1, 1]",
    ]


def test_a_given_number_of_states_is_no_truncation():
    """Fails if users of ``FixedTransitions`` are told to raise n_states."""
    groups, described = dressed(
        noisy_copies(TRUTH, (4, 150), 3, 0.03, np.random.default_rng(1)),
        3,
        np.random.default_rng(1),
    )
    groups["constant_data"]["z_record"] = recorded("z", 3, kind="FixedTransitions")
    fixed = from_groups(groups, **described)
    checked, table = dshdp.check(fixed), dshdp.summary(fixed)
    assert checked.truncated == table.truncated == 1.0
    assert checked.ok, str(checked)
    assert "raise n_states" not in str(table) and "truncation" not in str(table)


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
    with pytest.raises(ValueError, match="'hmm_pi_bar' is not in the posterior, the switching r"):
        dshdp.summary(from_groups(groups, **described))
    groups["posterior"]["hmm_pi_bar"] = np.full((2, 5, L, L), 1 / L)
    del groups["posterior"]["hmm_kappa"]
    with pytest.raises(ValueError, match="'hmm_kappa' is not in the posterior, the self-persist"):
        dshdp.summary(from_groups(groups, **described))
    groups["constant_data"]["z_record"] = recorded("z", L, kind="HDP", kappa="none")
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


def divided_chains(stats=None):
    """Chain 2 of four divides state 0 into two."""
    rng = np.random.default_rng(1)
    z = noisy_copies(TRUTH, (4, 150), 4, 0.02, rng)
    divided = np.where(np.arange(60) < 14, 3, TRUTH)
    z[2] = noisy_copies(divided, (150,), 4, 0.02, rng)
    groups, described = dressed(z, L, rng)
    if stats:
        groups["sample_stats"] = stats
    return from_groups(groups, **described)


def test_chains_that_disagree_are_reported_and_left_out():
    """Fails if parameters are compared over chains with different segmentations."""
    found = dshdp.check(divided_chains())
    assert not found.ok
    assert "the chains [0, 1, 3] and [2] found different" in found.problems[0]
    assert any("chains 0, 1, 3 that agree" in note for note in found.notes)
    assert found.aligned["r_hat"].max() < 1.02
    assert "different segmentations" in str(found)


def test_check_says_how_chains_were_started():
    """And whether the plain ones got to where the others are; chain 2 is elsewhere."""

    def said(piloted):
        return " ".join(dshdp.check(divided_chains({"piloted": piloted})).notes)

    piloted = np.ones((4, 150), bool)
    assert "none plainly" in said(piloted)
    for plain, words in ((3, "reached the same"), (2, "did not reach the same")):
        found = said(piloted & (np.arange(4) != plain)[:, None])
        assert f"[{plain}], started plainly, {words} segmentation" in found
    assert "plainly" not in said(~piloted)


def test_chains_are_ranked_by_the_joint_or_not_at_all():
    """Fails if they are ranked by the log marginal likelihood, which likes more states."""
    noise = np.random.default_rng(0).normal(size=(4, 150))
    higher = 50.0 * (np.arange(4) == 2)[:, None]
    stats = {"log_marginal_likelihood": noise + higher}
    found = dshdp.check(divided_chains(stats))
    assert "nothing here ranks them (log_marginal_likelihood does not" in found.problems[0]
    assert list(found.modes["chains"]) == [[0, 1, 3], [2]]
    assert list(found.modes["share"]) == [0.75, 0.25]
    assert found.modes["states"][1] > found.modes["states"][0] + 0.5
    assert "log_joint" not in found.modes

    found = dshdp.check(divided_chains({**stats, "log_joint": noise - 1.44 * higher}))
    message = r"mean log_joint \[0, 1, 3\] lies highest, \[2\] 72 nats below, but the entropy"
    assert re.search(message, found.problems[0]), found.problems[0]
    np.testing.assert_allclose(-np.diff(found.modes["log_joint"]), 72, atol=1)
    entropy = {"path_entropy": 2.88 * higher + 0.0 * noise}
    found = dshdp.check(divided_chains({**stats, "log_joint": noise - 1.44 * higher, **entropy}))
    assert "believe 1 of 4 chains, [2]" in found.problems[0]
    assert "log_joint + path_entropy" in found.problems[0]
    close = {**stats, "log_joint": noise - 0.02 * higher}
    assert "none is to be preferred" in dshdp.check(divided_chains(close)).problems[0]
    unknown = {**stats, "log_joint": np.full((4, 150), np.nan)}
    found = dshdp.check(divided_chains(unknown))
    assert "nothing here ranks them" in found.problems[0]
    assert "log_joint" not in found.diagnostics.index


def autoregressions(rho, n, seed, quantities=10):
    """Stationary chains, (4, n), of an effective size of some 4 n (1 - rho) / (1 + rho)."""
    rng = np.random.default_rng(seed)
    x = np.empty((quantities, 4, n))
    x[..., 0] = rng.standard_normal((quantities, 4)) / np.sqrt(1 - rho**2)
    for t in range(1, n):
        x[..., t] = rho * x[..., t - 1] + rng.standard_normal((quantities, 4))
    return xr.Dataset({f"q{i}": (("chain", "draw"), values) for i, values in enumerate(x)})


def test_long_runs_pass_and_short_ones_say_how_many_draws_they_want():
    """Fails if R-hat may not be above 1.01 in any of ten quantities: half of the runs here are.

    Or if the least of twenty estimates of 400 effective draws must be 400.
    """
    strict = 0
    for seed in range(8):
        draws = autoregressions(0.7, 1000, seed)
        table = diagnostics(draws)
        verdict = judge(table, draws, 10)
        assert not verdict.apart and not verdict.short and verdict.more == 0
        strict += (table["r_hat"] > 1.01).any()
    assert strict > 1
    draws = autoregressions(0.82, 1000, 1)
    assert not judge(diagnostics(draws), draws, 10).short
    assert verdict.largest_r_hat == pytest.approx(1.0365, abs=1e-4)
    draws = autoregressions(0.95, 1000, 0)  # 100 effective draws, where 400 are wanted
    verdict = judge(diagnostics(draws), draws, 10)
    assert not verdict.apart and len(verdict.short) >= 8
    assert 2000 < verdict.more < 12000  # the worst of ten; 3,000 on average


def test_levels_that_differ_are_not_called_short():
    """Fails if a chain elsewhere is advised to be run for longer, or a slow one is not."""
    draws = autoregressions(0.5, 1000, 0)
    draws["q0"] = draws["q0"] + 5.0 * (draws["chain"] == 2)
    slow = autoregressions(0.998, 1000, 1, quantities=1)
    draws["slow"] = slow["q0"]
    verdict = judge(diagnostics(draws), draws, 11)
    assert verdict.apart == ["q0"] and verdict.short == ["slow"]


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (3, 3)])
def test_chains_without_an_effective_sample_size_are_short(chains, draws):
    """Fails if what ArviZ cannot tell of so few draws is taken for nothing wrong."""
    checked = dshdp.check(result(TRUTH, L, chains=chains, draws=draws, noise=0.0))
    assert not checked.problems and not checked.ok and checked.more_draws == 100
    [text] = checked.short
    assert text.startswith(
        f"chains of fewer than 4 draws have no effective sample size; these have {draws}"
    )


def test_an_infinite_r_hat_is_no_rate():
    """Fails, with an overflow, if half chains that are constant want infinitely many draws."""
    halves = np.repeat([[8.0, 7.0], [8.0, 8.0]], 6, axis=1)
    draws = xr.Dataset({"n_occupied": (("chain", "draw"), halves)})
    found = diagnostics(draws)
    assert (found["r_hat"] > 1e6).all()
    verdict = judge(found, draws, 1)
    assert verdict.short == ["n_occupied"] and 0 < verdict.more < 10_000


def test_each_problem_has_its_advice():
    """Fails if any of these is missed: apart, few draws, truncation, divergences, parameters."""
    groups, described = dressed(
        noisy_copies(TRUTH, (4, 150), L, 0.3, np.random.default_rng(3)), L, np.random.default_rng(3)
    )
    posterior = groups["posterior"]
    posterior["hmm_alpha"] += 2.0 * np.arange(4)[:, None]
    posterior["hmm_gamma"] = np.cumsum(np.random.default_rng(0).normal(size=(4, 150)), axis=1)
    posterior["rate"] += 0.1 * np.arange(4)[:, None, None]
    groups["sample_stats"] = {"diverging": np.random.default_rng(0).normal(size=(4, 150)) > 2.0}
    found = dshdp.check(from_groups(groups, **described))
    text = " ".join(found.problems)
    for words in (
        "the chains are at different levels, R-hat hmm_alpha",
        "more draws alone will not bring them together",
        "of the draws occupy all 6 states",
        "raise n_states, to 12 say",
        "raise target_accept",
        "the chains are at different levels after alignment, R-hat rate[",
    ):
        assert words in text, words
    [short] = found.short
    assert "the effective sample size is below 200 for hmm_gamma" in short
    assert f"about {found.more_draws:,} more draws in each chain at this rate" in short
    assert not found.ok and "Short: the effective" in str(found)
    assert found.divergences == int(groups["sample_stats"]["diverging"].sum())
    assert found.truncated > 0.5


def test_a_state_that_no_time_is_sure_of_is_named():
    """Fails if a consensus with fewer states than the draws goes by without a word."""
    rng = np.random.default_rng(2)
    z = np.where(rng.random((4, 150, 60)) < 0.35, 2, TRUTH.clip(max=1))
    groups, described = dressed(z, 4, rng)
    found = dshdp.check(from_groups(groups, **described))
    [note] = [note for note in found.notes if "z_consensus has fewer states" in note]
    assert "the state 1 is the most probable of no time point" in note
    assert "35% of the time" in note


def test_one_draw_that_differs_is_no_problem():
    """Fails if draws are held to differ more from the consensus than from each other by chance."""
    z = np.tile(TRUTH, (4, 150, 1))
    z[1, 7, 5] = 2  # among the draws that are not compared with each other
    groups, described = dressed(z, L, np.random.default_rng(3))
    found = dshdp.check(from_groups(groups, **described))
    assert not [problem for problem in found.problems if "no one numbering" in problem]


def test_a_numbering_that_serves_no_draw_is_a_problem(monkeypatch):
    found = check_with_matching(monkeypatch, from_consensus=0.3, apart=0.2)
    assert [problem for problem in found.problems if "no one numbering serves" in problem]


def check_with_matching(monkeypatch, **changed):
    match = checks.match_states
    monkeypatch.setattr(checks, "match_states", lambda *a: match(*a)._replace(**changed))
    return dshdp.check(good())


def test_one_chain_is_noted():
    found = dshdp.check(result(TRUTH, L, chains=1, draws=150))
    assert any("one chain cannot show whether others agree" in note for note in found.notes)
    assert "one chain" in str(found)


def test_what_is_left_to_pymc_is_noted():
    """With the reasons, of a model that is given or in the context; not of others' variables."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=L), length=60)
        rate = pm.HalfNormal("rate", shape=L)
        other = pm.HalfNormal("other", shape=L)
        pm.Gamma("y", rate[z], other[z], observed=np.ones(60))
    raw = good(seed=4)
    [note] = [note for note in dshdp.check(raw, model=model).notes if "left to PyMC" in note]
    assert note.startswith("rate is left to PyMC's steps: no conjugate family knows")
    assert "no conditional is known" in note
    assert not any("left to PyMC" in note for note in dshdp.check(raw).notes)
    with model:
        assert note in dshdp.check(raw).notes


def test_a_shared_scale_of_data_with_missing_values_is_noted_by_name():
    """Fails if the likelihood that is put together from its parts has no name."""
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=L), length=60)
        mu = pm.Normal("mu", 0.0, 3.0, shape=L)
        sigma = pm.HalfNormal("sigma")
        data = np.ma.masked_array(np.arange(60.0) % 3, np.arange(60) < 4)
        pm.Normal("y", mu[z], sigma, observed=data)
    [(name, reason)] = reasons(model).items()
    assert name == "sigma" and "None" not in reason
    assert "'y' has missing values, and how 'sigma' enters" in reason


@pytest.mark.parametrize(("shape", "said"), [(L, True), (L + 1, False)])
def test_an_order_of_the_states_is_pointed_out(shape, said):
    """Cutpoints, which no state indexes, may be in order."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=L), length=60)
        mu = pm.Normal("mu", 0.0, 3.0, shape=shape, transform=ordered, initval=np.arange(shape))
        level = mu[z] if said else pm.Normal("level", shape=L)[z] + mu.sum()
        pm.Normal("y", level, 1.0, observed=np.arange(60.0) % 3)
    assert ("leave the transform out" in reasons(model)["mu"]) is said


def test_check_does_not_see_labels():
    raw = good(seed=4)
    one, two = dshdp.check(raw), dshdp.check(dshdp.align(raw))
    assert one.problems == two.problems
    np.testing.assert_array_equal(one.diagnostics, two.diagnostics)
    np.testing.assert_array_equal(one.aligned, two.aligned)
    assert "z" in variables(raw)
