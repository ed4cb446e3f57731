"""The transition models of a ``pm.Model``, found by walking its graph from the hidden states.

A model whose states are observed (``pm.observe``) learns from their path; one whose states
``pm.do`` has cut off is found by its rows, and nothing is learnt about it. Steps never hold the
Python object that declared a prior: models get cloned, and values fixed by ``pm.do`` or
``pm.observe``.
"""

import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dshdp.distributions import HiddenPathRV, PossiblePathRV
from pymc_dshdp.distributions.path import SAME_MATRIX, path_parameters
from pymc_dshdp.graph.terms import densities
from pymc_dshdp.graph.walks import has_op, role_of, unwrap
from pymc_dshdp.transitions.update import TransitionUpdate

__all__ = [
    "TransitionModel",
    "find_transitions",
    "outside_dependents",
    "refuse_outside_dependents",
    "register",
]

MATRICES = "matrices"
ROWS = "rows"
_kinds: dict = {}


class TransitionModel:
    """A transition model of hidden states, as it stands in the graph of a model.

    P_t = diag(kappa_t) + (1 - kappa_t) pi_bar_g(t) from t - 1 to t. Here everything in it is any
    graph: no step of this package draws what is behind it. A kind whose variables the samplers of
    the states draw is a subclass that says which these are, and how they are drawn.

    Parameters
    ----------
    model : pymc.Model
    name : str
        To call it by in messages.
    pi_init, pi_bar, kappa, index : nodes
        Of shapes (L,); (L, L) or (G, L, L); (L,), (T, L) or (N, T, L); and (0,), (T,) or (N, T).

    Attributes
    ----------
    states : list of HiddenStates variables
        Those that are free.
    observed : list of HiddenStates variables
        Those whose path is data.
    n_states : int
        L.
    constrained : bool
        Whether transitions may be impossible, so that not every path is a start.
    collapses : bool
        Whether all rows are Dirichlet, so that they integrate out given the path.
    grouped : bool
        Whether the G matrices are those of groups, of which each has rows drawn for itself.
    kappa_by_group : bool
        Whether kappa, of shape (G, L), has a row for each of the matrices, and not for each time.
    indices : list of node
        g(t) of each of ``states`` and then ``observed``.
    """

    collapses = grouped = kappa_by_group = False
    gamma = alpha = beta = active = fractions = phi = eta = sticky = coefficients = None

    def __init__(self, model, name, pi_init, pi_bar, kappa, index):
        self.pi_init, self.pi_bar, self.kappa, self.index = pi_init, pi_bar, kappa, index
        self.n_states = pi_init.type.shape[0]
        self.constrained = False
        self.states: list = []
        self.observed: list = []
        self._indices: dict = {}

    @property
    def indices(self):
        """See the class; that of no states where there are none."""
        members = [*self.states, *self.observed]
        return [self._indices[z] for z in members] if members else [self.index]

    def add(self, z, index, free):
        """Add states, of which ``index`` says which matrix leads to each time."""
        (self.states if free else self.observed).append(z)
        self._indices[z] = index

    @property
    def n_groups(self):
        """G; 1 where there are no groups."""
        return self.pi_bar.type.shape[0] if self.grouped else 1

    @property
    def label(self):
        """Name to call it by in messages: that of its first states, or of its rows."""
        return [*self.states, *self.observed, self.pi_bar][0].name

    @property
    def varies(self):
        """Whether the self-persistence varies with time."""
        return self.kappa.type.ndim > 1 and not self.kappa_by_group

    def transition_variables(self, model):
        """Free variables that the samplers of the states draw with the path."""
        return []

    def persistence_variables(self, model):
        """Free variables that ``GridRhoStep`` draws."""
        return []

    def children(self):
        """Map each of these to the variables that may depend on it."""
        return {}

    def update(self, model, step):
        """Return what draws the path, and the variables that are drawn with it.

        Parameters
        ----------
        model : pymc.Model
        step : str
            Name of the step, for messages.
        """
        return TransitionUpdate(model, self, step)


def register(kind):
    """Have hidden states of priors with ``found_as = kind`` found by the decorated callable.

    It is called with the arguments of ``TransitionModel``, and returns one.
    """

    def add(find):
        _kinds[kind] = find
        return find

    return add


register(MATRICES)(TransitionModel)


def find_transitions(model):
    """All transition models, in the order of their states; those without any come last.

    Returns
    -------
    list of TransitionModel
    """
    found: dict = {}
    for z in dict.fromkeys(model.basic_RVs):
        if has_op(z, HiddenPathRV):
            pi_init, pi_bar, kappa, index = (unwrap(v) for v in path_parameters(z)[:4])
            by_group = _taken_by(kappa, index)
            if by_group is not None:
                kappa = by_group
            if pi_bar not in found:
                if role_of(z) is None:
                    raise ValueError(
                        f"{z.name!r} has lost what says which prior it has, as in a model that "
                        "freeze_dims_and_data returns; use the model as it was declared"
                    )
                kind = _kinds[z.tag.dshdp[2]]
                found[pi_bar] = kind(model, z.name, pi_init, pi_bar, kappa, index)
            transitions = found[pi_bar]
            transitions.constrained = has_op(z, PossiblePathRV)
            transitions.kappa_by_group = by_group is not None
            transitions.add(z, index, z in model.free_RVs)
    return [*found.values(), *_without_states(model, found)]


def _taken_by(kappa, index):
    """Rows (G, L) from which an index of the matrices takes kappa; None where it is not so."""
    if not has_op(kappa, AdvancedSubtensor):
        return None
    rows, *where = kappa.owner.inputs
    return unwrap(rows) if [unwrap(v) for v in where] == [index] else None


def _without_states(model, found):
    """Yield rows that no states depend on; a kappa that is not theirs alone does not matter."""
    parts = {rv.tag.dshdp[:2]: rv for rv in model.free_RVs if role_of(rv) is not None}
    for (name, role), rv in parts.items():
        if role == "pi_bar" and rv not in found and (name, "pi_init") in parts:
            none = pt.zeros(rv.type.shape[-1])
            kappa = parts.get((name, "sticky_kappa"), parts.get((name, "kappa"), none))
            index = pt.constant(SAME_MATRIX)
            alone = _kinds[ROWS](model, rv.name, parts[name, "pi_init"], rv, kappa, index)
            alone.kappa_by_group = kappa.type.ndim > 1
            yield alone


def outside_dependents(model, transitions, owned):
    """Pairs (dependent, variable): what outside a transition model depends on which owned one."""
    children = transitions.children()
    for dependent in densities(model):
        blockers = [v for v in model.basic_RVs if v is not dependent]
        seen = set(ancestors([dependent], blockers=blockers))
        for variable in owned:
            if variable is dependent or variable not in seen:
                continue
            if dependent not in children.get(variable, ()):
                yield dependent, variable


def refuse_outside_dependents(model, transitions, owned, step):
    """Raise if a variable or Potential outside the prior depends on an owned variable.

    The conditionals hold only if nothing but the prior's own variables involves them.
    """
    for dependent, variable in outside_dependents(model, transitions, owned):
        way_out = "give the prior its own variable"
        if variable in (transitions.pi_bar, transitions.pi_init):
            way_out = (
                "write the matrix yourself (Transitions); impossible transitions can also be a "
                "concentration of 0 (FixedTransitions)"
            )
        raise ValueError(
            f"{step}: {dependent.name!r} depends on {variable.name!r}, which this step "
            f"draws from a conditional that does not contain {dependent.name!r}. Remove "
            f"that dependence, or {way_out}."
        )
