"""The priors that the disentangled one generalises: sticky, plain and parametric."""

from typing import Literal

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_dshdp.distributions import StickyPersistence
from pymc_dshdp.model.transition_prior import TransitionPrior, tag
from pymc_dshdp.typing import Scalar, Tensor

__all__ = ["HDP", "FixedTransitions", "StickyHDP"]


class StickyHDP(TransitionPrior):
    r"""Sticky HDP-HMM prior (Fox et al. 2011): the disentangled one with rho tied to alpha.

    By theorem 1 of Zhou, Gao & Paninski (2020) rows :math:`\mathrm{Dir}(\alpha\beta +
    \kappa_0\delta_j)` are :math:`\kappa_j\delta_j + (1 - \kappa_j)\bar\pi_j` with
    :math:`\kappa_j \sim \mathrm{Beta}(\kappa_0, \alpha)` and :math:`\bar\pi_j \sim
    \mathrm{Dir}(\alpha\beta)`, so that rho1 = kappa0 and rho2 = alpha.

    Parameters
    ----------
    name, n_states, dims, gamma, weights
        As for ``DSHDP``.
    s : number or scalar random variable, optional
        alpha + kappa0. Default Gamma(1, 0.01) (shape, rate).
    phi : number or scalar random variable, optional
        kappa0 / (alpha + kappa0), in (0, 1). Default Uniform(0, 1).
    alpha, kappa0 : number, optional
        Instead of ``s`` and ``phi``, as numbers; random variables are for these.

    Attributes
    ----------
    gamma, alpha, s, phi, rho, kappa, beta, pi_bar, pi_init
        The tensors declared; ``name_alpha``, ``name_rho1`` and ``name_rho2`` are deterministic.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        gamma: Scalar | None = None,
        s: Scalar | None = None,
        phi: Scalar | None = None,
        alpha: Scalar | None = None,
        kappa0: Scalar | None = None,
        weights: Literal["weak-limit", "stick-breaking"] = "weak-limit",
    ) -> None:
        super().__init__(name, n_states, dims)
        if alpha is not None or kappa0 is not None:
            s, phi = self._from_concentrations(alpha, kappa0, s, phi)
        gamma, s = self._checked("gamma", gamma), self._checked("s", s)
        phi = self._checked("phi", phi, 1.0)
        self._check_distinct(gamma, s, phi)
        self._check_weights(weights)

        self._declare_coords()
        self._declare_gamma(gamma)
        self.s = self._declared("s", s, lambda n: pm.Gamma(n, 1.0, 0.01))
        self.phi = self._declared("phi", phi, lambda n: pm.Uniform(n, 0.0, 1.0), "sticky_phi")
        self.alpha = pm.Deterministic(self._name("alpha"), (1.0 - self.phi) * self.s)
        self.rho = (
            pm.Deterministic(self._name("rho1"), self.phi * self.s),
            pm.Deterministic(self._name("rho2"), (1.0 - self.phi) * self.s),
        )
        self.kappa = self.recorded_kappa = StickyPersistence(
            self._name("kappa"), self.phi, self.s, shape=self.n_states, dims=self.dims[0]
        )
        tag(self.kappa, self.name, "sticky_kappa")
        self._declare_weights(weights)
        self._declare_rows()

    def _from_concentrations(self, alpha, kappa0, s, phi):
        """(s, phi) of given alpha and kappa0."""
        if alpha is None or kappa0 is None or s is not None or phi is not None:
            raise ValueError(
                f"{self.name}: give alpha and kappa0, or s and phi; received alpha={alpha!r}, "
                f"kappa0={kappa0!r}, s={s!r}, phi={phi!r}"
            )
        for role, given in (("alpha", alpha), ("kappa0", kappa0)):
            if isinstance(given, Variable):
                raise TypeError(
                    f"{self.name}: {role} must be a number, received {given}; random variables are "
                    "for s = alpha + kappa0 and phi = kappa0 / s"
                )
            self._checked(role, given)
        return float(alpha) + float(kappa0), float(kappa0) / (float(alpha) + float(kappa0))


class HDP(TransitionPrior):
    r"""HDP-HMM prior (Teh et al. 2006): no self-persistence, :math:`\kappa = 0`.

    Parameters
    ----------
    name, n_states, dims, gamma, alpha, weights
        As for ``DSHDP``.

    Attributes
    ----------
    gamma, alpha, kappa, beta, pi_bar, pi_init
        The tensors declared; kappa is 0.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        gamma: Scalar | None = None,
        alpha: Scalar | None = None,
        weights: Literal["weak-limit", "stick-breaking"] = "weak-limit",
    ) -> None:
        super().__init__(name, n_states, dims)
        gamma, alpha = self._checked("gamma", gamma), self._checked("alpha", alpha)
        self._check_distinct(gamma, alpha)
        self._check_weights(weights)

        self._declare_coords()
        self._declare_gamma(gamma)
        self._declare_alpha(alpha)
        self.kappa = self._no_persistence()
        self._declare_weights(weights)
        self._declare_rows()


class FixedTransitions(TransitionPrior):
    r"""Parametric hidden Markov model: rows :math:`\bar\pi_j \sim \mathrm{Dir}(a_j)` of given a.

    Parameters
    ----------
    name, n_states, dims
        As for ``DSHDP``.
    concentration : number or array, optional
        a, scalar, of shape (L,) (one row for all) or (L, L). Default 1, flat.
    initial_concentration : number or array, optional
        Of pi_init, scalar or of shape (L,). Default 1.
    kappa : number, array or tensor, optional
        Self-persistence as for ``DSHDP``, :math:`P = \mathrm{diag}(\kappa) + (1 - \kappa)
        \bar\pi`. Default 0, so that P is pi_bar.

    Attributes
    ----------
    kappa, pi_bar, pi_init
        The tensors declared.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        concentration: ArrayLike = 1.0,
        initial_concentration: ArrayLike = 1.0,
        kappa: ArrayLike | Tensor | None = None,
    ) -> None:
        super().__init__(name, n_states, dims)
        L = self.n_states
        rows = self._concentrations("concentration", concentration, (L, L))
        first = self._concentrations("initial_concentration", initial_concentration, (L,))
        kappa = None if kappa is None else self._checked_kappa(kappa)

        self._declare_coords()
        if kappa is None:
            self.kappa = self._no_persistence()
        else:
            self._declare_kappa(kappa)
        self._declare_rows(1.0, rows, first)

    def _concentrations(self, argument, given, shape):
        where = f"{self.name}: {argument}"
        if isinstance(given, Variable):
            raise TypeError(f"{where} must be a number or an array, received {given}")
        values = np.asarray(given, dtype="float64")
        if values.shape not in {shape[i:] for i in range(len(shape) + 1)}:
            raise ValueError(
                f"{where} must be a scalar or an array that fits {shape}, received shape "
                f"{values.shape}"
            )
        if not np.all((values > 0) & np.isfinite(values)):
            raise ValueError(f"{where} must be positive and finite, received {given!r}")
        return np.broadcast_to(values, shape).copy()
