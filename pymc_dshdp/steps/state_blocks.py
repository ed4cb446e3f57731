"""Which elements of a step's variables belong to which state, and learn their metric together."""

import numpy as np

from pymc_dshdp.steps.metric import Block
from pymc_dshdp.steps.scarce import FEW_PER_NUMBER, MOST_NUMBERS

__all__ = ["StateBlocks"]

LARGEST_DENSE = 8  # elements of a block whose correlations are learnt too


class StateBlocks:
    """Blocks of the elements of some value variables, in which a metric is learnt.

    An element that one state alone uses has a kind: its place among those of the same variable
    that this state uses. Elements of a kind share what they learn, whatever their state, and the
    kinds of a state are one dense block if they are few. Variables that belong to one state as a
    whole, one written out for each, are of one kind if they are of the same distribution and size.
    What several states use learns from all of them together, and what no state uses (or is not
    known to) from the number of units that are not vacant, each element by itself.

    Parameters
    ----------
    model : pymc.Model
    values : list of value variables
    start : dict
    membership : Membership
    vacant : VacantUnits
    n_statistics : int
        C, of a state.
    apart : list of value variables
        To be in no block with others.

    Attributes
    ----------
    blocks : list of Block
    """

    def __init__(self, model, values, start, membership, vacant, n_statistics, apart=()):
        self.blocks, self._states, self._vacant = [], [], vacant
        kinds, shared, first = {}, {}, 0
        for value in values:
            size = start[value.name].size
            uses = np.zeros((size, membership.n_states), bool)
            if value not in membership.coupled:
                uses = membership.uses.get(value, uses)
            kept = vacant.kept_by(value, size)
            alone = uses.sum(axis=1) == 1
            if kept is not None:
                alone &= (kept == uses).all(axis=1)
            whole = alone.all() and len(np.unique(uses.argmax(axis=1))) == 1
            family = (type(model.values_to_rvs[value].owner.op), size) if whole else value
            for i in range(size):
                if not alone[i]:
                    some = uses[i] if uses[i].any() and not uses[i].all() else ~uses[i] & False
                    key = kept is not None, value in apart, tuple(np.flatnonzero(some))
                    shared.setdefault(key, []).append(first + i)
                    continue
                k, rank = int(uses[i].argmax()), 0
                while k in kinds.setdefault((kept is not None, family, rank), {}):
                    rank += 1
                kinds[kept is not None, family, rank][k] = first + i
            first += size
        self.size = first
        self._sizes = np.zeros(membership.n_states, int)
        self._add_kinds(kinds, n_statistics)
        self._add_shared(shared, n_statistics)

    def _add_kinds(self, kinds, n_statistics):
        together = {}
        for (vacates, _, _), members in kinds.items():
            states = tuple(sorted(members))
            together.setdefault((vacates, states), []).append([members[k] for k in states])
        for (_, states), columns in together.items():
            self._add(np.array(columns).T, np.array(states), n_statistics)
            self._sizes[np.array(states)] += len(columns)

    def _add_shared(self, shared, n_statistics):
        for (vacates, _, states), members in shared.items():
            index = np.array(members)[None]
            if states:
                self._add(index, [np.array(states)], n_statistics, dense=not vacates)
            else:
                self._add(index, None, int(bool(self._vacant.values)), dense=not vacates)

    def _add(self, index, states, n_statistics, dense=True):
        K, n = index.shape
        dense = dense and n <= LARGEST_DENSE
        self.blocks.append(Block(index.reshape((K, 1, n) if dense else (K, n, 1)), n_statistics))
        self._states.append(states)

    def scarce(self, counts):
        """Mark the numbers that are each of one state with few times, given those of the states."""
        few = (counts > 0) & (counts <= FEW_PER_NUMBER * (self._sizes + 1))
        few &= self._sizes <= MOST_NUMBERS
        out = np.zeros(self.size, bool)
        for block, states in zip(self.blocks, self._states, strict=True):
            if isinstance(states, np.ndarray):
                out[block.index[few[states]]] = True
        return out

    def statistics(self, of_states):
        """Statistics of each block, a list of (K, C), given those of the states, (S, C)."""
        out = []
        for block, states in zip(self.blocks, self._states, strict=True):
            if states is None:
                n = float(self._vacant.active.sum())
                out.append(np.full((1, block.n_statistics), n))
            elif isinstance(states, list):
                out.append(of_states[states[0]].sum(axis=0, keepdims=True))
            else:
                out.append(of_states[states])
        return out
