"""Rows that share weights, pi_bar_j ~ Dir(alpha beta): the block drawn given the switches."""

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.distributions import ActiveWeightsRV, StickFractionsRV, SymmetricWeightsRV
from pymc_dshdp.graph.readers import Reader, in_values, log_density_function, point_function
from pymc_dshdp.graph.walks import depends_on_random_variables, has_op, unwrap
from pymc_dshdp.kernels import transitions as kernels
from pymc_dshdp.kernels.labels import renumber
from pymc_dshdp.kernels.pair_density import NO_MIXTURE
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.transitions.finite_mixture import FiniteMixture
from pymc_dshdp.transitions.rows import DirichletRows, RowsUpdate

__all__ = ["Hyperprior", "WeightReader", "WeightedRows", "WeightedUpdate", "equal_rows"]

NO_STICKS = np.empty(0)


class WeightedRows(DirichletRows):
    """Rows whose weights beta are drawn, by concentration gamma: the disentangled prior, HDP."""

    def __init__(self, model, name, pi_init, pi_bar, kappa, index):
        super().__init__(model, name, pi_init, pi_bar, kappa, index)
        beta = self.beta
        if has_op(beta, SymmetricWeightsRV) and beta in model.free_RVs:
            self.gamma = unwrap(beta.owner.inputs[2])
        if has_op(beta, ActiveWeightsRV) and beta in model.free_RVs:
            self.gamma, self.active = (unwrap(v) for v in beta.owner.inputs[2:4])
            if self.active not in model.free_RVs:
                raise ValueError(
                    f"Which states of {name!r} are active must be free while their weights are; "
                    "undo the pm.do or pm.observe on it"
                )
        for v in ancestors([beta], blockers=model.basic_RVs):
            if has_op(v, StickFractionsRV) and v in model.free_RVs:
                self.fractions, self.gamma = v, unwrap(v.owner.inputs[2])
        if self.gamma is None and depends_on_random_variables([self.alpha, beta]):
            raise ValueError(
                f"The weights beta of {name!r} must be free while alpha is; undo the pm.do or "
                "pm.observe on them, or fix alpha too"
            )

    @property
    def weights(self):
        """The variable that the weights are drawn as: beta, or the fractions v."""
        return self.beta if self.fractions is None else self.fractions

    def transition_variables(self, model):
        """Free variables that the samplers of the states draw with the path."""
        found = [self.gamma, self.active, self.weights, self.alpha]
        return [v for v in found if v in model.free_RVs] + super().transition_variables(model)

    def children(self):
        """Map each variable of the prior to those that may depend on it."""
        rows = {self.pi_bar, self.pi_init}
        own = {self.gamma: {self.weights}, self.weights: rows, self.alpha: rows}
        own |= {self.active: {self.weights}}
        return own | super().children()

    def update(self, model, step):
        """Return what draws the path and the transition block."""
        return WeightedUpdate(model, self, step)


class WeightReader:
    """``weights(point) -> (logit of v or an empty array, beta)`` of weighted rows."""

    def __init__(self, model, transitions):
        values, v = model.rvs_to_values, transitions.fractions
        self.sticks = None if v is None else values[v]
        self.beta = None if v is not None else values[transitions.beta]

    def __call__(self, point):
        """See the class."""
        if self.sticks is None:
            return NO_STICKS, np.asarray(point[self.beta.name], dtype="float64")
        sticks = np.asarray(point[self.sticks.name], dtype="float64")
        return sticks, kernels.stick_breaking_weights(sticks)


def equal_rows(alpha, beta, n_rows):
    """Alpha beta, the Dirichlet parameters of pi_init and each of R rows; shape (R + 1, L)."""
    return np.tile(alpha * beta, (n_rows + 1, 1))


class Hyperprior:
    """Hyperprior of alpha or gamma: Gamma (conjugate), another density (slice), or a constant."""

    def __init__(self, model, node):
        self.free = node in model.free_RVs
        self.conjugate = self.free and has_op(node, GammaRV)
        self.by_slice = self.free and not self.conjugate
        if self.conjugate:
            shape, scale = in_values(model, node.owner.inputs[2:])
            self._parameters = point_function([shape, 1.0 / scale])
        if self.free:
            self._log_density = log_density_function(model, node)
            value = model.rvs_to_values[node]
            self._name = value.name
            self._natural = point_function(in_values(model, [node]), [value])

    def gamma_parameters(self, point):
        """(shape, rate), or (0, 1) where there is no conjugate draw to make."""
        if not self.conjugate:
            return 0.0, 1.0
        shape, rate = self._parameters(point)
        return float(shape), float(rate)

    def slice(self, point, log_conditional, rng):
        """Natural value after a slice update on prior x conditional, in value space."""

        def log_density(x):
            prior = self._log_density(point, x.item())
            if not np.isfinite(prior):
                return np.full(x.shape, -np.inf)
            natural = float(self._natural(point, x[0])[0])
            return np.full(x.shape, prior + log_conditional(natural))

        try:
            [new] = slice_sample(log_density, np.asarray(point[self._name], "float64"), rng)
        except ValueError as error:
            raise ValueError(f"{self._name} cannot be drawn: {error}") from error
        return float(self._natural(point, new)[0])


