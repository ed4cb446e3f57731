"""Real data that come along: files beside this module, and a series of counts.

Every function states the source and the licence of what it returns; the texts of the licences
that ask for it are in ``LICENCES.txt`` beside the files.
"""

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent


def earthquakes() -> tuple[np.ndarray, np.ndarray]:
    """Annual counts of major earthquakes (magnitude 7 or above) worldwide, 1900 to 2006.

    The series of Zucchini & MacDonald, "Hidden Markov Models for Time Series" (2009), table 1.1,
    after the United States Geological Survey; the classical example of a Poisson hidden Markov
    model. By maximum likelihood, 2 states give log-likelihood -342.32 and 3 states -329.46 with
    rates 13.1, 19.7 and 29.7. Counts of public observations are facts, under no licence of their
    own; the text and code here are under that of the package, Apache 2.0.

    Returns
    -------
    years : ndarray of shape (107,)
    counts : ndarray of shape (107,)

    Examples
    --------
    >>> years, counts = dshdp.datasets.earthquakes()
    >>> int(years[0]), int(years[-1]), int(counts.sum())
    (1900, 2006, 2072)
    """
    counts = np.array(
        [
            13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14,
            8, 11, 14, 23, 18, 17, 19, 20, 22, 19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21,
            23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34, 10, 15,
            22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15,
            18, 14, 10, 15, 8, 15, 6, 11, 8, 7, 18, 16, 13, 12, 13, 20, 15, 16, 12, 18,
            15, 16, 13, 15, 16, 11, 11,
        ]
    )  # fmt: skip
    return np.arange(1900, 2007), counts


def elephant() -> pd.DataFrame:
    """Hourly positions of an African elephant in the Gourma, Mali, over twenty days of 2008.

    The bull Salif Keita, by a collar with GPS. Steps and turning angles of the track are the
    classical use; the place of the day (UTC is local time there) and the heat are covariates.

    From Wall, Wittemyer, LeMay, Douglas-Hamilton & Klinkenberg (2014), "Data from: Elliptical
    Time-Density model to estimate wildlife utilization distributions", Movebank Data Repository,
    doi:10.5441/001/1.f321pf80, of which these are the hours from 22 March 2008, 17:00, to
    11 April, 17:00. Published under CC0 1.0, in the public domain.

    Returns
    -------
    DataFrame of 481 rows
        By ``time`` (UTC, hourly, no gaps): ``longitude`` and ``latitude`` in degrees (WGS84),
        and ``temperature`` of the collar in degrees Celsius.

    Examples
    --------
    >>> track = dshdp.datasets.elephant()
    >>> list(track.columns), len(track), int(track["temperature"].max())
    (['longitude', 'latitude', 'temperature'], 481, 45)
    """
    return pd.read_csv(HERE / "elephant.csv", parse_dates=["time"], index_col="time")


def economy() -> pd.DataFrame:
    """Output and unemployment of the United States by quarter, 1959 to 2009, with recessions.

    Output and unemployment are those of the table ``macrodata`` of statsmodels, compiled by
    Skipper Seabold in 2009 from the Federal Reserve Bank of St. Louis and the Bureau of Labor
    Statistics, and in the public domain. Recessions are dated by the National Bureau of Economic
    Research, from the quarter after a peak of the business cycle to its trough; dates are facts,
    under no licence.

    Returns
    -------
    DataFrame of 203 rows
        By ``quarter`` (periods): ``gdp``, real gross domestic product in billions of dollars of
        2005, seasonally adjusted at annual rates; ``unemployment`` in percent; ``recession``,
        bool.

    Examples
    --------
    >>> table = dshdp.datasets.economy()
    >>> str(table.index[0]), str(table.index[-1]), int(table["recession"].sum())
    ('1959Q1', '2009Q3', 30)
    """
    table = pd.read_csv(HERE / "economy.csv", index_col="quarter")
    table.index = pd.PeriodIndex(table.index, freq="Q")
    return table.astype({"recession": bool})


