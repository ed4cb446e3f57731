"""The transition block of one prior, shared by the samplers of the states."""

import numpy as np
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.kernels import transitions as kernels
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.structure import (
    Reader,
    has_op,
    in_values,
    log_density_function,
    logit_node,
    point_function,
    refuse_outside_dependents,
)

NO_STICKS = np.empty(0)


class _Hyperprior:
    """Hyperprior of alpha or gamma: Gamma (conjugate), another density (slice), or a constant."""

    def __init__(self, model, node):
        self.free = node in model.free_RVs
        self.conjugate = self.free and has_op(node, GammaRV)
        if self.conjugate:
            shape, scale = in_values(model, node.owner.inputs[2:])
            self._parameters = point_function([shape, 1.0 / scale])
        elif self.free:
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
            return np.full(x.shape, prior + log_conditional(float(self._natural(point, x)[0])))

        start = np.asarray(point[self._name], dtype="float64")
        return float(self._natural(point, slice_sample(log_density, start, rng))[0])


class TransitionUpdate:
    """Draw gamma, beta (v), alpha, pi_bar, pi_init of one prior given its switches.

    Parameters
    ----------
    model : pymc.Model
    prior : PriorVariables
    step : str
        Name of the step, for messages.
    """

    def __init__(self, model, prior, step):
        self.rvs = prior.transition_variables(model)
        refuse_outside_dependents(model, prior, self.rvs, step)
        self._hyper = Reader(model, [prior.gamma, prior.alpha])
        self._gamma = _Hyperprior(model, prior.gamma)
        self._alpha = _Hyperprior(model, prior.alpha)
        self._kappa_logit = point_function([logit_node(model, prior.kappa)])
        values = model.rvs_to_values
        self._pi_bar, self._pi_init = values[prior.pi_bar], values[prior.pi_init]
        self._sticks = None if prior.fractions is None else values[prior.fractions]
        self._beta = None if prior.fractions is not None else values[prior.beta]

    def transition_probabilities(self, point):
        """(pi_init, P) with P = diag(kappa) + (1 - kappa) pi_bar."""
        [logit] = self._kappa_logit(point)
        pi_bar = np.asarray(point[self._pi_bar.name], dtype="float64")
        pi_init = np.asarray(point[self._pi_init.name], dtype="float64")
        return pi_init, kernels.transition_matrix(np.asarray(logit, "float64"), pi_bar)

    def switches(self, point, counts, rng):
        """Draw the counts n of switches (w_t = 0) given the path counts."""
        [logit] = self._kappa_logit(point)
        pi_bar = np.asarray(point[self._pi_bar.name], dtype="float64")
        return kernels.draw_switches(rng, counts, np.asarray(logit, "float64"), pi_bar)

    def __call__(self, point, switches, rng):
        """Draw the block; returns new values by the name of their value variables."""
        gamma, alpha = self._hyper.read(point)
        if self._sticks is None:
            sticks = NO_STICKS
            beta = np.asarray(point[self._beta.name], dtype="float64")
        else:
            sticks = np.asarray(point[self._sticks.name], dtype="float64")
            beta = kernels.stick_breaking_weights(sticks)

        if all(h.conjugate or not h.free for h in (self._gamma, self._alpha)):
            prior = kernels.TransitionPrior(
                *self._gamma.gamma_parameters(point), *self._alpha.gamma_parameters(point)
            )
            draw = kernels.transition_block(rng, switches, gamma, alpha, sticks, beta, prior)
        else:
            tables = kernels.table_counts(rng, switches, alpha, beta)
            gamma = self._draw_gamma(point, tables, sticks, gamma, rng)
            alpha = self._draw_alpha(point, switches, tables.sum(), alpha, rng)
            draw = kernels.weights_and_rows(rng, switches, tables, gamma, alpha, sticks)
        return self._values(point, draw)

    def _draw_gamma(self, point, tables, sticks, gamma, rng):
        by_sticks = sticks.size > 0
        if self._gamma.conjugate:
            parameters = self._gamma.gamma_parameters(point)
            if by_sticks:
                return kernels.draw_gamma_sticks(rng, sticks, *parameters)
            return kernels.draw_gamma(rng, tables, gamma, *parameters)
        if not self._gamma.free:
            return gamma
        if by_sticks:
            return self._gamma.slice(
                point, lambda g: kernels.log_gamma_conditional_sticks(g, sticks), rng
            )
        return self._gamma.slice(point, lambda g: kernels.log_gamma_conditional(g, tables), rng)

    def _draw_alpha(self, point, switches, total, alpha, rng):
        if self._alpha.conjugate:
            return kernels.draw_alpha(
                rng, switches, total, alpha, *self._alpha.gamma_parameters(point)
            )
        if not self._alpha.free:
            return alpha
        return self._alpha.slice(
            point, lambda a: kernels.log_alpha_conditional(a, switches, total), rng
        )

    def _values(self, point, draw):
        new = self._hyper.write(point, [draw.gamma, draw.alpha])
        new[self._pi_init.name] = draw.rows[0].astype(self._pi_init.dtype, copy=False)
        new[self._pi_bar.name] = draw.rows[1:].astype(self._pi_bar.dtype, copy=False)
        if self._sticks is None:
            new[self._beta.name] = draw.beta.astype(self._beta.dtype, copy=False)
        else:
            new[self._sticks.name] = draw.sticks_logit.astype(self._sticks.dtype, copy=False)
        return new
