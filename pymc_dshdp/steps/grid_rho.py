"""Self-persistence: (phi, eta) from a grid, made exact, and kappa."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.model import modelcontext
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.tensor.random.basic import UniformRV

from pymc_dshdp._compat import ChainStep
from pymc_dshdp.distributions import SelfPersistenceRV
from pymc_dshdp.graph.readers import Reader, logit_node, point_function, prior_log_density
from pymc_dshdp.graph.terms import log_densities
from pymc_dshdp.graph.walks import has_op, role_of, support
from pymc_dshdp.kernels import persistence as kernels
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.steps._common import PathReader, model_of, rehearse, select_priors
from pymc_dshdp.steps.logistic_update import LogisticUpdate
from pymc_dshdp.steps.marginal_rho import MarginalRho
from pymc_dshdp.transitions.found import find_transitions, refuse_outside_dependents
from pymc_dshdp.transitions.logistic import COEFFICIENTS
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["GridRhoStep"]

REFINED_GRID = (20, 20)
MIDPOINT_GRID = (100, 100)
BOX = {"phi": 1.0, "eta": 2.0}


class _Axis:
    """One side of the grid: cells of a free variable, or the one value of a fixed one."""

    def __init__(self, model, node, role, cells):
        self.free = node in model.free_RVs
        self.upper = BOX[role]
        low, high = support(model, node) if self.free else (0.0, 0.0)
        self.ends, self.width = (low, high), (high - low) / cells
        self.low = low + self.width * np.arange(cells if self.free else 1)
        self.flat = not self.free or self._is_flat(node)
        self._log_density = None if self.flat else prior_log_density(model, node)

    def _is_flat(self, node):
        if not has_op(node, UniformRV):
            return False
        bounds = [getattr(v, "data", None) for v in node.owner.inputs[2:]]
        return None not in bounds and [float(b) for b in bounds] == [0.0, self.upper]

    def edges(self, value):
        """Lower cell edges."""
        return self.low if self.free else np.array([value])

    def log_prior(self, point, x):
        """Log prior density at a vector of values."""
        return np.zeros(len(x)) if self.flat else self._log_density(point, x)[0]


class _RhoUpdate:
    """(phi, eta), where free, and kappa of one prior."""

    def __init__(self, model, prior, grid, refine):
        self._refine = refine
        self._hyper = Reader(model, [prior.phi, prior.eta])
        self._axes = [
            _Axis(model, node, role, cells)
            for node, role, cells in zip((prior.phi, prior.eta), BOX, grid, strict=True)
        ]
        self._kappa = model.rvs_to_values[prior.kappa]
        self._pi_bar = model.rvs_to_values[prior.pi_bar]
        self._marginal = MarginalRho(model, prior, *self._axes)
        constant = all(axis.free and axis.flat for axis in self._axes)
        self._grid = self._make_grid({}, 0.0, 0.0) if constant else None

    def _make_grid(self, point, phi, eta):
        phi_axis, eta_axis = self._axes
        phi_low, eta_low = phi_axis.edges(phi), eta_axis.edges(eta)
        log_prior = np.add.outer(
            phi_axis.log_prior(point, phi_low + phi_axis.width / 2),
            eta_axis.log_prior(point, eta_low + eta_axis.width / 2),
        )
        return kernels.PersistenceGrid(phi_low, eta_low, phi_axis.width, eta_axis.width, log_prior)

    def __call__(self, point, paths, rng):
        if self._refine and self._marginal.available:
            point = self._marginal(point, paths, rng)
        counts = paths.counts(point)
        phi, eta = self._hyper.read(point)
        logit, pi_bar = _rows(point, self._kappa, self._pi_bar)
        phi_axis, eta_axis = self._axes
        if not (phi_axis.free or eta_axis.free):
            logit = kernels.redraw_self_persistence(rng, counts, logit, pi_bar, phi, eta)
            return {**point, **_value(point, self._kappa, logit)}, True
        grid = self._make_grid(point, phi, eta) if self._grid is None else self._grid
        if not self._refine and not np.isfinite(grid.log_prior).any():
            raise SamplingError(
                "No midpoint of the grid lies in the support of the prior of phi and eta; use "
                "refine=True, or a finer grid"
            )
        proposal = kernels.propose_persistence(
            rng, counts, logit, pi_bar, phi, eta, grid, self._refine
        )
        ratio = 0.0
        if self._refine:
            for axis, new, old in ((phi_axis, proposal.phi, phi), (eta_axis, proposal.eta, eta)):
                at_new, at_old = axis.log_prior(point, np.array([new, old]))
                ratio += at_new - at_old
        draw = kernels.accept_persistence(rng, proposal, ratio, phi, eta)
        new = self._hyper.write(point, [draw.phi, draw.eta])
        return {**point, **new, **_value(point, self._kappa, draw.kappa_logit)}, draw.accepted


class _SliceUpdate:
    """kappa with independent components of any prior: slice on prior x kappa^W (1 - kappa)^n."""

    def __init__(self, model, prior):
        self._kappa = value = model.rvs_to_values[prior.kappa]
        self._pi_bar = model.rvs_to_values[prior.pi_bar]
        logit = logit_node(model, prior.kappa)
        self._logit = point_function([logit])
        self._evaluate = point_function([*log_densities(model, [prior.kappa]), logit], [value])

    def __call__(self, point, paths, rng):
        counts = paths.counts(point)
        [logit] = self._logit(point)
        start, pi_bar = _rows(point, self._kappa, self._pi_bar)
        persistences = kernels.self_persistence_counts(rng, counts, logit.ravel(), pi_bar)
        departures = counts[1:].sum(axis=1) - persistences

        def log_density(x):
            prior, logit = self._evaluate(point, _value(point, self._kappa, x)[self._kappa.name])
            given = kernels.log_persistence_likelihood(logit.ravel(), persistences, departures)
            return prior.ravel() + given

        return _value(point, self._kappa, slice_sample(log_density, start, rng)), True


def _rows(point, kappa, pi_bar):
    """Values of kappa, and pi_bar, by the rows of all groups, (R,) and (R, L)."""
    rows = np.asarray(point[pi_bar.name], dtype="float64")
    values = np.asarray(point[kappa.name], dtype="float64")
    return values.ravel(), rows.reshape(-1, rows.shape[-1])


def _value(point, value, rows):
    """Value of kappa by its name, from that of each row."""
    values = rows.reshape(point[value.name].shape)
    return {value.name: values.astype(value.dtype, copy=False)}


@dataclass_state
class GridRhoStepState(StepMethodState):
    """Sampling state of ``GridRhoStep``."""

    grid: tuple = field(metadata={"frozen": True})
    refine: bool = field(metadata={"frozen": True})


class GridRhoStep(ChainStep):
    r"""Draw the self-persistence hyperparameters and probabilities given the states.

    In this order, which is what leaves the posterior invariant: first :math:`\phi`,
    :math:`\eta` and :math:`\alpha` given z and beta alone, kappa, w and the rows integrated out,
    by slices, and then w, kappa and the rows given these (see ``steps.marginal_rho``), since
    :math:`\kappa_j` and :math:`\bar\pi_{jj}` explain the same stays; the self-persistence counts
    :math:`W_j \mid z, \kappa, \bar\pi`; then :math:`(\phi, \eta) \mid W, n` with
    :math:`\kappa` integrated out,

    .. math::

       p(\phi, \eta \mid W, n) \propto p(\phi, \eta) \prod_j
       \frac{B(\rho_1 + W_j, \rho_2 + n_{j\cdot})}{B(\rho_1, \rho_2)}, \qquad
       \rho_1 = \phi\eta^{-3}, \; \rho_2 = (1 - \phi)\eta^{-3};

    then :math:`\kappa_j \sim \mathrm{Beta}(\rho_1 + W_j, \rho_2 + n_{j\cdot})`. The paper's
    scripts draw kappa first and keep it.

    A kappa given to the prior as a random variable with independent components is slice-sampled
    on its own density times :math:`\kappa^{W}(1 - \kappa)^{n}` instead. Of a kappa by
    ``LogisticPersistence`` the coefficients are drawn, given all :math:`w_t`.

    Parameters
    ----------
    vars : list
        Hidden states, or self-persistence variables, of one or more priors; the step draws all
        free self-persistence variables of those priors.
    grid : tuple of two int, optional
        Cells along phi in [0, 1] and eta in [0, 2], or the narrower support of a user's prior.
        Default (20, 20) with ``refine``, the best
        in effective samples per second, and the paper's (100, 100) without.
    refine : bool
        True (default): propose from the grid, uniform inside the cell, and accept with the exact
        ratio; exact for the continuous prior at any grid. False: sample the model whose prior
        on (phi, eta) is supported by the cell midpoints, as in the paper.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError
        If a prior has nothing to sample (kappa fixed, or sampled by other means), or a variable
        outside the prior depends on phi, eta or kappa.

    Notes
    -----
    Of what the sampler of the states draws it draws alpha and the rows too, with ``refine``.

    Sampler statistic: ``rho_accepted``, whether the refined proposal was accepted.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.GridRhoStep([model["z"]], grid=(20, 20))])
    """

    name = "grid_rho"
    stats_dtypes_shapes: dict = {"rho_accepted": (bool, [])}
    _state_class = GridRhoStepState

    def __init__(
        self,
        vars: Sequence[Tensor],
        *,
        grid: tuple[int, int] | None = None,
        refine: bool = True,
        model: pm.Model | None = None,
        rng: RandomSource = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        if not isinstance(refine, (bool, np.bool_)):
            raise TypeError(f"refine must be True or False, received {refine!r}")
        self.refine = bool(refine)
        self.grid = _checked_grid(grid, REFINED_GRID if refine else MIDPOINT_GRID)
        vars = get_value_vars_from_user_vars(vars, model)
        start = model.initial_point() if initial_point is None else initial_point
        self._updates = []
        self.vars = []
        for prior in select_priors(model, find_transitions(model), vars, type(self).__name__):
            owned = prior.persistence_variables(model)
            if not owned:
                raise ValueError(
                    f"GridRhoStep: the prior of {prior.label!r} has no free "
                    "self-persistence variable, so there is nothing to sample; leave the step out"
                )
            refuse_outside_dependents(model, prior, owned, "GridRhoStep")
            self._updates.append((PathReader(model, prior, start), self._update(model, prior)))
            self.vars += [model.rvs_to_values[rv] for rv in owned]
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        rehearse(GridRhoStep.step, self, start)

    def _update(self, model, prior):
        if prior.coefficients is not None:
            return LogisticUpdate(model, prior, type(self).__name__)
        if prior.phi is None:
            return _SliceUpdate(model, prior)
        return _RhoUpdate(model, prior, self.grid, self.refine)

    def step(self, point):
        """Draw phi, eta and kappa of each prior; see the class."""
        accepted = True
        for paths, update in self._updates:
            new, moved = update(point, paths, self.rng)
            accepted &= bool(moved)
            point = {**point, **new}
        return point, [{"rho_accepted": accepted}]

    @staticmethod
    def competence(var, has_grad):
        """Claims the self-persistence variables of the priors of this package."""
        mine = has_op(var, SelfPersistenceRV) or role_of(var) in {"phi", "eta", "kappa"}
        mine = mine or (role_of(var) == COEFFICIENTS and _in_force(model_of(var), var))
        return Competence.IDEAL if mine else Competence.INCOMPATIBLE


def _in_force(model, coefficients):
    """Whether hidden states of the model have a self-persistence with these coefficients."""
    return model is not None and any(
        prior.coefficients is coefficients for prior in find_transitions(model)
    )


def _checked_grid(grid, default):
    if grid is None:
        return default
    if np.ndim(grid) != 1 or len(grid) != 2:
        raise ValueError(f"grid must be a pair (cells of phi, cells of eta), received {grid!r}")
    if any(int(cells) != cells or cells < 2 for cells in grid):
        raise ValueError(f"grid must have integers of at least 2, received {grid!r}")
    return tuple(int(cells) for cells in grid)