def rat_choices() -> pd.DataFrame:
    """Choices of a rat that compares two sounds, left or right, in 14 sessions of training.

    The rat, W053, hears two sounds of different loudness, some seconds apart, and goes to the
    right where the first was the louder. Loudness is one of five levels, and those of a trial are
    neighbours. These are every sixth of 80 sessions; trials without a choice had been left out.

    From ``sampleRatData.npz`` in psytrack 2.0.2 (Roy, Bak, Akrami, Brody & Pillow, "Extracting
    the dynamics of behavior in sensory decision-making experiments", Neuron 2021), which is
    under the MIT licence; the task is that of Akrami, Kopec, Diamond & Brody (Nature 2018).

    Returns
    -------
    DataFrame of 3200 rows, in the order of the trials
        ``session`` from 0; ``first`` and ``second``, loudness of the sounds, standardised;
        ``previous``, the choice before, 1 right, -1 left, 0 where there was none; ``right``, the
        choice, 0 or 1.

    Examples
    --------
    >>> trials = dshdp.datasets.rat_choices()
    >>> lengths = trials.groupby("session").size().tolist()
    >>> len(lengths), sum(lengths)
    (14, 3200)
    """
    return pd.read_csv(HERE / "rat_choices.csv")


def reaction_times() -> pd.DataFrame:
    """Choices between two symbols by fourteen people, with the seconds that they took.

    People with electrodes in the subthalamic nucleus choose the better of two symbols whose
    worth they have learnt, twice: with the stimulator on, and with it off. A pair is of two that
    mostly win (``WW``), two that mostly lose (``LL``), or one of each (``WL``), the easiest.

    From Cavanagh, Wiecki, Cohen, Figueroa, Samanta, Sherman & Frank, "Subthalamic nucleus
    stimulation reverses mediofrontal influence over decision threshold", Nature Neuroscience
    2011: ``cavanagh_theta_nn.csv`` of HDDM 1.0.1, the package of that laboratory, which is
    under the BSD 2-clause licence.

    Returns
    -------
    DataFrame of 3988 rows, in the order of the file
        ``person``, 0 to 13; ``stimulation``, 1 where it was on; ``pair``; ``seconds`` until the
        choice; ``better``, 1 where the better symbol was chosen.

    Examples
    --------
    >>> trials = dshdp.datasets.reaction_times()
    >>> trials["person"].nunique(), trials.groupby(["person", "stimulation"]).ngroups
    (14, 28)
    """
    return pd.read_csv(HERE / "reaction_times.csv")


def spike_counts() -> pd.DataFrame:
    """Spikes of eight place cells and seven head-direction cells of a mouse in a maze.

    Counts by half seconds, 529 s, of cells recorded at once: in the area CA1 of the hippocampus,
    where cells fire in places of their own, and in the anterodorsal nucleus of the thalamus,
    where they fire while the head points in a direction of their own. The maze has three arms.

    From ``A2929-200711.nwb``, an example of pynapple, whose authors recorded it and which is under
    the MIT licence (Viejo and others, "Pynapple, a toolbox for data analysis in neuroscience",
    eLife 2023, doi:10.7554/eLife.85786): in ``tests/nwbfilestest/neurosuite/pynapplenwb`` of its
    source distribution 0.11.4. These are all ``units`` while the mouse was tracked, by
    ``numpy.histogram(spikes, numpy.arange(671, 1200.5, 0.5))``; positions and directions are
    means of the half second, those of directions as unit vectors.

    Returns
    -------
    DataFrame of 1058 rows
        By ``time``, when the half second begins, in s of the recording: ``x`` and ``y``,
        horizontal position in cm (``x`` and ``z`` of the file, which names no unit, read as m);
        ``direction`` of the head, ``ry`` of the file, in degrees; spikes of ``ca1_0`` to
        ``ca1_7`` and of ``adn_0`` to ``adn_6``.

    Examples
    --------
    >>> table = dshdp.datasets.spike_counts()
    >>> places, directions = table.filter(like="ca1"), table.filter(like="adn")
    >>> places.shape, directions.shape
    ((1058, 8), (1058, 7))
    """
    return pd.read_csv(HERE / "spike_counts.csv", index_col="time")
