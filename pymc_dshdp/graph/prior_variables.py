"""The variables of each prior, found by walking the model's graph from its hidden states.

A prior whose states are observed (``pm.observe``) learns from their path; one whose states
``pm.do`` has cut off is found by its rows, and nothing is learnt about it. Steps never hold the
Python object that declared a prior: models get cloned, and values fixed by ``pm.do`` or
``pm.observe``.
"""

from dataclasses import dataclass, field

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_dshdp.distributions import (
    HiddenPathRV,
    SelfPersistenceRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
from pymc_dshdp.graph.terms import densities
from pymc_dshdp.graph.walks import depends_on_random_variables, has_op, role_of, unwrap

__all__ = ["PriorVariables", "find_priors", "outside_dependents", "refuse_outside_dependents"]


@dataclass(eq=False)
class PriorVariables:
    """The variables of one transition prior, each a node of the model's graph.

    Attributes
    ----------
    states : list of HiddenStates variables
        Those that are free.
    observed : list of HiddenStates variables
        Those whose path is data.
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
    observed: list = field(default_factory=list)

    @property
    def label(self):
        """Name to call the prior by in messages: that of its first states, or of its rows."""
        return [*self.states, *self.observed, self.pi_bar][0].name

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
        states = {*self.states, *self.observed}
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


def _prior_of(model, name, pi_init, pi_bar, kappa):
    for rv in (pi_init, pi_bar):
        if rv not in model.free_RVs or not has_op(rv, TransitionRowsRV):
            raise ValueError(
                f"The transition rows {rv} of {name!r} must be free random variables declared by "
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
            f"The weights beta of {name!r} must be free while alpha is; undo the pm.do or "
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
    """All priors of a model, in the order of their states; those without any come last.

    Returns
    -------
    list of PriorVariables
    """
    priors = {}
    for z in dict.fromkeys(model.basic_RVs):
        if has_op(z, HiddenPathRV):
            pi_init, pi_bar, kappa = (unwrap(v) for v in z.owner.inputs[2:5])
            if pi_bar not in priors:
                priors[pi_bar] = _prior_of(model, z.name, pi_init, pi_bar, kappa)
            prior = priors[pi_bar]
            (prior.states if z in model.free_RVs else prior.observed).append(z)
    return [*priors.values(), *_without_states(model, priors)]


def _without_states(model, found):
    """Yield priors that no states depend on; a kappa that is not theirs alone does not matter."""
    parts = {rv.tag.dshdp: rv for rv in model.free_RVs if role_of(rv) is not None}
    for (name, role), rv in parts.items():
        if role == "pi_bar" and rv not in found and (name, "pi_init") in parts:
            none = pt.zeros(rv.type.shape[-1])
            kappa = parts.get((name, "sticky_kappa"), parts.get((name, "kappa"), none))
            yield _prior_of(model, rv.name, parts[name, "pi_init"], rv, kappa)


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
