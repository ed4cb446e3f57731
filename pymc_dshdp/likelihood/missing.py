"""Missing observations: left out of the table, where they integrate to one, then redrawn.

PyMC splits a masked observation ``y`` into ``y_observed`` and the free ``y_unobserved``. Given
the states a missing value is independent of everything else, so z can be drawn with it summed
out, and it from its own distribution given z: p(z, y_miss | rest) = p(z | rest) p(y_miss | z,
rest). Drawing z given imputed values instead would tie each to the other. Rows of ``pm.MvNormal``
that are missing in part keep the marginal density of what was observed (``likelihood/partial.py``).
"""

from pymc.distributions.distribution import PartialObservedRV
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import find_rng_nodes, reseed_rngs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, explicit_graph_inputs, graph_inputs
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.readers import in_values, quiet_at_first
from pymc_dshdp.graph.splits import UNOBSERVED, split_observation
from pymc_dshdp.graph.terms import densities
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.likelihood.partial import PartialNormal, has_marginal_density

__all__ = ["MissingValues", "is_missing_observation"]


def is_missing_observation(rv):
    """Whether a free variable is the missing part of an observation that depends on states.

    Rows of a multivariate observation that are missing in part are if it is ``pm.MvNormal``. Of
    others the missing entries stay with the step that PyMC gives them, and z is drawn given them.
    Told from the variable alone, as a step is asked for it: its name, and parameters that a
    constant mask is taken of. ``MissingValues`` sees the model too.
    """
    if rv.name is None or not rv.name.endswith(UNOBSERVED):
        return False
    if has_op(rv, PartialObservedRV):
        return has_marginal_density(rv)
    if not any(_masked(parameter) for parameter in rv.owner.inputs):
        return False
    behind = list(rv.owner.inputs)
    while behind:
        node = behind.pop()
        if has_op(node, HiddenPathRV):
            return True
        if node.owner is not None and not has_op(node, RNGConsumerOp):
            behind += node.owner.inputs
    return False


def _masked(parameter):
    """Whether elements of a parameter are taken by a constant index."""
    if not has_op(parameter, AdvancedSubtensor):
        return False
    return all(isinstance(v, Constant) for v in graph_inputs(parameter.owner.inputs[1:]))


class MissingValues:
    """The missing observations that depend on given states.

    Parameters
    ----------
    model : pymc.Model
    states : list of HiddenStates variables

    Attributes
    ----------
    rvs : list of random variables

    Raises
    ------
    ValueError
        If another variable depends on a missing observation, which then cannot be summed out.
    """

    def __init__(self, model, states):
        self.rvs = []
        for rv in model.free_RVs:
            blockers = [v for v in model.basic_RVs if v is not rv]
            if is_missing_observation(rv) and set(states) & set(ancestors([rv], blockers)):
                if split_observation(model, rv) is None:
                    raise ValueError(
                        f"{rv.name!r} has the name and the form of the missing part of an "
                        "observation, but the model has no such observation; give it another name"
                    )
                self.rvs.append(rv)
        _refuse_dependents(model, self.rvs)
        whole = [rv for rv in self.rvs if not has_op(rv, PartialObservedRV)]
        self._values = [model.rvs_to_values[rv] for rv in whole]
        self._partial = [
            (model.rvs_to_values[rv], PartialNormal(model, rv))
            for rv in self.rvs
            if rv not in whole
        ]
        if whole:
            self._compile(model, whole)

    def _compile(self, model, rvs):
        draws = []
        for rv in rvs:
            copy = rv.owner.clone_with_new_inputs(rv.owner.inputs).outputs[
                rv.owner.outputs.index(rv)
            ]
            [draw] = in_values(model, [copy])
            transform = model.rvs_to_transforms[rv]
            draws.append(draw if transform is None else transform.forward(draw, *draw.owner.inputs))
        inputs = [
            v for v in explicit_graph_inputs(draws) if not isinstance(v, (Constant, SharedVariable))
        ]
        self._inputs = [v.name for v in inputs]
        function = compile_pymc(inputs, draws, mode="NUMBA")
        self._rngs = find_rng_nodes(function.maker.fgraph.outputs)
        self._function = quiet_at_first(function)

    def draw(self, point, rng):
        """Redraw every missing value given the states and parameters in the point."""
        if self._values:
            point = {**point, **self._draw_whole(point, rng)}
        for value, term in self._partial:
            point = {**point, value.name: term.draw(point, rng).astype(value.dtype, copy=False)}
        return point

    def _draw_whole(self, point, rng):
        reseed_rngs(self._rngs, rng.integers(2**63))
        out = self._function(*(point[name] for name in self._inputs))
        return {
            value.name: x.astype(value.dtype, copy=False)
            for value, x in zip(self._values, out, strict=True)
        }


def _refuse_dependents(model, rvs):
    for dependent in densities(model):
        blockers = [v for v in model.basic_RVs if v is not dependent]
        used = set(ancestors([dependent], blockers)) & set(rvs) - {dependent}
        if used:
            raise ValueError(
                f"{dependent.name!r} depends on the missing observations {used.pop().name!r}, "
                "which therefore cannot be summed out of the states' likelihood; declare that "
                "series as a free random variable instead of masking it"
            )
