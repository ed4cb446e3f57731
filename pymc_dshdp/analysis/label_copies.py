"""Variables that hold numbers of states beside the hidden states themselves.

The record of a result says it of the Deterministics that the model had when sampling began, proved
from their graphs. Of all others, such as those that were added to a result, their values tell.
"""

import math
from functools import cached_property

import numpy as np

__all__ = ["find_label_copies"]

COPY, PERHAPS = "copy", "perhaps"


def find_label_copies(posterior, hidden, numbers, besides):
    """Find the variables whose entries are states, such as ``z[events]``.

    By their values, an entry that equals the state at some time in every draw, and is not the same
    number in all of them, is taken for that state. Entries that are one number in all draws, and no
    state's, may stand beside it.

    Parameters
    ----------
    posterior : xarray.Dataset
    hidden : list of Hidden
        The hidden-state variables of one state dimension.
    numbers : ndarray of shape (S, L)
        New number of each state, -1 where the draw does not visit it.
    besides : set of str
        Variables that are known to hold something else.

    Returns
    -------
    copies : list of str
    numbered : list of str
        Variables that depend on the numbers in another way, by their graphs.
    doubtful : list of str
        Variables that are neither but may hold numbers of states, since all their entries are
        states that their draw visits, or that are computed from these numbers, as ``z == 2`` and
        ``10 * z`` are; without those that a renumbering leaves as they are.
    """
    dim, n_states = hidden[0].dim, hidden[0].n_states
    paths, any_moves = _Paths(hidden), ((numbers >= 0) & (numbers != np.arange(n_states))).any()
    labels, numbered, invariant = (
        {name for h in hidden for name in getattr(h.record, role)}
        for role in ("labels", "numbered", "invariant")
    )
    told, doubtful = labels.union(numbered, invariant, besides), []
    copies = [str(name) for name in posterior if name in labels]
    numbered = [str(name) for name in posterior if name in numbered and any_moves]
    for name, variable in posterior.items():
        if name in told or {dim, f"{dim}_to"} & set(variable.dims):
            continue
        if not {"chain", "draw"} <= set(variable.dims) or variable.dtype.kind not in "biuf":
            continue
        values = variable.transpose("chain", "draw", ...).values.reshape(len(numbers), -1)
        held, moves = _held(values, numbers, paths)
        if held == COPY:
            copies.append(str(name))
        elif (held == PERHAPS and moves) or (any_moves and paths.determine(values)):
            doubtful.append(str(name))
    return copies, numbered, doubtful


def _held(values, numbers, paths):
    """Whether entries (S, E) are states, COPY or PERHAPS, and whether renumbering moves them."""
    n_states = numbers.shape[1]
    if not values.size or (values != np.rint(values)).any():
        return None, False
    label = (values >= 0) & (values < n_states)
    new = np.take_along_axis(numbers, np.where(label, values, 0).astype(int), axis=1)
    constant = (values == values[0]).all(axis=0)
    possible = (label & (new >= 0)).all(axis=0)
    if not possible.any():
        return None, False
    state = possible & np.isin(_signatures(values), paths.signatures)
    moves = (new != values)[:, possible].any()
    if not (state & ~constant).any():
        return (PERHAPS if possible.all() else None), moves
    other = constant & ~label.any(axis=0)
    return (COPY if (state | other).all() else PERHAPS), moves


class _Paths:
    """What tells whether a variable depends on the hidden states, by their paths (S, T)."""

    def __init__(self, hidden):
        self.n_states = hidden[0].n_states
        self._hidden = hidden

    @cached_property
    def paths(self):
        return [h.paths().astype(np.int64) for h in self._hidden]

    @cached_property
    def signatures(self):
        """Of the states at each time."""
        return np.concatenate([_signatures(path) for path in self.paths])

    @cached_property
    def sets(self):
        """Of the draws in which a time is in a state."""
        found = []
        for path in self.paths:
            times = np.arange(path.shape[1])
            out = np.zeros((path.shape[1], self.n_states), np.uint64)
            for row, weight in zip(path, _weights(len(path)), strict=True):
                out[times, row] += weight
            found.append(out.ravel())
        return np.concatenate(found)

    def determine(self, values):
        """Whether the number of the state at some time sets each entry (S, E) that varies.

        It does if entries are one function of the states at their times, or if one of the values
        of each is that of the draws in which some time is in some state; unless these draws are
        so few or so many that they may be the same by chance.
        """
        if not values.size:
            return False
        varying = np.flatnonzero((values != values[0]).any(axis=0))
        if not varying.size:
            return False
        return any(_is_function(values, path) for path in self.paths) or all(
            self._is_set(values[:, entry]) for entry in varying
        )

    def _is_set(self, entry):
        distinct, code, count = np.unique(entry, return_inverse=True, return_counts=True)
        if distinct.size > self.n_states:
            return False
        signatures = np.zeros(distinct.size, np.uint64)
        np.add.at(signatures, code, _weights(len(entry)))
        chances = [math.comb(len(entry), n) for n in count]
        telling = np.array([n > 1000 * self.sets.size for n in chances])
        return bool(np.isin(signatures[telling], self.sets).any())


def _is_function(values, path):
    """Whether entries are those of one function at the state of their time, and no other."""
    if values.shape != path.shape:
        return False
    seen, first = np.unique(path, return_index=True)
    table = np.zeros(seen[-1] + 1, values.dtype)
    table[seen] = values.ravel()[first]
    return bool((table[path] == values).all())


def _weights(n):
    return 2 * np.random.default_rng(0).integers(2**63, size=n, dtype=np.uint64) + np.uint64(1)


def _signatures(paths):
    """One number for each column of (S, T), equal columns having equal ones.

    It is a sum with random odd weights modulo 2^64: two columns that differ have the same one
    with a probability of some 2^-63.
    """
    out = np.zeros(paths.shape[1], np.uint64)
    for row, weight in zip(paths, _weights(len(paths)), strict=True):
        out += row.astype(np.int64).astype(np.uint64) * weight
    return out
