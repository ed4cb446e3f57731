"""What the priors with Dirichlet rows share: checked hyperparameters, weights, rows, kappa."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_dshdp.distributions import (
    ActiveStates,
    ActiveWeights,
    StickFractions,
    SymmetricWeights,
    TransitionRows,
    stick_breaking_weights,
)
from pymc_dshdp.graph.walks import core_ndim, depends_on_random_variables, support
from pymc_dshdp.transitions.declared import TransitionPrior, tag
from pymc_dshdp.transitions.finite_mixture import log_number_probabilities
from pymc_dshdp.transitions.logistic import COEFFICIENTS, LogisticPersistence

__all__ = ["RowsPrior"]

WEIGHTS = ("weak-limit", "stick-breaking", "finite-mixture")
CONCENTRATIONS = ("dynamic", "static")
ROLES = "gamma alpha s phi eta n_active active beta fractions pi_bar pi_init".split()


class RowsPrior(TransitionPrior):
    """A prior with Dirichlet rows; a subclass says which of its variables it has.

    Attributes
    ----------
    gamma, alpha : scalar tensors
    beta : tensor of shape (L,)
    phi, eta : scalar tensors
    rho : tuple of two scalar tensors
        (rho1, rho2).
    fractions : tensor of shape (L - 1,)
        Stick fractions v.
    n_active : scalar tensor
        K, the number of active states.
    active : tensor of int, shape (L,)
        1 where a state is active, else 0.

    Notes
    -----
    What a prior does not have is None.
    """

    found_as = "rows"
    constrained = False
    gamma: Any = None
    alpha: Any = None
    beta: Any = None
    phi: Any = None
    eta: Any = None
    rho: Any = None
    fractions: Any = None
    n_active: Any = None
    active: Any = None

    def _checked(self, role, given, upper=np.inf):
        """Check a scalar in (0, upper): None for the default, a number or a random variable."""
        if given is None:
            return None
        where = f"{self.name}: {role}"
        bounds = "positive and finite" if upper == np.inf else f"in (0, {upper:g})"
        if not isinstance(given, Variable):
            try:
                number = float(given)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{where} must be a number or a random variable, received {given!r}"
                ) from None
            if not (0.0 < number < upper):
                raise ValueError(f"{where} must be {bounds}, received {number:g}")
            return pt.constant(number, dtype="floatX")
        if given.type.ndim != 0:
            raise ValueError(f"{where} must be a scalar, received {given.type.ndim} dimensions")
        if given in self.model.free_RVs:
            if hasattr(given.tag, "dshdp"):
                raise ValueError(
                    f"{where}={given.name!r} already belongs to the prior "
                    f"{given.tag.dshdp[0]!r}; each prior needs its own variable"
                )
            if not given.dtype.startswith("float"):
                raise TypeError(
                    f"{where}={given.name!r} must be continuous, received dtype {given.dtype}"
                )
            low, high = support(self.model, given)
            if not (low >= 0.0 and high <= upper):
                raise ValueError(
                    f"{where}={given.name!r} must have its support inside (0, {upper:g}), received "
                    f"support ({low:.3g}, {high:.3g}); use for example pm.Gamma, pm.Uniform or "
                    "pm.Truncated with these bounds"
                )
        elif depends_on_random_variables([given]):
            raise ValueError(
                f"{where} must not be an expression of random variables, received {given}; declare "
                f"{role} itself as a random variable, {role}=pm.Gamma(...), say"
            )
        return given

    def _check_distinct(self, *checked):
        given = [v for v in checked if v in self.model.free_RVs]
        if len(set(given)) < len(given):
            raise ValueError(
                f"{self.name}: each hyperparameter needs a variable of its own, received "
                f"{[v.name for v in given]}"
            )

    def _declared(self, role, checked, default, tagged=None):
        """Declare the default of a hyperparameter that was not given; tag the variable."""
        variable = default(self.prefixed(role)) if checked is None else checked
        if variable in self.model.free_RVs:
            tag(variable, self.name, tagged or role)
        return variable

    def _check_weights(self, weights, n_active, concentration):
        """Check the arguments about the weights, and keep log p(K) and whether c is gamma."""
        if weights not in WEIGHTS:
            raise ValueError(f"{self.name}: weights must be one of {WEIGHTS}, received {weights!r}")
        if weights != "finite-mixture":
            for argument, given in (("n_active", n_active), ("concentration", concentration)):
                if given is not None:
                    raise ValueError(
                        f'{self.name}: {argument} belongs to weights="finite-mixture", received '
                        f"{argument}={given!r} with weights={weights!r}. Parameters of each row, "
                        "of which zeros make transitions impossible, are for FixedTransitions"
                    )
            return
        concentration = "dynamic" if concentration is None else concentration
        if not isinstance(concentration, str) or concentration not in CONCENTRATIONS:
            raise ValueError(
                f"{self.name}: concentration must be one of {CONCENTRATIONS}, received "
                f"{concentration!r}"
            )
        self._static = concentration == "static"
        self._log_p = log_number_probabilities(self.name, n_active, self.n_states)

    def _declare_gamma(self, gamma):
        self.gamma = self._declared("gamma", gamma, lambda n: pm.Gamma(n, 2.0, 1.0))

    def _declare_alpha(self, alpha):
        self.alpha = self._declared("alpha", alpha, lambda n: pm.Gamma(n, 1.0, 0.01))

    def _declare_weights(self, weights):
        dim, self.weights, name = self.dims[0], weights, self.prefixed("beta")
        if weights == "weak-limit":
            self.beta = SymmetricWeights(
                name, self.gamma, self.n_states, dims=dim, default_transform=None
            )
        elif weights == "finite-mixture":
            self.active = ActiveStates(self.prefixed("active"), self._log_p, dims=dim)
            tag(self.active, self.name, "active")
            self.n_active = pm.Deterministic(self.prefixed("n_active"), self.active.sum())
            self.beta = ActiveWeights(
                name, self.gamma, self.active, self._static, dims=dim, default_transform=None
            )
        else:
            stick = f"{dim}_stick"
            if stick not in self.model.coords:
                self.model.add_coord(stick, self.model.coords[dim][:-1])
            self.fractions = StickFractions(
                self.prefixed("v"), self.gamma, shape=self.n_states - 1, dims=stick
            )
            tag(self.fractions, self.name, "fractions")
            self.beta = pm.Deterministic(name, stick_breaking_weights(self.fractions), dims=dim)

    def _checked_kappa(self, kappa):
        where, L, own = f"{self.name}: kappa", self.n_states, (*self.by_group[1], self.n_states)
        shapes = f"({L},), or (T, {L}) to vary with time" if self.groups is None else f"{own}"
        if isinstance(kappa, LogisticPersistence):
            return kappa.checked_for(self)
        shape_error = f"{where} must be a scalar or have shape {shapes}; received "
        if not isinstance(kappa, Variable):
            kappa = np.asarray(kappa, dtype="float64")
            fits = kappa.shape in ((), own)
            if not fits and (self.groups or kappa.ndim not in (2, 3) or kappa.shape[-1] != L):
                raise ValueError(f"{shape_error}shape {kappa.shape}")
            if not np.all((kappa >= 0.0) & (kappa < 1.0)):
                raise ValueError(f"{where} must be in [0, 1), received {kappa}")
            return pt.constant(np.broadcast_to(kappa, kappa.shape or own).copy(), dtype="floatX")
        if kappa.type.ndim == 0:
            return pt.full(own, kappa)
        expected = own if self.groups is not None else (None,) * (kappa.type.ndim - 1) + (L,)
        found = kappa.type.shape
        if len(found) > 3 or len(found) != len(expected):
            raise ValueError(f"{shape_error}{len(found)} dimensions")
        if any(e is not None and n not in (None, e) for n, e in zip(found, expected, strict=True)):
            raise ValueError(f"{shape_error}shape {found}")
        if kappa in self.model.free_RVs and kappa.type.ndim == len(own):
            self._check_unit_support(where, kappa)
        return kappa

    def _check_unit_support(self, where, kappa):
        transform = self.model.rvs_to_transforms[kappa]
        elementwise = (
            transform is None
            or transform.log_jac_det(kappa, *kappa.owner.inputs).type.ndim == kappa.type.ndim
        )
        low, high = support(self.model, kappa) if elementwise else (np.nan, np.nan)
        if not (low >= 0.0 and high <= 1.0):
            raise ValueError(
                f"{where}={kappa.name!r} must have independent components with support in "
                f"(0, 1), received support ({low:.3g}, {high:.3g}) and transform {transform}; "
                "use for example pm.Beta"
            )

    def _declare_kappa(self, kappa):
        """Take a kappa; ``GridRhoStep`` draws independent free components, and coefficients."""
        if isinstance(kappa, LogisticPersistence):
            kappa, coefficients = kappa.declared_in(self)
            self.recorded[COEFFICIENTS] = tag(coefficients, self.name, COEFFICIENTS)
        self.kappa = self.recorded["kappa"] = kappa
        along, extents = self.by_group
        over_time = list(range(kappa.type.ndim - 1 - len(extents)))
        name = self.prefixed("kappa_mean" if over_time else "kappa")
        if self.model.named_vars.get(name) is not kappa:
            mean = kappa.mean(over_time) if over_time else kappa
            self.recorded["kappa"] = pm.Deterministic(name, mean, dims=(*along, self.dims[0]))
        if kappa in self.model.free_RVs and core_ndim(kappa) == 0 and not over_time:
            tag(kappa, self.name, "kappa")

    def _declare_rows(self, alpha=None, beta=None, initial=None):
        if beta is None:
            alpha, beta = self.alpha, self.beta
        along, extents = self.by_group
        self.pi_bar = TransitionRows(
            self.prefixed("pi_bar"),
            alpha,
            beta,
            shape=(*extents, self.n_states, self.n_states),
            dims=(*along, *self.dims),
            default_transform=None,
        )
        tag(self.pi_bar, self.name, "pi_bar")
        self.pi_init = TransitionRows(
            self.prefixed("pi_init"),
            alpha,
            beta if initial is None else initial,
            shape=self.n_states,
            dims=self.dims[0],
            default_transform=None,
        )
        tag(self.pi_init, self.name, "pi_init")
        self.recorded |= {role: getattr(self, role, None) for role in ROLES}
        self.recorded["rho1"], self.recorded["rho2"] = self.rho or (None, None)
