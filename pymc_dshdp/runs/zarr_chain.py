"""What a chain leaves on disk: its draws in whole chunks, and where it stands."""

import os
import pickle
import zlib

import numpy as np

from pymc_dshdp._compat import RecorderOfStore
from pymc_dshdp.runs.chains import Position
from pymc_dshdp.runs.zarr_groups import SEPARATOR, in_a_folder

__all__ = ["Recorder", "last_position", "write_chunk"]

STATE = "_sampling_state"
WARMUP = "warmup_"


def write_whole(path, content):
    """Write a file so that it is either the one before or this one."""
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(content)
    os.replace(partial, path)


def write_chunk(array, index, values):
    """Write one whole chunk of an array, in the encoding that ``create_array`` chose.

    What zarr would write, at a twelfth of its cost (there is nothing to read, to cut or to
    wait for), and without its threads, which a forked process does not have.

    Parameters
    ----------
    array : str
        Directory of the array.
    index : tuple of int
        Number of the chunk along each axis.
    values : ndarray
        Of the shape of a chunk.
    """
    from numcodecs.zstd import Zstd

    values = np.ascontiguousarray(values)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    key = SEPARATOR.join(["c", *map(str, index)])
    write_whole(os.path.join(array, key), Zstd(level=1, checksum=True).encode(little.tobytes()))


def _position_path(store, chain, copy):
    return os.path.join(store, STATE, f"position.{chain}.{copy}")


def _sealed(content):
    """Bytes with their checksum before them."""
    return zlib.crc32(content).to_bytes(4) + content


def last_position(store, chain):
    """(position, number of the copy) of a chain from its last whole copy; None where it has none.

    Raises
    ------
    ValueError
        If there are copies, but none is whole.
    """
    copies = {}
    for copy in (0, 1):
        path = _position_path(store, chain, copy)
        if os.path.exists(path):
            with open(path, "rb") as file:
                copies[copy] = file.read()
    whole = [
        (pickle.loads(content[4:]), copy)
        for copy, content in copies.items()
        if content == _sealed(content[4:])
    ]
    if copies and not whole:
        raise ValueError(
            f"the store {store!r} is damaged: where chain {chain} stood cannot be read. Its "
            f"draws are there: continue_sampling goes on from the result of "
            f"ZarrTrace.open({store!r}).to_inferencedata()"
        )
    return max(whole, key=lambda one: one[0].done, default=None)


class Recorder(RecorderOfStore):
    """Recorder of one chain; runs in the process of the chain.

    Warm-up and posterior draws go to groups of their own. Each flush writes whole chunks, then,
    as one file, the position of the chain: its last point, the sampling state and the number of
    iterations. The position before it stays in a second file, to go on from where the last one
    is damaged.

    Parameters
    ----------
    store : str
        Directory of the store.
    chain, tune, draws, chunk : int
        Number of the chain, iterations planned, draws in a chunk.
    fields : dict
        ``(group, name)`` to (dtype, shape, value of a draw that has none).
    names : list of str
        Variables that ``fn`` returns at a point.
    bijection : StatsBijection
    """

    def __init__(self, store, *, chain, tune, draws, chunk, fields, names, fn, bijection):
        self.store, self.chain = store, chain
        self.tune, self.draws, self.chunk = tune, draws, chunk
        self.fields, self.names, self.fn, self.bijection = fields, names, fn, bijection
        self._posterior = self  # pm.sample asks it for the store, which is not one in memory
        self.go_on(0, {})

    def go_on(self, done, rows):
        """Record what follows ``done`` iterations, the last ``rows`` of them being of one chunk."""
        self.done = done
        self.rows = {field: list(rows.get(field, ())) for field in self.fields}
        self.held = max(map(len, rows.values()), default=0)
        last = last_position(self.store, self.chain)
        self.copy = 0 if last is None else 1 - last[1]

    def link_stepper(self, step_method):
        """Receive the step whose state is stored; called by ``pm.sample``."""
        self.step = step_method

    def record(self, draw, stats, *, in_warmup):
        """Keep a draw; true if draws were written. Called by ``pm.sample``."""
        found = {("posterior", n): v for n, v in zip(self.names, self.fn(**draw), strict=True)}
        for name, value in self.bijection.map(stats).items():
            found["sample_stats", name] = value
        for field, (_, shape, empty) in self.fields.items():
            value = found.get(field)
            self.rows[field].append(np.full(shape, empty) if value is None else value)
        self.done += 1
        self.held += 1
        complete = self.held == self.chunk or self.done == self.tune
        if complete or self.done == self.tune + self.draws:
            self._flush(draw)
        if complete:
            self.rows, self.held = {field: [] for field in self.fields}, 0
        return complete

    def _flush(self, point):
        warm = self.done <= self.tune
        number = (self.done - 1 - (0 if warm else self.tune)) // self.chunk
        for (group, name), (dtype, shape, empty) in self.fields.items():
            values = np.full((1, self.chunk, *shape), empty, dtype)
            values[0, : self.held] = self.rows[group, name]
            if values.size:
                folder = os.path.join(self.store, f"{WARMUP}{group}" if warm else group)
                where = os.path.join(folder, in_a_folder(name))
                write_chunk(where, (self.chain, number, *(0 for _ in shape)), values)
        position = Position(point, self.done, state=self.step.sampling_state)
        path = _position_path(self.store, self.chain, self.copy)
        write_whole(path, _sealed(pickle.dumps(position)))
        self.copy = 1 - self.copy
        done = os.path.join(self.store, STATE, "draw_idx")
        write_chunk(done, (self.chain,), np.array([self.done]))

    def record_sampling_state(self, step=None):
        """Leave the position as the last flush wrote it, together with its draws."""

    def close(self):
        """Do nothing; called by ``pm.sample``."""
