"""Which group each time of hidden states is of."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

__all__ = ["GroupIndex", "positions_of"]


def positions_of(where, groups, labels, given):
    """Positions of labels of groups among those of their coordinate, of the shape given."""
    number = {label: g for g, label in enumerate(labels)}
    unknown = [x for x in given.ravel().tolist() if x not in number]
    if unknown:
        raise ValueError(
            f"{where} must be labels of {groups!r}, which has {list(labels)}, received "
            f"{unknown[0]!r}"
        )
    return np.array([number[x] for x in given.ravel().tolist()], np.int64).reshape(given.shape)


class GroupIndex:
    """The groups of hidden states: checked first, then registered with the model.

    Parameters
    ----------
    name : str
        Of the states.
    prior : TransitionPrior
    group : array_like, pm.Data or None
        Of each sequence or of each time.
    size : list of int
        (n_sequences,) of a batch, else empty.
    lengths : list of int

    Attributes
    ----------
    data : pm.Data or None
        What holds the positions of the groups, once registered.
    """

    def __init__(self, name, prior, group, size, lengths):
        self._name, self._prior, self._batch, self.data = name, prior, bool(size), None
        if prior.groups is None:
            if group is not None:
                raise ValueError(
                    f"{name}: group is for a prior with groups, which {prior.name!r} has not; "
                    "declare them there, as in DSHDP(..., groups='subject')"
                )
            return
        by_sequence = tuple(size) if size else (len(lengths),)
        by_time = (*size, lengths[0]) if size else (sum(lengths),)
        if group is None:
            raise ValueError(
                f"{name}: the prior {prior.name!r} has groups, {prior.groups!r}; say by "
                f"group=[...] which of them each sequence is of, in shape {by_sequence}, or each "
                f"time, in shape {by_time}"
            )
        self._positions = self._checked(group)
        held = self._positions.get_value() if self._is_data else self._positions
        if held.shape not in (by_sequence, by_time):
            raise ValueError(
                f"{name}: group must have shape {by_sequence}, one for each sequence, or "
                f"{by_time}, one for each time; received shape {held.shape}"
            )
        wrong = held[(held < 0) | (held >= prior.n_groups)]
        if wrong.size:
            raise ValueError(
                f"{name}: group must be positions 0 to {prior.n_groups - 1} of {prior.groups!r}, "
                f"received {wrong.flat[0]}"
            )
        self._each_sequence = held.shape == by_sequence

    @property
    def _is_data(self):
        return isinstance(self._positions, SharedVariable)

    def _checked(self, group):
        """Positions of the groups: the ``pm.Data`` given, or an array."""
        where = f"{self._name}: group"
        if isinstance(group, Variable):
            if not isinstance(group, SharedVariable) or group not in self._prior.model.data_vars:
                raise TypeError(f"{where} must be an array or a pm.Data, received {group}")
            if not group.type.dtype.startswith(("int", "uint")):
                raise TypeError(f"{where} must be integers, received dtype {group.type.dtype}")
            return group
        labels = list(self._prior.model.coords[self._prior.groups])
        given = np.asarray(group)
        integers = all(isinstance(label, (int, np.integer)) for label in labels)
        if given.dtype.kind in "iu" and not integers:
            return given.astype(np.int64)
        return positions_of(where, self._prior.groups, labels, given)

    def register(self, lengths, dims):
        """Return the index of the times, of the shape of the states; that of the prior else.

        Parameters
        ----------
        lengths : tensor of int
            Those of the states, which the group of a sequence is repeated for.
        dims : tuple of str or None
            Of the states.
        """
        if self._prior.groups is None:
            return self._prior.index
        self.data = self._positions
        if not self._is_data:
            own = (f"{self._name}_sequence",) if self._each_sequence else dims
            self.data = pm.Data(f"{self._name}_group", self._positions, dims=own)
        index = self.data.astype("int64")
        if not self._each_sequence:
            return index
        # Of a vector of lengths PyTensor keeps no static shape, so that the model can be moved.
        each = pt.repeat(index, index * 0 + lengths)
        return each.reshape((index.shape[0], -1)) if self._batch else each
