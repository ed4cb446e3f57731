"""How proposals divide the times of a state, or of two, in two sides."""

import numpy as np

from pymc_dshdp.kernels.division import (
    DRAW,
    GIVEN,
    MODE,
    Launch,
    add_context,
    contexts,
    divide,
    fit_chain,
    halves,
    linked_times,
    surroundings,
)
from pymc_dshdp.kernels.prior_division import divide_by_prior
from pymc_dshdp.kernels.split_merge import choose_anchor, log_anchor_probability

__all__ = ["BEGINNINGS", "FittedDivision", "PriorDivision", "log_probability_fitted_to_itself"]

PASSES = 3  # of the launch
HALVES = -1
BEGINNINGS = (
    *(
        (reach, stride, stay, how)
        for reach, stride, stay in ((0, 1, 0.5), (2, 1, 0.9), (10, 1, 0.9), (3, 2, 0.5))
        for how in (MODE, DRAW)
    ),
    (HALVES, 1, 0.9, DRAW),
    (HALVES, 1, 0.9, DRAW),
)
"""Reach and stride of what a launch begins with around its anchors, how it stays at first, and how
it goes on: by the more probable sides, or by drawing them.

Or it begins with the halves of each stay, for two states alike that are passed one after the other,
so that stays are not geometric. Nobody knows then when the one ends; the more probable sides would
put all ends at the same place.
"""


class PriorDivision:
    """By what is known of transitions alone: for states alike. See ``kernels.prior_division``.

    Parameters
    ----------
    configuration : Configuration
    rng : numpy.random.Generator
    """

    def __init__(self, configuration, rng):
        self._now, self._rng = configuration, rng

    def draw(self, times, i, slots):
        """(sides, their log-probability) of a division of a state's times, i on side 0."""
        sides = np.empty(len(times), np.int64)
        return sides, self._divide(times, i, slots, self._rng.random(len(times)), False, sides)

    def log_probability(self, times, i, slots, sides):
        """Of a division as ``draw`` makes it."""
        return self._divide(times, i, slots, np.empty(0), True, sides)

    def _divide(self, times, i, slots, uniforms, given, sides):
        path, prior = self._now.path, self._now.prior
        return divide_by_prior(path, prior, times, i, slots, uniforms, given, sides)


class FittedDivision:
    """By a two-state chain that is fitted to the data of the times, from i and another time j.

    Parameters
    ----------
    configuration : Configuration
    rng : numpy.random.Generator
    beginning : tuple, optional
        One of ``BEGINNINGS``; by default drawn.
    """

    def __init__(self, configuration, rng, beginning=None):
        self._now, self._rng = configuration, rng
        self._beginning = beginning or BEGINNINGS[rng.integers(len(BEGINNINGS))]

    def draw(self, times, i, slots):
        """(sides, log-probability) of a division of a state's times, i on side 0.

        The latter is log q(sides) + log r(j | i, S - i) - log r(j | i, times of side 1): of what
        has been chosen, less that of the anchor by which a merge comes back.
        """
        j = choose_anchor(self._rng, times[times != i], i)
        sides, log_q = self.draw_between(times, (i, j), slots)
        return sides, log_q + self._log_anchors(times, i, j, sides)

    def log_probability(self, times, i, slots, sides):
        """Of a division as ``draw`` makes it, j drawn from the times of side 1."""
        j = choose_anchor(self._rng, times[sides == 1], i)
        launch = self._launch(times, (i, j), slots)
        return divide(launch, GIVEN, launch.gain, sides) + self._log_anchors(times, i, j, sides)

    def redraw(self, times, i, slots, before):
        """(sides, log-probability) of another division from the same i and j.

        The latter is log q(sides) - log q(before) + log r(j | i, times of side 1 before)
        - log r(j | i, times of side 1).
        """
        j = choose_anchor(self._rng, times[before == 1], i)
        launch, sides = self._launch(times, (i, j), slots), np.empty(len(times), np.int64)
        log_q = divide(launch, DRAW, self._rng.random(len(times)), sides)
        log_q -= divide(launch, GIVEN, launch.gain, before)
        log_q += log_anchor_probability(times[before == 1], i, j)
        return sides, log_q - log_anchor_probability(times[sides == 1], i, j)

    def draw_between(self, times, anchors, slots):
        """(sides, log q) given both anchors."""
        launch, sides = self._launch(times, anchors, slots), np.empty(len(times), np.int64)
        return sides, divide(launch, DRAW, self._rng.random(len(times)), sides)

    @staticmethod
    def _log_anchors(times, i, j, sides):
        split = log_anchor_probability(times[times != i], i, j)
        return split - log_anchor_probability(times[sides == 1], i, j)

    def _launch(self, times, anchors, slots):
        """Fit a two-state chain to S by hard or stochastic EM.

        It looks at S, i, j, y and the path outside S.
        """
        reach, stride, stay, how = self._beginning
        path, n, n_states = self._now.path, len(times), self._now.n_states
        among = self._now.marginals.among(times)
        linked = linked_times(times, path.first)
        launch = Launch(np.zeros(n), linked, np.full(2, stay), np.full(2, 0.5))
        around = contexts(path.states, path.first, times, n_states)
        if reach == HALVES:
            sides = halves(linked)
        else:
            sides = surroundings(times, *anchors, reach, stride)
        at = np.searchsorted(times, anchors)
        sides[at] = 0, 1
        for count in range(PASSES):
            _set_gain(launch, among, sides, slots, around, n_states)
            launch.gain[at] = -np.inf, np.inf
            if count + 1 == PASSES:
                break
            drawn = np.empty(n, np.int64)
            divide(launch, how, self._rng.random(n), drawn)
            if np.array_equal(drawn, sides):
                break
            sides = drawn
            fit_chain(launch, sides)
        return launch


def log_probability_fitted_to_itself(now, times, sides, slots):
    """Log-probability of a division by the two-state chain that is fitted to it.

    -log q varies about the entropy of the division as log pi varies the other way, so that
    log pi - log q is known better than either.
    """
    half = np.full(2, 0.5)
    launch = Launch(np.zeros(len(times)), linked_times(times, now.path.first), half, half + 0)
    around = contexts(now.path.states, now.path.first, times, now.n_states)
    _set_gain(launch, now.marginals.among(times), sides, slots, around, now.n_states)
    fit_chain(launch, sides)
    return divide(launch, GIVEN, launch.gain, sides)


def _set_gain(launch, among, sides, slots, around, n_states):
    """Set what the data and the states around S say for side 1, given sides of some of S."""
    seen = np.flatnonzero(sides >= 0)
    moments = among.among(seen).moments(sides[seen], 2)
    table = among.table(moments, slots)
    with np.errstate(invalid="ignore"):
        gain = table[:, 1] - table[:, 0]
    launch.gain[:] = np.where(np.isnan(gain), 0.0, gain)
    add_context(launch.gain, around, sides, n_states)
