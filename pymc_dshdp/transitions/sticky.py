"""The sticky HDP-HMM: self-persistence tied to the concentration of the rows."""

from typing import Literal

import pymc as pm
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_dshdp.distributions import StickyPersistence
from pymc_dshdp.graph.readers import Reader
from pymc_dshdp.graph.walks import unwrap
from pymc_dshdp.kernels.diagonals import divide_diagonals
from pymc_dshdp.kernels.persistence import draw_self_persistence, log_sticky_marginal
from pymc_dshdp.kernels.transitions import split_counts
from pymc_dshdp.transitions.declared import tag
from pymc_dshdp.transitions.declared_rows import RowsPrior
from pymc_dshdp.transitions.weighted import Hyperprior, WeightedRows, WeightedUpdate
from pymc_dshdp.typing import Scalar, Tensor

__all__ = ["StickyHDP", "StickyRows"]


class StickyHDP(RowsPrior):
    r"""Sticky HDP-HMM prior (Fox et al. 2011): the disentangled one with rho tied to alpha.

    By theorem 1 of Zhou, Gao & Paninski (2020) rows :math:`\mathrm{Dir}(\alpha\beta +
    \kappa_0\delta_j)` are :math:`\kappa_j\delta_j + (1 - \kappa_j)\bar\pi_j` with
    :math:`\kappa_j \sim \mathrm{Beta}(\kappa_0, \alpha)` and :math:`\bar\pi_j \sim
    \mathrm{Dir}(\alpha\beta)`, so that rho1 = kappa0 and rho2 = alpha.

    Parameters
    ----------
    name, n_states, dims, groups, gamma, weights, n_active, concentration
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

    Examples
    --------
    >>> with pm.Model(coords={"state": range(10)}):
    ...     prior = dshdp.StickyHDP("hmm", dims="state", alpha=2.0, kappa0=20.0)
    ...     z = dshdp.HiddenStates("z", prior, lengths=[60, 40])
    """

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        groups: str | int | None = None,
        gamma: Scalar | None = None,
        s: Scalar | None = None,
        phi: Scalar | None = None,
        alpha: Scalar | None = None,
        kappa0: Scalar | None = None,
        weights: Literal["weak-limit", "stick-breaking", "finite-mixture"] = "weak-limit",
        n_active: ArrayLike | Tensor | None = None,
        concentration: Literal["dynamic", "static"] | None = None,
    ) -> None:
        super().__init__(name, n_states, dims, groups)
        if alpha is not None or kappa0 is not None:
            s, phi = self._from_concentrations(alpha, kappa0, s, phi)
        gamma, s = self._checked("gamma", gamma), self._checked("s", s)
        phi = self._checked("phi", phi, 1.0)
        self._check_distinct(gamma, s, phi)
        self._check_weights(weights, n_active, concentration)

        self.declare_coords()
        self._declare_gamma(gamma)
        self.s = self._declared("s", s, lambda n: pm.Gamma(n, 1.0, 0.01))
        self.phi = self._declared("phi", phi, lambda n: pm.Uniform(n, 0.0, 1.0), "sticky_phi")
        self.alpha = pm.Deterministic(self.prefixed("alpha"), (1.0 - self.phi) * self.s)
        self.rho = (
            pm.Deterministic(self.prefixed("rho1"), self.phi * self.s),
            pm.Deterministic(self.prefixed("rho2"), (1.0 - self.phi) * self.s),
        )
        along, extents = self.by_group
        self.kappa = self.recorded["kappa"] = StickyPersistence(
            self.prefixed("kappa"),
            self.phi,
            self.s,
            shape=(*extents, self.n_states),
            dims=(*along, self.dims[0]),
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


class StickyRows(WeightedRows):
    """Weighted rows with kappa ~ Beta(phi s, (1 - phi) s), alpha = (1 - phi) s."""

    def __init__(self, model, name, pi_init, pi_bar, kappa, index):
        super().__init__(model, name, pi_init, pi_bar, kappa, index)
        self.sticky = tuple(unwrap(v) for v in kappa.owner.inputs[2:])

    def transition_variables(self, model):
        """Free variables that the samplers of the states draw with the path."""
        found = [v for v in (*self.sticky, self.kappa) if v in model.free_RVs]
        return super().transition_variables(model) + found

    def children(self):
        """Map each variable of the prior to those that may depend on it."""
        tied = {self.kappa, self.pi_bar, self.pi_init}
        return {v: tied for v in self.sticky} | super().children()

    def update(self, model, step):
        """Return what draws the path, the transition block, (phi, s) and kappa."""
        return StickyUpdate(model, self, step)


class StickyUpdate(WeightedUpdate):
    """Draw phi, s and kappa of the sticky prior together with its transition block.

    (phi, s) | W, n, beta by slices with kappa and the rows integrated out, one after the other
    in value space; then the block with alpha = (1 - phi) s; kappa | W, n, phi, s last.
    """

    def __init__(self, model, transitions, step):
        super().__init__(model, transitions, step)
        self._tie = Reader(model, transitions.sticky)
        self._tied = [Hyperprior(model, node) for node in transitions.sticky]
        self._kappa = model.rvs_to_values[transitions.kappa]

    def split(self, point, counts, paths, rng):
        """Draw (n, W) given the paths, after pairs (kappa_j, pi_bar_jj) that the block replaces."""
        phi, s = self._tie.read(point)
        logit, pi_bar = divide_diagonals(
            rng,
            *self.persistence_and_rows(point),
            self.row_concentrations(point)[1:],
            phi * s,
            (1.0 - phi) * s,
        )
        return split_counts(rng, counts, logit, pi_bar)

    def __call__(self, point, switches, persistences, rng):
        """Draw the block given n and W; returns new values by the name of their variables."""
        _, beta = self.weights(point)
        pair = self._tie.read(point)
        for i, hyper in enumerate(self._tied):
            if hyper.free:
                other = pair[1 - i]

                def log_conditional(x, i=i, other=other):
                    phi, s = (x, other) if i == 0 else (other, x)
                    return log_sticky_marginal(phi, s, persistences, switches, beta)

                pair[i] = hyper.slice(point, log_conditional, rng)
        new = self._tie.write(point, pair)
        new |= super().__call__({**point, **new}, switches, persistences, rng)
        phi, s = pair
        logit = draw_self_persistence(
            rng, persistences, switches[1:].sum(axis=1), phi * s, (1.0 - phi) * s
        )
        shape = point[self._kappa.name].shape
        new[self._kappa.name] = logit.reshape(shape).astype(self._kappa.dtype, copy=False)
        return new
