"""Paths drawn by blocks and on threads: the same, to the last bit, as in one go."""

import multiprocessing
import runpy

import numpy as np
import pytest
import reference
from models import needs_fork
from numpy.testing import assert_allclose, assert_array_equal

from pymc_dshdp.kernels import blocks
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.messages import forward_filter_backward_sample

LENGTHS = [np.array([70]), np.array([1, 30, 1, 2, 20, 9, 7]), np.full(14, 5)]


def problem(lengths, n_states=5, seed=1):
    rng = np.random.default_rng(seed)
    T = lengths.sum()
    return (
        rng.normal(0.0, 2.0, (T, n_states)),
        reference.random_rows(rng, 1, n_states)[0],
        without_persistence(reference.random_rows(rng, n_states, n_states, 0.3)),
        rng.random(T),
    )


def draw(table, initial, transition, lengths, uniforms, threads=1):
    asked = []

    def rows(low, high):
        asked.append((low, high))
        return table[low:high].copy()

    n_states = table.shape[1]
    path = sample_paths(rows, n_states, initial, transition, lengths, uniforms, threads)
    return path, sorted(set(asked))


@pytest.mark.parametrize("lengths", LENGTHS, ids=["one", "ragged", "short"])
@pytest.mark.parametrize("block", [1, 7, 69, 70])
@pytest.mark.parametrize(("threads", "n_states"), [(1, 5), (3, 5), (1, 24), (3, 24)])
def test_blocks_and_threads_change_nothing(monkeypatch, lengths, block, threads, n_states):
    """Fails if a block forgets the filtered row before it, or the state that follows it."""
    table, initial, transition, uniforms = problem(lengths, n_states)
    monkeypatch.setattr(blocks, "WORTH_THREADS", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * n_states * block)
    monkeypatch.setattr(blocks, "PIECE_ELEMENTS", n_states * 4)
    whole = forward_filter_backward_sample(table, initial, transition, lengths, uniforms)
    path, asked = draw(table, initial, transition, lengths, uniforms, threads)
    assert path.impossible_time == -1
    assert_array_equal(path.states, whole.states)
    assert_allclose(path.log_marginal_likelihood, whole.log_marginal_likelihood, rtol=1e-13)
    assert max(high - low for low, high in asked) <= min(4, block)
    one, _ = draw(table, initial, transition, lengths, uniforms)
    assert_array_equal(one.log_marginal_likelihood, path.log_marginal_likelihood)


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_end_with_sequences(monkeypatch, threads):
    """Fails if a row of the table is asked for twice, or all sequences are held at once."""
    lengths = np.array([*np.full(40, 5), 70, *np.full(40, 5)])
    table, initial, transition, uniforms = problem(lengths)
    monkeypatch.setattr(blocks, "WORTH_THREADS", 0)
    monkeypatch.setattr(blocks, "CACHE_BYTES", 8 * 5 * 60 / threads)
    monkeypatch.setattr(blocks, "SEQUENCES", 1)
    whole = forward_filter_backward_sample(table, initial, transition, lengths, uniforms)
    asked = []

    def rows(low, high):
        asked.append((low, high))
        return table[low:high].copy()

    path = sample_paths(rows, 5, initial, transition, lengths, uniforms, threads)
    assert_array_equal(path.states, whole.states)
    assert_array_equal(path.log_marginal_likelihood, whole.log_marginal_likelihood)
    assert asked == [*((t, t + 60) for t in (0, 60, 120)), (180, 200), (200, 270)] + [
        *((t, t + 60) for t in (270, 330, 390)),
        (450, 470),
    ]


@pytest.mark.parametrize("lengths", LENGTHS[:2], ids=["one", "ragged"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("time", [0, 31, 69])
@pytest.mark.parametrize("n_states", [5, 24])
def test_impossible_times_are_those_of_the_whole(monkeypatch, lengths, time, threads, n_states):
    """Fails if the time is counted from the beginning of its piece, block or group."""
    table, initial, transition, uniforms = problem(lengths, n_states)
    table[time] = -np.inf
    monkeypatch.setattr(blocks, "PIECE_ELEMENTS", n_states * 4)
    monkeypatch.setattr(blocks, "WORTH_THREADS", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * n_states * 25)
    path, _ = draw(table, initial, transition, lengths, uniforms, threads)
    assert path.impossible_time == time


@pytest.mark.parametrize("lengths", LENGTHS[:2], ids=["one", "ragged"])
@pytest.mark.parametrize("n_states", [5, 24])
def test_rows_whose_maximum_cannot_be_reached(monkeypatch, lengths, n_states):
    """Fails if such a row is not followed by the next one as it was scaled."""
    table, initial, transition, uniforms = problem(lengths, n_states)
    initial[2] = transition.pi_bar[:, :, 2] = 0.0
    plain = forward_filter_backward_sample(table, initial, transition, lengths, uniforms)
    table[::3, 2] = table[::3].max(axis=1) + 700.0
    monkeypatch.setattr(blocks, "PIECE_ELEMENTS", n_states)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * n_states * 25)
    path, _ = draw(table, initial, transition, lengths, uniforms)
    assert_array_equal(path.states, plain.states)
    assert_allclose(path.log_marginal_likelihood, plain.log_marginal_likelihood, rtol=1e-12)


def _child(queue):
    lengths = np.full(4, 2000)
    queue.put(draw(*problem(lengths, 20)[:3], lengths, problem(lengths, 20)[3], 2)[0].states)


@needs_fork
def test_threads_after_a_fork():
    """The child makes threads of its own; fails (hangs) if the pool is not kept by process."""
    lengths = np.full(4, 2000)
    table, initial, transition, uniforms = problem(lengths, 20)
    here, _ = draw(table, initial, transition, lengths, uniforms, 2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    there = queue.get(timeout=60)
    child.join()
    assert_array_equal(here.states, there)


def test_an_import_makes_no_large_array(monkeypatch):
    """Fails if glibc is told to keep large arrays by a process that draws no path."""
    sizes = []

    def empty(shape, *args, **kwargs):
        out = np.ndarray(shape, *args, **kwargs)
        sizes.append(out.nbytes)
        return out

    monkeypatch.setattr(np, "empty", empty)
    module = runpy.run_path(blocks.__file__)
    assert not sizes
    module["_keep_large_arrays"]()
    module["_keep_large_arrays"]()
    assert len(sizes) == 1 and sizes[0] > 2**24