class WeightedUpdate(RowsUpdate):
    """Draw gamma, beta (v; active), alpha, pi_bar, pi_init of one prior given its switches.

    Parameters
    ----------
    model : pymc.Model
    transitions : WeightedRows
    step : str
        Name of the step, for messages.
    """

    rows_alike = True

    def __init__(self, model, transitions, step):
        super().__init__(model, transitions, step)
        self._hyper = Reader(model, [transitions.gamma, transitions.alpha])
        self._gamma = Hyperprior(model, transitions.gamma)
        self._alpha = Hyperprior(model, transitions.alpha)
        self.weights = WeightReader(model, transitions)
        self._sticks, self._beta = self.weights.sticks, self.weights.beta
        self._mixture = None
        if transitions.active is not None:
            self._mixture = FiniteMixture(model, transitions.active, transitions.beta)

    def concentrations(self, point):
        """(gamma, alpha), floats."""
        return self._hyper.read(point)

    def each_concentration(self, point):
        """Dirichlet parameter of each weight; 1 for sticks, NaN where it follows from K."""
        gamma, _ = self._hyper.read(point)
        if self._mixture is not None:
            return np.nan
        return 1.0 if self.ordered else gamma / self._n_states

    @property
    def number_prior(self):
        """Of a finite mixture; without probabilities where there is none."""
        return NO_MIXTURE if self._mixture is None else self._mixture.prior

    def active(self, point):
        """Which states are active, bool, (L,): all, but in a finite mixture."""
        if self._mixture is None:
            return np.ones(self._n_states, bool)
        return self._mixture.active(point)

    def opened(self, point, counts):
        """Activate the states that a new path visits, for a start; their rows are to be drawn."""
        visited, active = counts.sum(axis=0) > 0, self.active(point)
        if np.all(active[visited]):
            return point
        active |= visited
        even = active / np.count_nonzero(active)
        return {**point, **self.weight_values(None, even, active)}

    @property
    def ordered(self):
        """Whether the weights are sticks."""
        return self._sticks is not None

    def renumber(self, point, switches, rng):
        """Draw the numbering of the states along the sticks, then v, given n.

        Returns
        -------
        order : ndarray of shape (L,)
            Former number of the state that now has number k.
        new : dict
            Value of v by its name.
        """
        gamma, alpha = self._hyper.read(point)
        drawn = renumber(rng, switches, gamma, alpha, self.weights(point)[1])
        return drawn.order, {
            self._sticks.name: drawn.sticks_logit.astype(self._sticks.dtype, copy=False)
        }

    def row_concentrations(self, point):
        """See ``equal_rows``."""
        _, alpha = self._hyper.read(point)
        return equal_rows(alpha, self.weights(point)[1], self._n_rows)

    def __call__(self, point, switches, persistences, rng):
        """Draw the block given n and W; returns new values by the name of their variables."""
        gamma, alpha = self._hyper.read(point)
        sticks, beta = self.weights(point)
        if self._alpha.by_slice:
            alpha = self._alpha.slice(
                point, lambda a: kernels.log_alpha_marginal(a, switches, beta), rng
            )
        if self._gamma.by_slice and sticks.size > 0:
            gamma = self._gamma.slice(
                point, lambda g: kernels.log_gamma_conditional_sticks(g, sticks), rng
            )
        active = None
        prior = kernels.TransitionPrior(
            *self._gamma.gamma_parameters(point), *self._alpha.gamma_parameters(point)
        )
        if self._mixture is not None:
            alpha, tables = kernels.alpha_and_tables(rng, switches, alpha, beta, prior)
            gamma, active, beta = self._mixture.draw(point, tables, gamma, self._gamma, rng)
            rows = kernels.draw_dirichlet_rows(rng, alpha * beta + switches)
            draw = kernels.TransitionDraw(gamma, alpha, sticks, beta, rows)
        elif self._gamma.by_slice and sticks.size == 0:
            alpha, tables = kernels.alpha_and_tables(rng, switches, alpha, beta, prior)
            gamma = self._gamma.slice(
                point, lambda g: kernels.log_gamma_conditional(g, tables), rng
            )
            draw = kernels.weights_and_rows(rng, switches, tables, gamma, alpha, sticks)
        else:
            draw = kernels.transition_block(rng, switches, gamma, alpha, sticks, beta, prior)
        new = self._hyper.write(point, [draw.gamma, draw.alpha]) | self.row_values(draw.rows)
        return new | self.weight_values(draw.sticks_logit, draw.beta, active)

    def weight_values(self, sticks_logit, beta, active):
        """Values of v or beta, and of the active set of a finite mixture, by their names."""
        if self._sticks is None:
            new = {} if self._mixture is None else self._mixture.values(active)
            return {**new, self._beta.name: beta.astype(self._beta.dtype, copy=False)}
        return {self._sticks.name: sticks_logit.astype(self._sticks.dtype, copy=False)}
