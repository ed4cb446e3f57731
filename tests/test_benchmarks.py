"""What the benchmarks say and keep."""

import argparse
import json

import numpy as np
from scipy.special import betaln, logsumexp

from benchmarks import number_of_states, peers, timing


def test_a_peer_that_fails_is_named_and_left_out(capsys):
    """Fails if one package's error ends the measurement of the others."""

    def broken():
        raise RuntimeError("no such device")

    def absent():
        import a_package_that_nobody_has  # noqa: F401

    makers = {"one": lambda: lambda: 1, "two": broken, "three": lambda: broken, "four": absent}
    found = peers._that_work(makers)
    assert list(found) == ["one"] and found["one"]() == 1
    said = capsys.readouterr().out
    assert "two is left out: RuntimeError: no such device" in said and "three" in said
    assert "four" not in said


def test_tables_are_kept_with_their_circumstances(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "RESULTS", tmp_path / "today")
    timing.table("Two rows (of a test)", [("a", 1.0)], ("what", "ms"))
    assert (tmp_path / "today" / "two_rows.csv").read_text() == "what,ms\na,1\n"
    about = json.loads((tmp_path / "today" / "two_rows.json").read_text())
    assert about["table"] == "Two rows (of a test)"
    assert {"date", "cpu", "python", "pymc", "numba", "command"} <= set(about)


def test_draws_of_the_study_are_weighted_by_another_prior_of_the_number():
    """Fails if weights go by the occupied states, or are not the ratio of the two priors."""
    row = {"states": "3", "draws": "3/3:6 3/4:3 4/4:1"}
    occupied, active = number_of_states.probabilities(row)
    np.testing.assert_allclose(occupied[[3, 4]], [0.9, 0.1])
    np.testing.assert_allclose(active[[3, 4]], [0.6, 0.4])
    other = betaln(5.0, np.arange(1, 11) + 2.0)
    other -= logsumexp(other)
    other[3] += np.log(2.0)  # twice the default at K = 4
    occupied, active = number_of_states.probabilities(row, other)
    np.testing.assert_allclose(occupied[[3, 4]], [12.0 / 14.0, 2.0 / 14.0])
    np.testing.assert_allclose(active[[3, 4]], [6.0 / 14.0, 8.0 / 14.0])


def test_every_fit_of_the_study_is_planned_once_and_simulated_with_all_states():
    options = argparse.Namespace(
        series=20, longer=1, prior=number_of_states.PRIORS, weights=number_of_states.WEIGHTS
    )
    fits = number_of_states.plan(options)
    assert len(set(fits)) == len(fits)
    assert {row["weights"] for row in number_of_states.read(number_of_states.OUT)} <= set(
        number_of_states.WEIGHTS
    )
    for emissions in number_of_states.RATIOS:
        kind = number_of_states.Kind(3, 200, emissions)
        y = number_of_states.simulate(np.random.default_rng(1), kind)
        assert y.shape == (200,) and y.min() >= 0 and y.max() > 10
