"""The one module that knows PyMC 5.28 from PyMC 6."""

import sys

import pymc as pm
import pymc.step_methods
import xarray as xr
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps
from pytensor.graph.basic import Constant

PYMC_6 = int(pm.__version__.split(".")[0]) >= 6

if PYMC_6:
    from pytensor.compile.rewriting import inline_ofg_node
    from pytensor.conditional.op import IfElse
else:
    from pytensor.ifelse import IfElse  # noqa: F401
    from pytensor.tensor.rewriting.ofg import inline_ofg_node  # noqa: F401

# What pm.sample knows the traces of a store by: nothing of these classes is used.
try:
    from pymc.backends import _ZarrChainBase as RecorderOfStore
    from pymc.backends import _ZarrTraceBase as TraceOfStore
except ImportError:
    from pymc.sampling.mcmc import ZarrChain as RecorderOfStore  # noqa: F401
    from pymc.sampling.mcmc import ZarrTrace as TraceOfStore  # noqa: F401


def _steps_beside(step):
    """All steps of the outermost compound that is setting up a chain with this one.

    Compounds may be nested and are looked for among all callers, by what they contain. None where
    there is none.
    """
    found, frame = None, sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, CompoundStep):
            beside = flatten_steps(caller)
            found = beside if any(one is step for one in beside) else found
        frame = frame.f_back
    return found


def _tuning_iterations():
    """Find how long the chain that PyMC 5.28 is setting up will be tuned: a caller knows."""
    frame = sys._getframe(1)
    while frame is not None:
        local = frame.f_locals
        found = local.get("tune", getattr(local.get("self"), "_tune", None))
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        frame = frame.f_back
    return 0


class ChainStep(BlockedStep):
    """A step with a hook, ``_begin_chain(steps, tune)``, called once before each chain.

    PyMC 6 calls ``setup_chain(rng, tune, draws)`` and PyMC 5.28 ``set_rng(rng)``; ``steps`` are
    the steps that will run beside this one, None where they cannot be seen, and ``tune`` the
    number of tuning iterations.
    """

    if PYMC_6:

        def setup_chain(self, rng, tune, draws):
            """Prepare for one chain."""
            super().setup_chain(rng, tune, draws)
            self._begin_chain(_steps_beside(self), int(tune))

    else:

        def set_rng(self, rng):
            """Prepare for one chain."""
            super().set_rng(rng)
            self._begin_chain(_steps_beside(self), _tuning_iterations())

    def _begin_chain(self, steps, tune):
        pass


def axis_and_parts(node):
    """(axis, parts) of a Join: the axis an integer where it is known, else a variable."""
    if hasattr(node.op, "axis"):
        return node.op.axis, node.inputs
    axis, *parts = node.inputs
    return int(axis.data) if isinstance(axis, Constant) else axis, parts


def register_steps(classes):
    """Offer step classes to ``pm.sample`` before PyMC's own, which win ties by coming first."""
    methods = pymc.step_methods.STEP_METHODS
    for cls in reversed(classes):
        if cls not in methods:
            methods.insert(0, cls)


def begin_chain(step, rng, tune, draws):
    """Give a step, or several together, the generator of the chain that it starts."""
    if PYMC_6:
        step.setup_chain(rng, tune, draws)
    else:
        step.set_rng(rng)


def make_result(groups):
    """Build an InferenceData (PyMC 5.28) or a DataTree (PyMC 6) from datasets by group name."""
    if PYMC_6:
        return xr.DataTree.from_dict({f"/{name}": data for name, data in groups.items()})
    import arviz

    return arviz.InferenceData(**groups)


def group(data, name):
    """Return the dataset of a group of an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x)."""
    found = data[name]
    return found.to_dataset() if hasattr(found, "to_dataset") else found


def group_names(data):
    """Return the names of the groups of a result, also of a dictionary of datasets."""
    if isinstance(data, dict):
        return list(data)
    return list(data.children) if isinstance(data, xr.DataTree) else list(data.groups())


def with_groups(data, datasets):
    """Return a result like ``data``, also a dictionary, with groups replaced or added.

    The other groups are shared, not copied.
    """
    if isinstance(data, dict):
        return {**data, **datasets}
    if isinstance(data, xr.DataTree):
        out = data.copy(deep=False)
        for name, dataset in datasets.items():
            out[name] = xr.DataTree(dataset)
        return out
    return type(data)(attrs=data.attrs, **{**dict(data.items()), **datasets})
