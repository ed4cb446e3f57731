"""The disentangled sticky HDP-HMM prior, and the plain one."""

from typing import Literal

import pymc as pm
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_dshdp.distributions import (
    SelfPersistence,
)
from pymc_dshdp.transitions.declared_rows import RowsPrior
from pymc_dshdp.transitions.logistic import LogisticPersistence
from pymc_dshdp.typing import Scalar, Tensor

__all__ = ["DSHDP", "HDP"]


class DSHDP(RowsPrior):
    r"""Disentangled sticky hierarchical Dirichlet process prior (Zhou, Gao & Paninski 2020).

    Self-persistence :math:`\kappa_j`, the similarity of the switching rows :math:`\bar\pi_j`
    (concentration :math:`\alpha`) and the number of states (concentration :math:`\gamma`) have
    hyperparameters of their own; the sticky HDP-HMM ties :math:`\rho_2 = \alpha`.

    .. math::

       \beta &\sim \mathrm{Dir}(\gamma/L, \dots) \text{ or stick-breaking}(\gamma)
       \text{ or a finite mixture}, \qquad
       \kappa_j \sim \mathrm{Beta}(\rho_1, \rho_2), \\
       \bar\pi_j, \pi_\mathrm{init} &\sim \mathrm{Dir}(\alpha\beta), \qquad
       P = \mathrm{diag}(\kappa) + (1 - \kappa)\,\bar\pi .

    Parameters
    ----------
    name : str
        Prefix of the variables: ``name_gamma``, ``name_alpha``, ``name_phi``, ``name_eta``,
        ``name_rho1``, ``name_rho2``, ``name_kappa``, ``name_beta``, ``name_pi_bar``,
        ``name_pi_init`` (and ``name_v`` for stick-breaking weights, ``name_active`` and
        ``name_n_active`` for a finite mixture).
    n_states : int, optional
        Truncation L, at least 2. Its dimensions are ``name_state`` and ``name_state_to``.
    dims : str, optional
        A coordinate of the model, instead of ``n_states``.
    groups : str or int, optional
        A coordinate of the model (subjects, conditions), or a number of groups, whose dimension is
        then ``name_group``. Each group has rows and kappa of its own; the weights, pi_init and all
        hyperparameters are one for all, and so are the states. ``HiddenStates`` is told by
        ``group`` which sequence, or time, is whose.
    gamma : number or scalar random variable, optional
        Concentration of the weights. Default Gamma(2, 1).
    alpha : number or scalar random variable, optional
        Concentration of the rows. Default Gamma(1, 0.01) (shape, rate).
    phi : number or scalar random variable, optional
        rho1 / (rho1 + rho2), the prior mean of kappa, in (0, 1). Default Uniform(0, 1).
    eta : number or scalar random variable, optional
        (rho1 + rho2)^(-1/3), in (0, 2). Default Uniform(0, 2).
    rho : tuple of two, optional
        (rho1, rho2) as numbers or any positive tensors, instead of ``phi`` and ``eta``.
        Random variables in it keep the step that PyMC gives them.
    kappa : number, array, tensor or LogisticPersistence, optional
        Self-persistence probabilities, scalar or of shape (L,), instead of all of these. A
        random variable of shape (L,) with independent components is sampled by ``GridRhoStep``;
        any other tensor through the log-density of the states. With shape (T, L), or
        (n_sequences, T, L) for a batch, it varies with time: row t is in force from t - 1 to t,
        as in ``kappa=pm.math.invlogit(a + b * x[:, None])`` with a, b of shape (L,). With
        ``LogisticPersistence(X)`` it follows covariates without NUTS. What is given is recorded as
        the deterministic ``name_kappa``; of one that varies with time, the mean over time as
        ``name_kappa_mean``. With ``groups`` its shape is (G, L), and it does not
        vary with time.
    weights : {"weak-limit", "stick-breaking", "finite-mixture"}
        Symmetric finite Dirichlet; stick-breaking truncated at L, whose expected tail mass is
        (gamma / (1 + gamma))^(L - 1); or a mixture of finite mixtures: a number K of active
        states, K of the L of them, all sets alike, Dirichlet weights on these and weight 0 on
        the others, which are never visited.
    n_active : distribution or array of shape (L,), optional
        p(K) for ``weights="finite-mixture"``: a discrete distribution of a scalar made by
        ``.dist()``, as in ``pm.Poisson.dist(3)``, which is truncated to 1..L, or the L
        probabilities themselves; K = L must have some. Default 1 + BetaNegativeBinomial(1, 4, 3),
        of mean 2.
    concentration : {"dynamic", "static"}, optional
        Dirichlet parameter of each active weight for ``weights="finite-mixture"``: gamma / K
        (dynamic, the default), or gamma.

    Attributes
    ----------
    gamma, alpha, phi, eta, rho, kappa, beta, active, n_active, pi_bar, pi_init
        The tensors declared; None for what there is not.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.

    Examples
    --------
    >>> with pm.Model(coords={"state": range(10)}):
    ...     prior = dshdp.DSHDP("hmm", dims="state", alpha=pm.HalfNormal("a", 100.0), phi=0.9)
    ...     z = dshdp.HiddenStates("z", prior, length=100)
    >>> prior.pi_bar.eval().shape
    (10, 10)
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        groups: str | int | None = None,
        gamma: Scalar | None = None,
        alpha: Scalar | None = None,
        phi: Scalar | None = None,
        eta: Scalar | None = None,
        rho: tuple[Scalar, Scalar] | None = None,
        kappa: ArrayLike | Tensor | LogisticPersistence | None = None,
        weights: Literal["weak-limit", "stick-breaking", "finite-mixture"] = "weak-limit",
        n_active: ArrayLike | Tensor | None = None,
        concentration: Literal["dynamic", "static"] | None = None,
    ) -> None:
        super().__init__(name, n_states, dims, groups)
        given = {"phi": phi, "eta": eta, "rho": rho, "kappa": kappa}
        given = {key: value for key, value in given.items() if value is not None}
        if len(given) > 1 and ("kappa" in given or "rho" in given):
            raise ValueError(
                f"{self.name}: kappa replaces rho, and rho replaces phi and eta; received "
                f"{' and '.join(given)} together"
            )
        gamma, alpha = self._checked("gamma", gamma), self._checked("alpha", alpha)
        phi, eta = self._checked("phi", phi, 1.0), self._checked("eta", eta, 2.0)
        self._check_distinct(gamma, alpha, phi, eta)
        rho = None if rho is None else self._checked_rho(rho)
        kappa = None if kappa is None else self._checked_kappa(kappa)
        self._check_weights(weights, n_active, concentration)

        self.declare_coords()
        self._declare_gamma(gamma)
        self._declare_alpha(alpha)
        if kappa is None:
            self._declare_rho(phi, eta, rho)
            along, extents = self.by_group
            kappa = SelfPersistence(
                self.prefixed("kappa"),
                self.phi,
                self.eta,
                shape=(*extents, self.n_states),
                dims=(*along, self.dims[0]),
            )
        self._declare_kappa(kappa)
        self._declare_weights(weights)
        self._declare_rows()

    def _declare_rho(self, phi, eta, rho):
        if rho is not None:
            rho1, rho2 = self.rho = rho
            total = rho1 + rho2
            self.phi, self.eta = rho1 / total, total ** (-1.0 / 3.0)
            return
        self.phi = self._declared("phi", phi, lambda n: pm.Uniform(n, 0.0, 1.0))
        self.eta = self._declared("eta", eta, lambda n: pm.Uniform(n, 0.0, 2.0))
        concentration = self.eta**-3.0
        self.rho = (
            pm.Deterministic(self.prefixed("rho1"), self.phi * concentration),
            pm.Deterministic(self.prefixed("rho2"), (1.0 - self.phi) * concentration),
        )

    def _checked_rho(self, rho):
        if not isinstance(rho, (tuple, list)) or len(rho) != 2:
            raise ValueError(f"{self.name}: rho must be a pair (rho1, rho2), received {rho!r}")
        out = []
        for label, value in zip(("rho1", "rho2"), rho, strict=True):
            if not isinstance(value, Variable):
                value = self._checked(label, value)
            elif value.type.ndim != 0:
                raise ValueError(f"{self.name}: {label} must be a scalar, received {value}")
            out.append(value)
        return tuple(out)


class HDP(RowsPrior):
    r"""HDP-HMM prior (Teh et al. 2006): no self-persistence, :math:`\kappa = 0`.

    Parameters
    ----------
    name, n_states, dims, groups, gamma, alpha, weights, n_active, concentration
        As for ``DSHDP``.

    Attributes
    ----------
    gamma, alpha, kappa, beta, pi_bar, pi_init
        The tensors declared; kappa is None, for 0.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.

    Examples
    --------
    >>> with pm.Model():
    ...     prior = dshdp.HDP("hmm", n_states=10, weights="stick-breaking")
    ...     z = dshdp.HiddenStates("z", prior, length=100)
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        groups: str | int | None = None,
        gamma: Scalar | None = None,
        alpha: Scalar | None = None,
        weights: Literal["weak-limit", "stick-breaking", "finite-mixture"] = "weak-limit",
        n_active: ArrayLike | Tensor | None = None,
        concentration: Literal["dynamic", "static"] | None = None,
    ) -> None:
        super().__init__(name, n_states, dims, groups)
        gamma, alpha = self._checked("gamma", gamma), self._checked("alpha", alpha)
        self._check_distinct(gamma, alpha)
        self._check_weights(weights, n_active, concentration)

        self.declare_coords()
        self._declare_gamma(gamma)
        self._declare_alpha(alpha)
        self._declare_weights(weights)
        self._declare_rows()
