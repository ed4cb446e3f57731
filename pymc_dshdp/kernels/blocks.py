"""Hidden paths drawn block by block of a table, and sequence by sequence on several threads.

The blocks lie on a fixed grid and every sequence has its own arithmetic, so that the draws do not
depend on the number of threads to the last bit. Threads run compiled code that holds no lock of
the interpreter; a pool belongs to the process that first needs it, since threads do not survive
a fork.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np

from pymc_dshdp.kernels.antecedents import antecedents_for, of_times_before
from pymc_dshdp.kernels.filtering import (
    NO_ROW,
    NO_SHIFTS,
    Filtered,
    filter_rows,
    first_impossible,
)
from pymc_dshdp.kernels.messages import PathDraw, backward_sample

__all__ = ["sample_paths", "whole_sequences"]

BLOCK_BYTES = 256e6  # of the table and of the filtered probabilities held at a time, each
CACHE_BYTES = 4e6  # at which a block ends, for each thread, where a sequence does
SEQUENCES = 8  # which a block holds even if they take more, since four advance together
PIECE_ELEMENTS = 2**18  # of the table computed at a time
WORTH_THREADS = 2**16  # elements of a table below which handing over costs more than it saves
BEGINNING = NO_ROW, 0.0  # what comes before the first row of a sequence


@lru_cache(1)
def _keep_large_arrays():
    """Keep the memory of arrays of up to 31 MB in this process, at its first draw.

    glibc hands back every freed array larger than any freed before, up to 32 MB, and each new one
    then costs page faults. This one is never touched and costs nothing.
    """
    np.empty(31 * 2**20, np.uint8)


def sample_paths(rows, n_states, initial, transitions, lengths, uniforms, threads=1):
    """Draw the hidden paths of all sequences from a table that need not be held whole.

    Sequences are drawn a few megabytes of the table at a time, so that what is computed stays near
    the processor and every block takes the memory of the one before. A sequence whose table takes
    more than 256 MB is itself divided: the forward pass keeps the last filtered row of each block,
    and the backward pass recomputes each block but the last from the row before it. One
    that turns out in a later block to need logarithms is filtered again from its beginning.

    Parameters
    ----------
    rows : callable
        ``rows(low, high)`` evaluates log p(y_t | z_t = k) for low <= t < high: (high - low, L).
        Called from several threads at once.
    n_states : int
        L.
    initial : ndarray of shape (L,)
    transitions : Transitions
    lengths : ndarray of shape (N,)
        Positive integers that sum to T.
    uniforms : ndarray of shape (T,)
    threads : int

    Returns
    -------
    PathDraw
    """
    _keep_large_arrays()
    T = uniforms.shape[0]
    if T * n_states < WORTH_THREADS:
        threads = 1
    spread = map if threads == 1 else _pool(os.getpid(), threads).map
    small, large = (_times_in(size, n_states) for size in (CACHE_BYTES, BLOCK_BYTES))
    runs = _runs(_as_bytes(lengths), small * threads, large, threads)
    filtered = np.empty((max(b.high - b.low for run in runs for b in run), n_states))
    rows_of = _Rows(rows, n_states, spread)
    log_marginal = np.zeros(lengths.shape[0])
    logarithms = np.zeros(lengths.shape[0], bool)
    states = np.empty(T, np.int64)
    n_matrices, varies = len(transitions.pi_bar), transitions.varying is not None
    antecedents = antecedents_for(n_matrices, varies, T, n_states)
    earlier = of_times_before(uniforms) if len(antecedents) else uniforms

    def filter_block(block, before):
        """Filter a block; returns what is found in each of its groups."""
        out, here = filtered[: block.high - block.low], logarithms[block.sequences]
        now = transitions.between(block.low, block.high)
        if lengths.size == 1:
            choices = earlier[block.low : block.high], antecedents[block.low : block.high]
            return [_filter_alone(rows_of, block, initial, now, before, here, out, choices)]
        table = rows_of.table(block.low, block.high)

        def filter_group(group):
            times, pieces = group
            part = now.between(times.start, times.stop)
            return filter_rows(
                table[times],
                initial,
                part,
                part.varying,
                block.pieces[pieces],
                *(before if times.start == 0 else BEGINNING),
                here[pieces],
                out[times],
                NO_SHIFTS,
                earlier[block.low : block.high][times],
                antecedents[block.low : block.high][times],
            )

        return list(spread(filter_group, block.groups))

    def sample_block(block):
        following = states[block.high] if block.goes_on else -1

        def sample_group(group):
            times, pieces = group
            low, high = block.low + times.start, block.low + times.stop
            after = following if high == block.high else -1
            part = transitions.between(low, high + (after >= 0))
            states[low:high] = backward_sample(
                filtered[times],
                part,
                part.varying,
                block.pieces[pieces],
                uniforms[low:high],
                logarithms[block.sequences][pieces],
                after,
                antecedents[low : high + (after >= 0)],
            )

        list(spread(sample_group, block.groups))

    for run in runs:
        previous = [BEGINNING]  # last row before each block, and what is lost there
        while len(previous) <= len(run):
            block, before = run[len(previous) - 1], previous[-1]
            found = filter_block(block, before)
            needed = np.concatenate([group.logarithms for group in found])
            again = before[0].size > 0 and needed[0] and not logarithms[block.sequences][0]
            logarithms[block.sequences] = needed
            if again:
                previous, log_marginal[block.sequences] = [BEGINNING], 0.0
                continue
            for (times, _), group in zip(block.groups, found, strict=True):
                impossible = first_impossible(group)
                if impossible >= 0:
                    time = block.low + times.start + impossible
                    return PathDraw(np.zeros(T, np.int64), log_marginal, time)
            log_marginal[block.sequences] += np.concatenate(
                [group.log_marginal_likelihood for group in found]
            )
            last = filtered[block.high - block.low - 1].copy()
            previous.append((last, found[-1].lost) if block.goes_on else BEGINNING)
        for block, before in zip(reversed(run), previous[-2::-1], strict=True):
            if block is not run[-1]:
                filter_block(block, before)
            sample_block(block)
    return PathDraw(states, log_marginal, -1)


def whole_sequences(lengths, n_states):
    """Divide sequences into blocks of a few megabytes of the table that end with a sequence.

    Parameters
    ----------
    lengths : ndarray of shape (N,)
    n_states : int
        L.

    Returns
    -------
    list of (slice, slice)
        The time points, among those of all sequences, and the sequences of each block.
    """
    _keep_large_arrays()
    T = int(lengths.sum())
    runs = _runs(_as_bytes(lengths), _times_in(CACHE_BYTES, n_states), T, 1)
    return [(slice(block.low, block.high), block.sequences) for [block] in runs]


def _as_bytes(lengths):
    return lengths.astype(np.int64, copy=False).tobytes()


def _times_in(size, n_states):
    """Rows of a table that so many bytes hold, at least one."""
    return max(1, int(size // (8 * n_states)))


@lru_cache(maxsize=16)
def _runs(lengths, small, large, threads):
    """Blocks of sequences whose lengths are given as bytes, in runs that end with a sequence.

    A block ends with the last sequence that fits into ``small`` time points, or with the eighth
    that it holds, but after ``large`` time points at the latest. Where it ends within a
    sequence, the next block belongs to the same run.
    """
    ends = np.cumsum(np.frombuffer(lengths, np.int64))
    runs, low = [[]], 0
    while low < ends[-1]:
        first = np.searchsorted(ends, low, "right")
        most = ends[min(first + SEQUENCES, ends.size) - 1]
        last = np.searchsorted(ends, min(max(low + small, most), low + large), "right")
        high = int(ends[last - 1]) if last > first else low + large
        runs[-1].append(_Block(ends, low, high, threads))
        if not runs[-1][-1].goes_on:
            runs.append([])
        low = high
    return runs[:-1]


class _Block:
    """Time points low..high - 1: the pieces of sequences in them, in groups for the threads."""

    def __init__(self, ends, low, high, threads):
        self.low, self.high = low, high
        first, last = np.searchsorted(ends, low, "right"), np.searchsorted(ends, high)
        self.sequences = slice(first, last + 1)
        self.goes_on = ends[last] > high
        cuts = np.minimum(ends[self.sequences], high) - low
        self.pieces = np.diff(cuts, prepend=0)
        # A group ends with the first piece that reaches its share of the time points.
        shares = np.arange(1, threads) * (high - low) / threads
        after = np.unique(np.append(np.searchsorted(cuts, shares) + 1, cuts.size))
        times, pieces = np.append(0, cuts[after - 1]), np.append(0, after)
        self.groups = [
            (slice(*t), slice(*p)) for t, p in zip(pairwise(times), pairwise(pieces), strict=True)
        ]


class _Rows:
    """Rows of a table, computed in pieces that stay in cache."""

    def __init__(self, rows, n_states, spread):
        self._rows, self._n_states, self._spread = rows, n_states, spread

    def pieces(self, low, high):
        """Rows low..high - 1, each piece when it is asked for, or ahead where there are threads."""
        size = max(1, PIECE_ELEMENTS // self._n_states)
        starts = range(low, high, size)
        return self._spread(lambda start: self._rows(start, min(start + size, high)), starts)

    def table(self, low, high):
        """Rows low..high - 1."""
        if (high - low) * self._n_states <= PIECE_ELEMENTS:
            return self._rows(low, high)
        table, start = np.empty((high - low, self._n_states)), 0
        for piece in self.pieces(low, high):
            table[start : start + len(piece)] = piece
            start += len(piece)
        return table


def _filter_alone(rows_of, block, initial, transitions, before, logarithms, out, choices):
    """Filter a sequence that has no other beside it, from the pieces of its table in turn.

    Where it turns out in the middle to need logarithms it is begun again, unless it began in an
    earlier block.
    """
    log_marginal, start, carried, given = np.zeros(1), 0, before, logarithms
    for table in rows_of.pieces(block.low, block.high):
        stop = start + len(table)
        part = transitions.between(start, stop)
        found = filter_rows(
            table,
            initial,
            part,
            part.varying,
            np.array([len(table)]),
            *carried,
            given,
            out[start:stop],
            NO_SHIFTS,
            *(x[start:stop] for x in choices),
        )
        if found.logarithms[0] and not given[0] and carried[0].size > 0:
            if before[0].size > 0:
                return found
            return _filter_alone(
                rows_of, block, initial, transitions, before, found.logarithms, out, choices
            )
        if found.impossible[0] >= 0:
            return found._replace(impossible=found.impossible + start)
        log_marginal += found.log_marginal_likelihood
        carried, given, start = (out[stop - 1], found.lost), found.logarithms, stop
    return Filtered(log_marginal, found.impossible, given, found.lost)


@lru_cache
def _pool(process, threads):
    return ThreadPoolExecutor(threads, thread_name_prefix="pymc_dshdp")
