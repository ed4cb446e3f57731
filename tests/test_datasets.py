"""The data that come along: shapes, units and gaps, by facts known from elsewhere."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd

from pymc_dshdp import datasets


def test_the_track_of_the_elephant():
    """Fails if an hour is missing, or a position is misread: by day it rests, in the heat."""
    track = datasets.elephant()
    assert track.shape == (481, 3) and not track.isna().to_numpy().any()
    assert set(np.diff(track.index)) == {np.timedelta64(1, "h")}
    assert track["longitude"].between(-2.28, -2.13).all()
    assert track["latitude"].between(15.64, 15.74).all()
    north = 111.2 * track["latitude"]
    east = 111.2 * np.cos(np.radians(15.7)) * track["longitude"]
    km = np.hypot(north.diff(), east.diff())[1:]
    assert km.max() < 2.5, "an elephant walks"
    by_hour = km.groupby(km.index.hour).median()
    assert by_hour[20:23].min() > 2 * by_hour[11:17].max()
    assert track["temperature"].groupby(track.index.hour).mean().idxmax() in (14, 15)


def test_the_economy_and_its_recessions():
    """Fails if a recession is misdated: each begins where the output of two quarters falls."""
    table = datasets.economy()
    assert table.shape == (203, 3) and table["recession"].dtype == bool
    assert table.index.equals(pd.period_range("1959Q1", "2009Q3", freq="Q"))
    begins = table.index[table["recession"] & ~table["recession"].shift(fill_value=False)]
    assert [str(quarter) for quarter in begins] == (
        "1960Q3 1970Q1 1974Q1 1980Q2 1981Q4 1990Q4 2001Q2 2008Q1".split()
    )
    output = table["gdp"].pct_change()
    assert output[table["recession"]].mean() < 0 < output[~table["recession"]].mean()
    unemployment = table["unemployment"].diff()
    assert unemployment[table["recession"]].mean() > 0.4
    assert table.loc["1982Q4", "unemployment"] == 10.7


def test_the_choices_of_the_rat():
    """Fails if the sides are exchanged, or trials of different sessions follow each other."""
    trials = datasets.rat_choices()
    assert trials.shape == (3200, 5) and trials["session"].is_monotonic_increasing
    assert trials["session"].nunique() == 14
    difference = trials["first"] - trials["second"]
    assert difference.abs().between(0.7, 0.8).all(), "neighbouring levels"
    late = trials["session"] >= 11
    right = trials["right"] == (difference > 0)
    assert right[late].mean() > right[trials["session"] < 2].mean() > 0.5
    assert set(trials["previous"]) == {-1, 0, 1}
    before = 2 * trials["right"].shift() - 1
    told = (trials["previous"] != 0) & (trials["session"].diff() == 0)
    assert (trials["previous"] == before)[told].mean() > 0.85


def test_the_reaction_times():
    """Fails if columns are exchanged: pairs of a winner and a loser are the easy ones."""
    trials = datasets.reaction_times()
    assert trials.shape == (3988, 5) and trials["seconds"].between(0.4, 5.0).all()
    assert trials["person"].is_monotonic_increasing and trials["person"].nunique() == 14
    runs = trials[["person", "stimulation"]].diff().ne(0).any(axis=1).sum()
    assert runs == 28, "each person once with the stimulator on, and once off"
    assert trials.groupby("pair")["seconds"].median().idxmin() == "WL"
    assert trials.groupby("pair")["better"].mean().idxmax() == "WL"


def test_the_spikes_of_the_mouse():
    """Fails if cells are exchanged, or counts and positions are not of the same half second."""
    table = datasets.spike_counts()
    assert table.shape == (1058, 18) and not table.isna().to_numpy().any()
    np.testing.assert_array_equal(table.index, 671.0 + 0.5 * np.arange(1058))
    speed = np.hypot(table["x"].diff(), table["y"].diff())[1:] / 0.5
    assert speed.median() < 5.0 and speed.max() < 50.0, "a mouse, in cm/s"
    assert table["direction"].between(0, 359).all()
    places, directions = table.filter(like="ca1"), table.filter(like="adn")
    assert places.shape[1] == 8 and directions.shape[1] == 7
    facing = np.exp(1j * np.radians(table["direction"].to_numpy()))

    def tuning(cells, shift=0):
        spikes = np.roll(cells.to_numpy(), shift, axis=0)
        return np.abs(facing @ spikes) / spikes.sum(axis=0)

    assert tuning(directions).min() > 0.5 > tuning(directions, 200).max(), "one direction each"
    assert tuning(places).max() < 0.6
    arm = np.select([table["y"] < 25.0, table["x"] < 0.0], [0, 1], 2)
    share = places.groupby(arm).mean()
    assert share["ca1_5"].idxmax() == 0 and share["ca1_2"].idxmax() == 1
    assert share["ca1_6"].idxmax() == 2, "cells of each arm of the maze"


def test_every_file_has_a_licence():
    """Fails if a file is added and nothing says under which licence it may be passed on."""
    here = files("pymc_dshdp.datasets")
    shipped = {file.name for file in here.iterdir() if file.name.endswith(".csv")}
    licences = here.joinpath("LICENCES.txt").read_text()
    assert set(re.findall(r"^(\w+\.csv)", licences, re.MULTILINE)) == shipped
    assert all(here.joinpath(name).stat().st_size < 60_000 for name in shipped)
