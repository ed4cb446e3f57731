"""Variables that hold numbers of states beside the hidden states themselves."""

import numpy as np

__all__ = ["find_label_copies"]


def find_label_copies(posterior, hidden, numbers, besides):
    """Find the variables whose entries are states at fixed times, such as ``z[events]``.

    An entry that equals the state at some time in every draw, and is not the same number in all
    of them, is taken for that state. Entries that are one number in all draws, and no state's, may
    stand beside it.

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
    doubtful : list of str
        Variables that may hold numbers of states, since all their entries are states that their
        draw visits, but are not copies; without those that a renumbering leaves as they are.
    """
    dim, n_states = hidden[0].dim, hidden[0].n_states
    copies, doubtful, signatures = [], [], None
    for name, variable in posterior.items():
        if name in besides or {dim, f"{dim}_to"} & set(variable.dims):
            continue
        if not {"chain", "draw"} <= set(variable.dims) or variable.dtype.kind not in "iuf":
            continue
        values = variable.transpose("chain", "draw", ...).values.reshape(len(numbers), -1)
        if not values.size or (values != np.rint(values)).any():
            continue
        label = (values >= 0) & (values < n_states)
        new = np.take_along_axis(numbers, np.where(label, values, 0).astype(int), axis=1)
        constant = (values == values[0]).all(axis=0)
        possible = (label & (new >= 0)).all(axis=0)
        if not possible.any():
            continue
        if signatures is None:
            signatures = np.concatenate([_signatures(h.paths()) for h in hidden])
        state = possible & np.isin(_signatures(values), signatures)
        other = constant & ~label.any(axis=0)
        moves = (new != values)[:, possible].any()
        if (state & ~constant).any() and (state | other).all():
            copies.append(str(name))
        elif moves and ((state & ~constant).any() or possible.all()):
            doubtful.append(str(name))
    return copies, doubtful


def _signatures(paths):
    """One number for each column of (S, T), equal columns having equal ones.

    It is a sum with random odd weights modulo 2^64: two columns that differ have the same one
    with a probability of some 2^-63.
    """
    weights = np.random.default_rng(0).integers(2**63, size=len(paths), dtype=np.uint64)
    out = np.zeros(paths.shape[1], np.uint64)
    for row, weight in zip(paths, 2 * weights + 1, strict=True):
        out += row.astype(np.int64).astype(np.uint64) * weight
    return out
