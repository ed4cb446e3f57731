"""What a model holds of the times of its own data, which says nothing about others.

A covariate left as it was fits other data wherever the two happen to be equally long. So the model
is moved to times that fit nothing by accident first: those of the other data and ``MORE`` beyond
them. Whatever is along the times and was not given then clashes with the rest.
"""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_dshdp.analysis.moved_graphs import ADVICE, evaluated, like, moved, rebuilt
from pymc_dshdp.distributions.path import HiddenPathRV, path_parameters
from pymc_dshdp.graph.walks import as_tensor, concrete_shape, has_op
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.likelihood.table import terms_involving

__all__ = ["refuse_old_parameters", "refuse_old_times"]

MORE = 7


def _layout(z):
    """List what of the states is not among their parameters: lengths, and what is known."""
    return [path_parameters(z).lengths, path_parameters(z).known]


def _beyond(shape, old):
    """How many sequences and times to add to a shape, so that no extent is 1 or an old one."""
    out = []
    for new, n in zip(shape, old, strict=True):
        more = MORE
        while new + more == n:
            more += 1
        out.append(more)
    return tuple(out)


def _extended(values, shape, more, *, all_of_them=False):
    """Repeat the last entries of what is along the times.

    Parameters
    ----------
    values : dict of ndarray
        Data that were given; those that begin with the shape of the states, or with the times or
        sequences alone, are along them.
    shape, more : tuple of int
        Of the states on the other data, and what is added to it.
    all_of_them : bool
        Extend the first axis of the others too: of lagged data, which have fewer times.
    """
    out = {}
    for key, value in values.items():
        axes = _axes(np.shape(value), shape, more)
        if not axes and all_of_them and np.ndim(value):
            axes = (more[-1],)
        pads = [(0, n) for n in axes] + [(0, 0)] * (np.ndim(value) - len(axes))
        out[key] = np.pad(np.ma.filled(value, 0), pads, mode="edge") if axes else value
    return out


def _axes(found, shape, more):
    if found[: len(shape)] == shape:
        return more
    if len(shape) == 1 or not found:
        return ()
    if found[0] == shape[1]:  # what the sequences have in common
        return more[1:]
    return more[:1] if found[0] == shape[0] else ()


def _held(model, z, followers, replaced):
    """Hold what is not replaced to the shape that it has now, so that PyTensor sees a clash."""
    behind = set(ancestors([z, *followers])) - set(replaced) - {z, *followers}
    out = {}
    for v in [*model.data_vars, *model.free_RVs]:
        if v in behind and v.type.ndim and v not in ancestors(_layout(z)):
            out[v] = like(v, pt.specify_shape(as_tensor(v), concrete_shape(v)), pt.as_tensor)
    return out


def _left_behind(model, z, followers, replaced):
    """Name what is along the old times and was not given: data, arrays and parameters.

    Returns
    -------
    data, others : list of str
    """
    old = [n for n in concrete_shape(z) if n > 1]
    behind = set(ancestors([z, *followers])) - set(replaced) - {z, *followers}
    behind -= set(ancestors(_layout(z)))

    dims = model.named_vars_to_dims
    times = set(dims.get(z.name) or ())

    def along(v):
        own = dims.get(v.name) or ()
        named = own and None not in own and not times & set(own)  # along something else
        return not named and v.type.ndim and any(n in old for n in concrete_shape(v)[:2])

    data = [v.name for v in model.data_vars if v in behind and along(v)]
    others = [f"the parameter {v.name!r}" for v in model.free_RVs if v in behind and along(v)]
    constants = (v for v in behind if isinstance(v, Constant) and hasattr(v.type, "shape"))
    others += [
        f"a constant array of shape {tuple(map(int, v.data.shape))}" for v in constants if along(v)
    ]
    return data, list(dict.fromkeys(others))


def refuse_old_times(model, z, containers, values, lengths, size):
    """Raise if the states or their observations depend on anything along the old times.

    That is found at other lengths, which nothing fits by accident; see ``old_times``.
    """
    shape = (*(size or ()), int(lengths.sum()))
    more = _beyond(shape, concrete_shape(z))
    further = lengths.copy()
    further[-1] += more[-1]
    larger = None if size is None else (size[0] + more[0],)
    held = _held(model, z, values, containers)
    for all_of_them in (False, True):
        data = _extended(containers, shape, more, all_of_them=all_of_them)
        pads = [(0, n) for n in more]
        series = {
            rv: np.pad(np.ma.filled(y, 0), pads + [(0, 0)] * (np.ndim(y) - len(pads)), mode="edge")
            for rv, y in values.items()
        }
        try:
            moved(model, z, data, series, further, larger, held)
            return
        except ValueError as error:
            reason = error
    data, others = _left_behind(model, z, values, containers)
    if not data and not others:
        moved(model, z, containers, values, lengths, size)  # says what does not fit, if that is all
    what = " and ".join([*(f"the pm.Data {name!r}" for name in data), *others]) or "something"
    give = f"give {', '.join(map(repr, data))} too, or d" if data else "D"
    raise ValueError(
        f"the states {z.name!r} or their observations depend on {what} along the times of the "
        f"model's own data, which has no values at those of the other data: {give}{ADVICE[1:]}."
    ) from reason


def refuse_old_parameters(model, z, start):
    """Raise if a model declared again has parameters along its times, which the posterior has not.

    What the posterior has under their names is of the old times, also where these are as many. Of
    the shape of the states may be what has nothing to do with them: so each such parameter is made
    longer, and is along the times if it then no longer fits the rest.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    start : dict
        A point of the model.
    """
    shape = start[model.rvs_to_values[z].name].shape
    terms = dict(terms_involving(model, z))
    graphs = list(terms.values())
    point = {model.rvs_to_values[rv]: start[model.rvs_to_values[rv].name] for rv in model.free_RVs}
    used = set(ancestors(graphs)) & set(point)
    for value in [v for v in point if v in used]:
        rv, now = model.values_to_rvs[value], point[value]
        apart = rv in terms or has_op(rv, HiddenPathRV) or is_missing_observation(rv)
        if apart or now.shape[: len(shape)] != shape:
            continue
        pads = [(0, MORE)] * len(shape) + [(0, 0)] * (now.ndim - len(shape))
        longer = np.pad(now, pads, mode="edge")
        memo = {v: pt.constant(x) for v, x in {**point, value: longer}.items()}
        try:
            evaluated(rebuilt(graphs, memo, ()))
        except ValueError:
            raise ValueError(
                f"the observations of the states {z.name!r} depend on {rv.name!r} along their "
                f"times, and what the posterior has of it are its values at other times, of other "
                "data: integrate it out in the likelihood, or leave it out"
            ) from None
