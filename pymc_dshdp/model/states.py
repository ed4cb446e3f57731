"""The hidden states, declared in a ``pm.Model``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.variable import TensorVariable

from pymc_dshdp.distributions import HiddenPath, PossiblePath
from pymc_dshdp.distributions.path import UNKNOWN
from pymc_dshdp.graph.walks import evaluate
from pymc_dshdp.model.groups import GroupIndex
from pymc_dshdp.transitions.declared import TransitionPrior, tag
from pymc_dshdp.transitions.record import StatesRecord
from pymc_dshdp.typing import Tensor

__all__ = ["HiddenStates"]


def _whole(value, what):
    """Check a positive integer; leave a symbolic scalar as it is."""
    if isinstance(value, SharedVariable) or (
        isinstance(value, Variable) and not isinstance(value, Constant)
    ):
        if value.type.ndim != 0:
            raise ValueError(f"{what} must be a scalar, received {value}")
        return value
    number = value.data if isinstance(value, Constant) else value
    whole = np.ndim(number) == 0 and not isinstance(number, (bool, np.bool_, str))
    if not whole or not np.isfinite(number) or int(number) != number:
        raise TypeError(f"{what} must be an integer, received {value!r}")
    if number < 1:
        raise ValueError(f"{what} must be at least 1, received {int(number)}")
    return int(number)


def _current(extent):
    return extent if isinstance(extent, int) else int(evaluate([extent])[0])


def _observed_shape(name, observed):
    """Shape of states that are data, symbolic where ``pm.set_data`` may change it."""
    if isinstance(observed, Variable):
        static = observed.type.shape
        shape = [observed.shape[i] if n is None else n for i, n in enumerate(static)]
    else:
        shape = np.shape(observed)
    if len(shape) not in (1, 2):
        raise ValueError(
            f"{name}: observed must have shape (T,) or (n_sequences, T), received {tuple(shape)}"
        )
    return shape


def _layout(model, name, length, dims, lengths, shape):
    """Resolve (dims, batch size or None, sequence lengths) from the arguments."""
    given = {"length": length, "lengths": lengths, "shape": shape, "dims": dims}
    given = {key: value for key, value in given.items() if value is not None}
    if len(given) > 1 and set(given) != {"lengths", "dims"}:
        raise ValueError(
            f"{name}: give one of length, lengths, shape and dims (lengths may come with dims); "
            f"received {', '.join(f'{key}={value!r}' for key, value in given.items())}"
        )
    extents = None
    if dims is not None:
        dims = (dims,) if isinstance(dims, str) else tuple(dims)
        for dim in dims:
            if dim not in model.dim_lengths:
                raise ValueError(
                    f"{name}: dims has {dim!r}, which is not a dimension of the model (it has "
                    f"{sorted(model.dim_lengths)}); declare it with pm.Model(coords=...)"
                )
        extents = [_whole(model.dim_lengths[dim], f"{name}: dimension {dim!r}") for dim in dims]
    if shape is not None:
        if isinstance(shape, Variable) and shape.type.ndim == 1:  # of pm.Data, say
            shape = list(shape)
        if np.ndim(shape) != 1 or len(shape) not in (1, 2):
            raise ValueError(f"{name}: shape must be (T,) or (n_sequences, T), received {shape!r}")
        extents = [_whole(extent, f"{name}: shape") for extent in shape]
    if length is not None:
        extents = [_whole(length, f"{name}: length")]
    if extents is not None and len(extents) > 2:
        raise ValueError(
            f"{name}: states have one or two dimensions (sequence, time), received dims={dims!r}"
        )
    if lengths is not None:
        lengths = [_whole(n, f"{name}: lengths") for n in np.ravel(np.asarray(lengths, object))]
        if not lengths:
            raise ValueError(f"{name}: lengths must not be empty, received []")
        if extents is not None:
            if len(extents) == 2:
                raise ValueError(
                    f"{name}: lengths is for sequences laid end to end in one dimension, received "
                    f"dims={dims!r}; a rectangular layout needs no lengths"
                )
            if sum(lengths) != _current(extents[0]):
                raise ValueError(
                    f"{name}: lengths must add up to the {_current(extents[0])} entries of "
                    f"{dims[0]!r}, received a sum of {sum(lengths)}"
                )
        return dims, None, lengths
    if extents is None:
        raise ValueError(
            f"{name}: say how long the sequences are: length=T, lengths=[T1, T2, ...], "
            "shape=(n_sequences, T) or dims=..."
        )
    size = None if len(extents) == 1 else (extents[0],)
    return dims, size, [extents[-1]]


def _known_array(name, known, n_states, size, lengths):
    """Known states by position, of the shape of z, -1 elsewhere; None if there are none."""
    if not isinstance(known, Mapping):
        raise TypeError(
            f"{name}: known must be a dictionary {{time: state}}, or {{(sequence, time): state}}; "
            f"received {type(known).__name__}. From an array with -1 for unknown: "
            "{t: k for t, k in enumerate(labels) if k >= 0}"
        )
    if not known:
        return None
    starts = np.cumsum(lengths) - lengths
    out = np.full((*size, lengths[0]) if size else sum(lengths), UNKNOWN)
    for key, state in known.items():
        where = f"{name}: known[{key!r}]"
        key = key if isinstance(key, tuple) else (key,)
        if len(key) != 2 and (len(key) != 1 or size):
            raise ValueError(
                f"{where}: a key must be "
                + ("(sequence, time)" if size else "a time or (sequence, time)")
            )
        extents = out.shape
        if len(key) == 2:
            n = _position(where, key[0], size[0] if size else len(lengths), "sequence")
            extents = (n + 1, lengths[0] if size else lengths[n])
        time = _position(where, key[-1], extents[-1], "time")
        if not _is_whole(state) or not 0 <= state < n_states:
            raise ValueError(
                f"{where} must be one of the states 0 to {n_states - 1}, received {state!r}"
                + (": give its position in the coordinate" if isinstance(state, str) else "")
            )
        at = time if len(key) == 1 else (n, time) if size else starts[n] + time
        if out[at] not in (UNKNOWN, state):
            raise ValueError(f"{where} is {state}, but was given as {out[at]} by another key")
        out[at] = state
    return out


def _is_whole(number):
    return isinstance(number, (int, np.integer)) and not isinstance(number, (bool, np.bool_))


def _position(where, index, extent, what):
    if not _is_whole(index) or not 0 <= index < extent:
        raise ValueError(
            f"{where}: {what} must be a position, 0 to {extent - 1}, received {index!r}"
        )
    return int(index)


def _check_kappa(name, prior, size, T):
    """Raise if a self-persistence that varies with time does not have a row for each time."""
    if prior.kappa is None or prior.groups is not None:
        return
    rows = prior.kappa.type.shape[:-1]
    expected = (*size, T)
    fits = len(rows) <= len(expected) and all(
        n in (None, m) for n, m in zip(rows[::-1], expected[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name}: kappa of the prior {prior.name!r} has shape {prior.kappa.type.shape}, but "
            f"{name!r} needs a row for each of its times: give kappa of shape "
            f"{(*expected, prior.n_states)}, or of shape ({prior.n_states},) if it is constant"
        )


def _check_index(name, prior, size, T):
    """Raise if matrices that vary with time are not one for each time."""
    if prior.index is None:
        return
    found, expected = prior.index.type.shape, (*size, T)
    fits = len(found) <= len(expected) and all(
        n in (None, m) for n, m in zip(found[::-1], expected[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name}: the transition matrices of {prior.name!r} are for times of shape {found}, "
            f"but {name!r} has times of shape {expected}: give index, or a P for each time, of "
            "that shape"
        )


def _check_path(where, path, n_states, shape):
    """Raise unless an array, masked or not, is a path of the states."""
    if path.shape != shape:
        raise ValueError(
            f"{where} must have the shape of the states, {shape}, received {path.shape}"
        )
    wrong = np.argwhere(np.ma.filled((path < 0) | (path >= n_states) | (path % 1 != 0), False))
    if wrong.size:
        at = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"{where} must be states, 0 to {n_states - 1}, received {path[at]:g} at position {at}"
        )


def _observed_arrays(name, observed, n_states, shape):
    """(path, None) where all of it is observed, else (None, known states, -1 elsewhere)."""
    if isinstance(observed, Variable):
        return observed, None
    try:
        path = np.ma.masked_invalid(np.ma.asarray(observed, dtype="float64"))
    except (TypeError, ValueError):
        found = np.ma.asarray(observed).dtype
        raise TypeError(
            f"{name}: observed must be states, 0 to {n_states - 1}, and NaN where they are drawn; "
            f"received an array of {found}. Of words: codes = pd.Categorical(words, "
            "categories=names).codes, with names in the order of the coordinate of the states, and "
            "known={t: k for t, k in enumerate(codes) if k >= 0} in the place of observed"
        ) from None
    _check_path(f"{name}: observed", path, n_states, shape)
    if np.ma.is_masked(path):
        return None, path.filled(UNKNOWN).astype("int64")
    return path.data.astype("int64"), None


def _initial_array(name, path, n_states, shape, known):
    """Check a starting path."""
    path = np.asarray(path)
    if path.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: initial_states must be integers, received an array of {path.dtype}"
        )
    _check_path(f"{name}: initial_states", path, n_states, shape)
    if known is not None and np.any((known != UNKNOWN) & (known != path)):
        at = tuple(int(i) for i in np.argwhere((known != UNKNOWN) & (known != path))[0])
        raise ValueError(
            f"{name}: initial_states must agree with known, received {path[at]} at position {at}, "
            f"which is known to be {known[at]}"
        )
    return path.astype("int64")


def HiddenStates(
    name: str,
    prior: TransitionPrior,
    *,
    length: int | Tensor | None = None,
    dims: str | Sequence[str] | None = None,
    lengths: Sequence[int] | np.ndarray | None = None,
    shape: Sequence[int | Tensor] | None = None,
    known: Mapping[Any, int] | None = None,
    observed: ArrayLike | None = None,
    initial_states: ArrayLike | None = None,
    group: ArrayLike | Tensor | None = None,
) -> TensorVariable:
    """Hidden states z of a hidden Markov model with the given transition prior.

    Use the result as an integer index: ``rate[z]`` has the shape of ``z``. The auxiliary w_t of the
    paper (persist or switch) is summed out.

    Sampling starts from ``initvals[name]`` if that is given to ``pm.sample``, else from
    ``initial_states``, else from a segmentation of the data into clusters, drawn with the chain's
    own generator; see ``WeakLimitFFBS``. The sign for the last is PyMC's initial value of the path,
    ``model.initial_point()[name]``, a pattern of the last two states. PyMC hands a sampler nothing
    but values of variables, so that no sign is possible that is not some path; ``initvals`` with
    this very path therefore start from the data. Where fewer than 16 times are free, no start is
    made from the data and every path of ``initvals`` is kept; ``initial_states`` always is.

    Parameters
    ----------
    name : str
    prior : TransitionPrior
        A prior such as ``DSHDP``, or ``Transitions``, declared in the same model.
    length : int or scalar tensor
        T, one sequence. A tensor such as ``data.shape[0]`` follows ``pm.set_data``.
    dims : str or tuple of str
        Dimension names of the result, (time,) or (sequence, time).
    lengths : sequence of int
        Lengths of sequences laid end to end (as in hmmlearn); may come with ``dims``.
    shape : tuple
        (T,) or (n_sequences, T), a rectangular batch.
    known : dict, optional
        States that are known, {time: state} or {(sequence, time): state}, by position from 0;
        for ``lengths`` a time alone counts along the sequences laid end to end. The states are
        drawn given them, also by ``pm.sample_prior_predictive``, and any other path has
        log-density -inf. A symbolic length (of ``dims``, say) must then stay what it is. What is
        known of a state pins its number: states with known times no longer change their labels,
        those without still do.
    observed : array_like or pm.Data, optional
        The states as data, as other variables of PyMC take them. Of the shape of the result, which
        they give where ``length``, ``dims``, ``lengths`` and ``shape`` are left out. Where the
        array is masked or NaN the states are drawn; the rest is what ``known`` says in another
        form. Where nothing is missing ``z`` is an observed variable, as ``pm.observe(model, {"z":
        path})`` makes it, and rows, self-persistence and emission parameters are drawn given the
        path.
    initial_states : array_like of int, optional
        Path from which the tuning of every chain starts, of the shape of the result: the
        segmentation by a parametric model, say. The posterior does not depend on it. With
        ``tune=0`` it is not used; give ``initvals`` then.

    group : array_like or pm.Data, optional
        For a prior with ``groups``: the group of each sequence, of shape (n_sequences,), or of each
        time, of the shape of the result, whose rows lead to that time from the one before. Labels
        of the coordinate of the groups; where these are not integers, also their positions from 0.
        A ``pm.Data`` holds positions. What is given is registered as constant data ``name_group``,
        under which other data and a future say whose they are.

    Returns
    -------
    TensorVariable
        int64, as ``pm.Categorical``, of shape (T,) or (n_sequences, T). The
        sequence lengths are registered as constant data ``name_lengths`` (the lengths at this
        moment, where they are symbolic); what is known, as ``name_known`` (-1 elsewhere);
        ``initial_states`` as ``name_initial_states``; and as ``name_record`` what those that read
        results must know of the states and their prior.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.

    Examples
    --------
    Two sequences that share their states; the first time of all is known to be in state 2:

    >>> with pm.Model(coords={"state": range(10)}):
    ...     prior = dshdp.DSHDP("hmm", dims="state")
    ...     z = dshdp.HiddenStates("z", prior, lengths=[60, 40], known={0: 2})
    ...     mu = pm.Normal("mu", dims="state")
    ...     y = pm.Normal("y", mu[z], observed=np.zeros(100))
    """
    if not isinstance(prior, TransitionPrior):
        raise TypeError(
            f"{name}: prior must be a transition prior of this package such as "
            f"DSHDP('hmm', n_states=20), received {prior!r}"
        )
    context = pm.modelcontext(None)
    model, name = context.root, context.name_for(name)
    if model is not prior.model:
        raise ValueError(f"{name}: the prior {prior.name!r} was declared in another model")
    if observed is not None and all(a is None for a in (length, dims, lengths, shape)):
        shape = _observed_shape(name, observed)
    dims, size, lengths = _layout(model, name, length, dims, lengths, shape)
    symbolic = not all(isinstance(n, int) for n in lengths)
    now, repeats = ([_current(n) for n in extents] for extents in (lengths, size or (1,)))
    size_now = [_current(n) for n in size or ()]
    shape_now = (*size_now, now[0]) if size else (sum(now),)
    if known is not None:
        if observed is not None:
            raise ValueError(f"{name}: give observed or known, not both; received both")
        known = _known_array(name, known, prior.n_states, size_now, now)
    if observed is not None:
        observed, known = _observed_arrays(name, observed, prior.n_states, shape_now)
    if initial_states is not None:
        if observed is not None:
            raise ValueError(
                f"{name}: initial_states is for states that are drawn, but all are observed"
            )
        initial_states = _initial_array(name, initial_states, prior.n_states, shape_now, known)
    _check_kappa(name, prior, size_now, sum(now))
    _check_index(name, prior, size_now, sum(now))
    groups = GroupIndex(name, prior, group, size_now, now)
    distribution = PossiblePath if prior.constrained else HiddenPath
    lengths = pt.stack(lengths) if symbolic else pt.constant(np.asarray(lengths))
    index = groups.register(lengths, dims)
    kappa = pt.zeros(prior.n_states) if prior.kappa is None else prior.kappa
    z = distribution(
        name,
        prior.pi_init,
        prior.pi_bar,
        kappa[index] if prior.groups is not None and prior.kappa is not None else kappa,
        lengths,
        known=known,
        index=index,
        size=size,
        dims=dims,
        observed=observed,
    )
    data = pm.Data(f"{name}_lengths", np.tile(now, repeats), dims=f"{name}_sequence")
    known = None if known is None else pm.Data(f"{name}_known", known, dims=dims)
    record = StatesRecord.of(z, prior, lengths=data, known=known, group=groups.data)
    pm.Data(f"{name}_record", record.to_bytes())
    if initial_states is not None:
        pm.Data(f"{name}_initial_states", initial_states, dims=dims)
    return tag(z, prior.name, "states", prior.found_as)
