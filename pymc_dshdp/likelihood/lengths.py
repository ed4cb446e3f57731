"""Data that are not as long as the states, refused before PyTensor meets the shapes.

``pm.sample`` builds the density of the model before any step. That of the path comes before those
of the data that depend on it, so that it is there that the data are looked at. A density is not
told its model: it is that of the context, where the path is one of its variables.
"""

import pymc as pm
from pymc.logprob.abstract import _logprob
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions.path import HiddenPathRV, PossiblePathRV
from pymc_dshdp.graph.walks import concrete_shape, declared_parameters


def refuse_other_lengths(model, z):
    """Raise if data do not fit the parameters that they have at these states."""
    for rv in model.observed_RVs:
        op = getattr(rv.owner, "op", None)
        if not isinstance(op, RandomVariable):
            continue
        blockers = [v for v in model.basic_RVs if v is not rv]
        data = concrete_shape(model.rvs_to_values[rv])
        for parameter, core in zip(declared_parameters(rv), op.ndims_params, strict=True):
            if z not in set(ancestors([parameter], blockers=blockers)):
                continue
            shape = parameter.type.shape[: parameter.type.ndim - core]
            batch = data[: len(data) - op.ndim_supp]
            aligned = zip(shape[::-1], batch[::-1], strict=False)
            if any(n not in (None, 1, m) for n, m in aligned):
                raise ValueError(
                    f"{rv.name!r} has data of shape {data}, but its parameters indexed with the "
                    f"states {z.name!r} have shape {parameter.type.shape}: lengths (or length, "
                    f"shape, dims) of HiddenStates declare {z.name!r} of shape "
                    f"{concrete_shape(z)}; make that the length of the data"
                )


def _checked(density):
    def logp(op, values, *inputs, **kwargs):
        model = pm.Model.get_context(error_if_none=False)
        if model is not None and values[0] in model.values_to_rvs:
            refuse_other_lengths(model, model.values_to_rvs[values[0]])
        return density(op, values, *inputs, **kwargs)

    return logp


for path in (HiddenPathRV, PossiblePathRV):
    _logprob.register(path)(_checked(_logprob.dispatch(path)))
