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

from pymc_dshdp.kernels.messages import PathDraw, backward_sample, filter_rows

__all__ = ["sample_paths"]

BLOCK_BYTES = 256e6  # of the table and of the filtered probabilities held at a time, each
CACHE_BYTES = 4e6  # at which a block ends, for each thread, where a sequence does
SEQUENCES = 8  # which a block holds even if they take more, since four advance together
PIECE_ELEMENTS = 2**18  # of the table computed at a time
WORTH_THREADS = 2**16  # elements of a table below which handing over costs more than it saves
NO_ROW = np.empty(0)


@lru_cache(1)
def _keep_large_arrays():
    """Keep the memory of arrays of up to 31 MB in this process, at its first draw.

    glibc hands back every freed array larger than any freed before, up to 32 MB, and each new one
    then costs page faults. This one is never touched and costs nothing.
    """
    np.empty(31 * 2**20, np.uint8)


def sample_paths(rows, n_states, initial, transition, lengths, uniforms, threads=1):
    """Draw the hidden paths of all sequences from a table that need not be held whole.

    Sequences are drawn a few megabytes of the table at a time, so that what is computed stays near
    the processor and every block takes the memory of the one before. A sequence whose table takes
    more than 256 MB is itself divided: the forward pass keeps the last filtered row of each block,
    and the backward pass recomputes each block but the last from the row before it.

    Parameters
    ----------
    rows : callable
        ``rows(low, high)`` evaluates log p(y_t | z_t = k) for low <= t < high: (high - low, L).
        Called from several threads at once.
    n_states : int
        L.
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
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
    small, large = (max(1, int(size // (8 * n_states))) for size in (CACHE_BYTES, BLOCK_BYTES))
    runs = _runs(lengths.astype(np.int64, copy=False).tobytes(), small * threads, large, threads)
    filtered = np.empty((max(b.high - b.low for run in runs for b in run), n_states))
    log_marginal = np.zeros(lengths.shape[0])
    states = np.empty(T, np.int64)

    def filter_block(block, previous):
        out = filtered[: block.high - block.low]
        if lengths.size == 1:
            pieces = _pieces(rows, n_states, block.low, block.high, spread)
            return out, [_filter_alone(pieces, initial, transition, previous, out)]
        table = _table(rows, n_states, block.low, block.high, spread)

        def filter_group(group):
            times, pieces = group
            before = previous if times.start == 0 else NO_ROW
            return filter_rows(
                table[times], initial, transition, block.pieces[pieces], before, out[times]
            )

        return out, list(spread(filter_group, block.groups))

    for run in runs:
        previous = [NO_ROW]  # filtered row before each block, if that goes on with a sequence
        for block in run:
            out, found = filter_block(block, previous[-1])
            for (times, _), (_, impossible) in zip(block.groups, found, strict=True):
                if impossible >= 0:
                    time = block.low + times.start + impossible
                    return PathDraw(np.zeros(T, np.int64), log_marginal, time)
            log_marginal[block.sequences] += np.concatenate([total for total, _ in found])
            previous.append(out[-1].copy() if block.goes_on else NO_ROW)

        for i, block in reversed(list(enumerate(run))):
            if block is not run[-1]:
                out, _ = filter_block(block, previous[i])
            here, now = states[block.low : block.high], uniforms[block.low : block.high]
            following = states[block.high] if block.goes_on else -1

            def sample_group(group, block=block, out=out, here=here, now=now, following=following):
                times, pieces = group
                after = following if times.stop == len(here) else -1
                here[times] = backward_sample(
                    out[times], transition, block.pieces[pieces], now[times], after
                )

            list(spread(sample_group, block.groups))
    return PathDraw(states, log_marginal, -1)


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


def _pieces(rows, n_states, low, high, spread):
    """Rows low..high - 1 of the table, in pieces that stay in cache.

    Each is computed when it is asked for, or ahead of that where there are threads for it.
    """
    size = max(1, PIECE_ELEMENTS // n_states)
    starts = range(low, high, size)
    return spread(lambda start: rows(start, min(start + size, high)), starts)


def _table(rows, n_states, low, high, spread):
    """Rows low..high - 1 of the table."""
    if (high - low) * n_states <= PIECE_ELEMENTS:
        return rows(low, high)
    table, start = np.empty((high - low, n_states)), 0
    for piece in _pieces(rows, n_states, low, high, spread):
        table[start : start + len(piece)] = piece
        start += len(piece)
    return table


def _filter_alone(pieces, initial, transition, previous, out):
    """Filter a sequence that has no other beside it, from the pieces of its table in turn."""
    log_marginal, start = np.zeros(1), 0
    for table in pieces:
        part, length = out[start : start + len(table)], np.array([len(table)])
        found, impossible = filter_rows(table, initial, transition, length, previous, part)
        if impossible >= 0:
            return log_marginal, start + impossible
        log_marginal += found
        previous, start = part[-1], start + len(table)
    return log_marginal, -1


@lru_cache
def _pool(process, threads):
    return ThreadPoolExecutor(threads, thread_name_prefix="pymc_dshdp")
