"""The variables of each prior, found by walking the model's graph from its hidden states.

Steps never hold the Python object that declared a prior: models get cloned, and values fixed
by ``pm.do`` or ``pm.observe``.
"""

from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import LogOddsTransform
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.shape import SpecifyShape

from pymc_dshdp.distributions import (
    HiddenPathRV,
    SelfPersistenceRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
from pymc_dshdp.distributions._common import core

__all__ = ["PriorVariables", "Reader", "find_priors"]


def has_op(variable, op_type):
    """Whether a variable is the output of an Op of the given type."""
    return variable.owner is not None and isinstance(variable.owner.op, op_type)


def is_cast(variable):
    """Whether a variable is another one in a different dtype."""
    return has_op(variable, Elemwise) and isinstance(variable.owner.op.scalar_op, Cast)


def densities(model):
    """Random variables and potentials of a model, each once.

    After ``pm.sample_posterior_predictive``, PyMC 5.28 lists observed variables twice in
    ``model.observed_RVs``.
    """
    return list(dict.fromkeys([*model.basic_RVs, *model.potentials]))


def unwrap(variable):
    """Strip what a ``size`` or ``pm.do`` puts around a parameter: leading dimensions, shapes."""
    while has_op(variable, SpecifyShape) or _adds_leading_axes(variable):
        variable = variable.owner.inputs[0]
    return variable


def _adds_leading_axes(variable):
    if not has_op(variable, DimShuffle):
        return False
    n = variable.owner.inputs[0].type.ndim
    order = list(variable.owner.op.new_order)
    return order == ["x"] * (len(order) - n) + list(range(n))


def support(model, rv):
    """Bounds (low, high) of a free variable, read from its transform.

    Raises
    ------
    ValueError
        If they depend on random variables: a step of those would move this variable too.
    """
    transform = model.rvs_to_transforms[rv]
    if transform is None:
        return -np.inf, np.inf
    ends = [transform.backward(pt.constant(x), *rv.owner.inputs) for x in (-700.0, 700.0)]
    if depends_on_random_variables(ends):
        raise ValueError(
            f"{rv.name!r} has bounds that are random variables; give it constant bounds, or a "
            "prior without bounds of its own such as pm.Gamma or pm.HalfNormal"
        )
    low, high = pm.draw(ends, random_seed=0)
    low, high = float(np.min(low)), float(np.max(high))
    return low, np.inf if high > 1e200 else high


def depends_on_random_variables(nodes):
    """Whether graphs contain random variables."""
    return any(has_op(v, RNGConsumerOp) for v in ancestors(nodes))


def role_of(rv):
    """Role of a variable that carries a prior's tag, or None."""
    return getattr(rv.tag, "dshdp", (None, None))[1]


@dataclass(eq=False)
class PriorVariables:
    """The variables of one transition prior, each a node of the model's graph.

    Attributes
    ----------
    states : list of HiddenStates variables
    n_states : int
    pi_init, pi_bar : free random variables
    alpha, beta : nodes
        Concentration and weights of the rows; free random variables, constants, or (alpha of
        the sticky prior) an expression.
    gamma : node or None
        None where beta is given (``FixedTransitions``).
    fractions : random variable or None
        Stick fractions v.
    kappa : node
        Of shape (L,), or (T, L) or (N, T, L) where it varies with time.
    phi, eta : nodes or None
        None where kappa is not ``SelfPersistence``.
    sticky : tuple of two nodes, or None
        (phi, s) where kappa is ``StickyPersistence``.
    """

    n_states: int
    pi_init: Variable
    pi_bar: Variable
    alpha: Variable
    beta: Variable
    gamma: Variable | None
    fractions: Variable | None
    kappa: Variable
    phi: Variable | None
    eta: Variable | None
    sticky: tuple | None
    states: list = field(default_factory=list)

    @property
    def varies(self):
        """Whether the self-persistence varies with time."""
        return self.kappa.type.ndim > 1

    def transition_variables(self, model):
        """Free variables that the transition block draws."""
        weights = self.beta if self.fractions is None else self.fractions
        found = [self.gamma, weights, self.alpha, self.pi_bar, self.pi_init]
        if self.sticky is not None:
            found += [*self.sticky, self.kappa]
        return [v for v in found if v in model.free_RVs]

    def persistence_variables(self, model):
        """Free variables that the self-persistence block draws."""
        if role_of(self.kappa) != "kappa" or self.kappa not in model.free_RVs:
            return []
        found = [self.phi, self.eta, self.kappa]
        return [v for v in found if v is not None and v in model.free_RVs]

    def children(self):
        """Map each variable to the variables of the prior that may depend on it."""
        rows = {self.pi_bar, self.pi_init}
        weights = self.beta if self.fractions is None else self.fractions
        states = set(self.states)
        tied = {v: {self.kappa} | rows for v in self.sticky or ()}
        return tied | {
            self.gamma: {weights},
            weights: rows,
            self.alpha: rows,
            self.pi_bar: states,
            self.pi_init: states,
            self.kappa: states,
            self.phi: {self.kappa},
            self.eta: {self.kappa},
        }


def _prior_of(model, z):
    pi_init, pi_bar, kappa = (unwrap(v) for v in z.owner.inputs[2:5])
    for rv in (pi_init, pi_bar):
        if rv not in model.free_RVs or not has_op(rv, TransitionRowsRV):
            raise ValueError(
                f"The transition rows {rv} of {z.name!r} must be free random variables declared by "
                "a prior of this package; undo the pm.do or pm.observe on them"
            )
    alpha, beta = (unwrap(v) for v in pi_bar.owner.inputs[2:])
    gamma = fractions = phi = eta = sticky = None
    if has_op(beta, SymmetricWeightsRV) and beta in model.free_RVs:
        gamma = unwrap(beta.owner.inputs[2])
    for v in ancestors([beta], blockers=model.basic_RVs):
        if has_op(v, StickFractionsRV) and v in model.free_RVs:
            fractions, gamma = v, unwrap(v.owner.inputs[2])
    if gamma is None and depends_on_random_variables([alpha, beta]):
        raise ValueError(
            f"The weights beta of {z.name!r} must be free while alpha is; undo the pm.do or "
            "pm.observe on them, or fix alpha too"
        )
    if has_op(kappa, SelfPersistenceRV):
        phi, eta = (unwrap(v) for v in kappa.owner.inputs[2:])
    if has_op(kappa, StickyPersistenceRV):
        sticky = tuple(unwrap(v) for v in kappa.owner.inputs[2:])
    n_states = pi_init.type.shape[0]
    return PriorVariables(
        n_states, pi_init, pi_bar, alpha, beta, gamma, fractions, kappa, phi, eta, sticky
    )


def find_priors(model):
    """All priors of a model that have hidden states, in the order of the states.

    Returns
    -------
    list of PriorVariables
    """
    priors = {}
    for z in model.free_RVs:
        if has_op(z, HiddenPathRV):
            pi_bar = unwrap(z.owner.inputs[3])
            if pi_bar not in priors:
                priors[pi_bar] = _prior_of(model, z)
            priors[pi_bar].states.append(z)
    return list(priors.values())


def outside_dependents(model, prior, owned):
    """Pairs (dependent, variable): what outside the prior depends on which owned variable."""
    children = prior.children()
    for dependent in densities(model):
        blockers = [v for v in model.basic_RVs if v is not dependent]
        seen = set(ancestors([dependent], blockers=blockers))
        for variable in owned:
            if variable is dependent or variable not in seen:
                continue
            if dependent not in children.get(variable, ()):
                yield dependent, variable


def refuse_outside_dependents(model, prior, owned, step):
    """Raise if a variable or Potential outside the prior depends on an owned variable.

    The conditionals hold only if nothing but the prior's own variables involves them.
    """
    for dependent, variable in outside_dependents(model, prior, owned):
        raise ValueError(
            f"{step}: {dependent.name!r} depends on {variable.name!r}, which this step "
            f"draws from a conditional that does not contain {dependent.name!r}. Remove "
            "that dependence, or give the prior its own variable."
        )


def path_lengths(model, z, start):
    """Sequence lengths of a states variable, row by row for a batch; int64 of shape (N,).

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    start : dict
        A point of the model.
    """
    [lengths] = point_function([core(z.owner.inputs[5], 1)])({})
    sequences = np.prod(start[model.rvs_to_values[z].name].shape[:-1], dtype=int)
    return np.tile(lengths.astype("int64"), sequences)


def known_states(z, shape):
    """Known states along the flattened path, -1 elsewhere; None if there are none.

    Parameters
    ----------
    z : HiddenStates variable
    shape : tuple of int
        Of the states.
    """
    known = z.owner.inputs[6]
    if known.type.shape[-1] == 0:
        return None
    [known] = point_function([known])({})
    return np.broadcast_to(known, shape).ravel()


def initial_states(model, z, shape):
    """Read the declared starting path of a ``HiddenStates`` variable, None if there is none.

    Raises ``ValueError`` where the states have changed their shape since.
    """
    data = model.named_vars.get(f"{z.name}_initial_states")
    if data is None:
        return None
    path = data.get_value()
    if path.shape != shape:
        raise ValueError(
            f"{z.name}: initial_states has shape {path.shape}, but the states now have {shape}; "
            f"set {data.name!r} too with pm.set_data"
        )
    return path


def is_log_odds(model, rv):
    """Whether the value variable of a free variable is its logit."""
    return isinstance(model.rvs_to_transforms.get(rv), LogOddsTransform)


def logit_node(model, node):
    """Graph of logit(node) in value variables: the value variable itself where it is one."""
    if node in model.free_RVs and is_log_odds(model, node):
        return model.rvs_to_values[node]
    [node] = model.replace_rvs_by_values([node])
    return pt.log(node) - pt.log1p(-node)


def in_values(model, nodes):
    """Graphs of nodes with the random variables replaced by their value variables."""
    return model.replace_rvs_by_values(list(nodes))


def point_function(graphs, inputs=()):
    """Compile graphs in value variables to ``f(point, *inputs) -> list``, in numba mode.

    Graphs of constants alone are evaluated once, and values that the point has are taken from
    it as they are. Every call returns new arrays.
    """
    varying = [v for v in graph_inputs(graphs) if not isinstance(v, Constant)]
    free = [v for v in varying if v not in inputs and not isinstance(v, SharedVariable)]
    if all(graph in free for graph in graphs):
        return lambda point, *_: [_as_type(point[v.name], v.dtype).copy() for v in graphs]
    function = compile_pymc([*inputs, *free], graphs, mode="NUMBA", on_unused_input="ignore")
    if not (varying or inputs):
        constants = function()
        return lambda point: [np.copy(x) for x in constants]
    function.trust_input = True  # ``_as_type`` sees to the types of values, in less time
    names, dtypes = [v.name for v in free], [v.dtype for v in (*inputs, *free)]

    def call(point, *values):
        given = (*values, *(point[name] for name in names))
        return function(*map(_as_type, given, dtypes))

    return call


def _as_type(value, dtype):
    """Array of a dtype; a TypeError if that would cut off fractions."""
    return np.asarray(value).astype(dtype, casting="same_kind", copy=False)


class Reader:
    """Scalar hyperparameters: natural values from a point, and value-space numbers back.

    Parameters
    ----------
    model : pymc.Model
    nodes : list of scalar nodes
    """

    def __init__(self, model, nodes):
        self._read = point_function(in_values(model, nodes))
        self._free = [i for i, node in enumerate(nodes) if node in model.free_RVs]
        self._values = [model.rvs_to_values[nodes[i]] for i in self._free]
        natural = [pt.scalar(dtype=nodes[i].dtype) for i in self._free]
        forward = []
        for i, x in zip(self._free, natural, strict=True):
            transform = model.rvs_to_transforms[nodes[i]]
            rng_and_size, parameters = nodes[i].owner.inputs[:2], nodes[i].owner.inputs[2:]
            inputs = [*rng_and_size, *in_values(model, parameters)]
            forward.append(x if transform is None else transform.forward(x, *inputs))
        self._write = point_function(forward, natural) if forward else None

    def read(self, point):
        """Natural values, floats."""
        return [float(x) for x in self._read(point)]

    def write(self, point, naturals):
        """Value-variable entries of the free ones, given the natural values of all nodes."""
        if self._write is None:
            return {}
        out = self._write(point, *(naturals[i] for i in self._free))
        return {
            value.name: value.type.filter(x, allow_downcast=True)
            for value, x in zip(self._values, out, strict=True)
        }


def log_density_function(model, rv):
    """``f(point, x) -> log p(x | parents)`` of a free scalar variable, x in value space."""
    value = model.rvs_to_values[rv]
    call = point_function([model.logp(vars=[rv], jacobian=True)], [value])
    return lambda point, x: float(call(point, value.type.filter(x, allow_downcast=True))[0])


def prior_log_density(model, rv):
    """``f(point, x) -> log p(x | parents)`` of a scalar variable at a vector of natural x."""
    x = pt.vector("x", dtype=rv.dtype)
    scalar = pt.scalar("x_scalar", dtype=rv.dtype)
    [graph] = in_values(model, [pm.logp(rv, scalar)])
    evaluate = point_function([vectorize_graph(graph, {scalar: x})], [x])
    return lambda point, values: evaluate(point, np.asarray(values, rv.dtype))
