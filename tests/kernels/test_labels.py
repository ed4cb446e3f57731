"""The numbering of the states along the sticks against its enumerated law."""

import itertools

import numpy as np
from reference import assert_frequencies
from scipy.special import gammaln

from pymc_dshdp.kernels.labels import exchange_neighbours, renumber

GAMMA = 1.6


def log_law(tables):
    """Log p(m | gamma): sticks v_k ~ Beta(1, gamma) integrated out one by one."""
    total = 0.0
    for k in range(len(tables) - 1):
        a, b = 1.0 + tables[k], GAMMA + sum(tables[k + 1 :])
        total += gammaln(a) + gammaln(b) - gammaln(a + b)
    return total


def test_orders_have_their_probability():
    """Fails with a and b exchanged in the ratio, or the last stick treated as the others."""
    rng = np.random.default_rng(1)
    everything = sorted(set(itertools.permutations((4, 1, 1, 0))))
    law = np.exp([log_law(m) for m in everything])
    seen = dict.fromkeys(everything, 0)
    tables = np.array([0, 1, 4, 1])
    for i in range(24_000):
        before = tables.tolist()
        order = exchange_neighbours(rng, tables, GAMMA)
        assert tables.tolist() == [before[k] for k in order]
        if i % 4 == 3:  # nearly independent
            seen[tuple(tables.tolist())] += 1
    assert_frequencies(np.array(list(seen.values())), law / law.sum())


def test_sticks_are_drawn_for_the_new_numbering():
    """Fails if v is drawn given the tables of the former numbering.

    With so many tables each, and alpha so large that every draw has a table of its own, v_1 is
    close to the share of the state that is now first.
    """
    rng = np.random.default_rng(2)
    switches = np.zeros((4, 3), np.int64)
    switches[0] = [200, 100, 300]
    firsts = set()
    for _ in range(300):
        drawn = renumber(rng, switches, GAMMA, 1e8, np.full(3, 1 / 3))
        share = switches[0][drawn.order[0]] / 600
        assert abs(1.0 / (1.0 + np.exp(-drawn.sticks_logit[0])) - share) < 0.12
        switches = np.ascontiguousarray(switches[:, drawn.order])
        firsts.add(int(switches[0, 0]))
    assert firsts == {100, 200, 300}
