"""The transition block of one prior, shared by the samplers of the states."""

import numpy as np
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.graph.prior_variables import refuse_outside_dependents
from pymc_dshdp.graph.readers import (
    Reader,
    in_values,
    log_density_function,
    logit_node,
    point_function,
)
from pymc_dshdp.graph.walks import has_op, unwrap
from pymc_dshdp.kernels import transitions as kernels
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import (
    Transitions,
    kappa_rows,
    reachable_states,
    transition_matrix,
)
from pymc_dshdp.kernels.labels import renumber
from pymc_dshdp.kernels.persistence import draw_self_persistence, log_sticky_marginal
from pymc_dshdp.kernels.slice import slice_sample

NO_STICKS = np.empty(0)


class _Hyperprior:
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


class _Rows:
    """What every prior has: the rows, and the counts of its path.

    Subclasses say whether all rows have the same Dirichlet parameters (``rows_alike``), and
    whether their weights are in an order, by which the states are numbered (``ordered``).

    Parameters
    ----------
    model : pymc.Model
    prior : PriorVariables
    step : str
        Name of the step, for messages.
    """

    ordered = False

    def __init__(self, model, prior, step):
        self.rvs = prior.transition_variables(model)
        refuse_outside_dependents(model, prior, self.rvs, step)
        self._kappa_logit = point_function([logit_node(model, prior.kappa)])
        self._pi_bar = model.rvs_to_values[prior.pi_bar]
        self._pi_init = model.rvs_to_values[prior.pi_init]
        self._varies = prior.varies

    def persistence_and_rows(self, point):
        """(logit of kappa, pi_bar), arrays of shape (L,), or (..., T, L), and (L, L)."""
        [logit] = self._kappa_logit(point)
        pi_bar = np.asarray(point[self._pi_bar.name], dtype="float64")
        return np.asarray(logit, dtype="float64"), pi_bar

    def transitions(self, point, shape):
        """(pi_init, Transitions) along the flattened states of a shape."""
        logit, pi_bar = self.persistence_and_rows(point)
        pi_init = np.asarray(point[self._pi_init.name], dtype="float64")
        kappa = kappa_rows(logit, shape) if self._varies else logit[None]
        return pi_init, Transitions(kappa, pi_bar)

    def transition_probabilities(self, point):
        """(pi_init, P) with P = diag(kappa) + (1 - kappa) pi_bar, where kappa is constant."""
        pi_init, transitions = self.transitions(point, ())
        return pi_init, transition_matrix(transitions.kappa_logit[0], transitions.pi_bar)

    def draw_path(self, table, point, lengths, uniforms, threads):
        """Draw hidden paths given the prior's values; returns a ``PathDraw``.

        ``table`` is a ``LogLikelihoodTable``. States that cannot be reached are left out of it.
        """
        pi_init, transitions = self.transitions(point, table.shape)
        states = reachable_states(pi_init, transitions.pi_bar)
        if not 0 < len(states) < len(pi_init):  # none where pi_init is NaN
            rows = table.rows(point)
            return sample_paths(
                rows, len(pi_init), pi_init, transitions, lengths, uniforms, threads
            )
        rows, pi_init, transitions = (
            table.rows(point, states),
            pi_init[states],
            transitions.among(states),
        )
        found = sample_paths(rows, len(states), pi_init, transitions, lengths, uniforms, threads)
        return found._replace(states=states[found.states])

    def split(self, point, counts, paths, rng):
        """Draw (n, W) given the paths: switches (w_t = 0) and self-persistences.

        Parameters
        ----------
        point : dict
        counts : ndarray of shape (L + 1, L)
            Of ``paths``.
        paths : PathReader
        rng : numpy.random.Generator
        """
        logit, pi_bar = self.persistence_and_rows(point)
        if not self._varies:
            return kernels.split_counts(rng, counts, logit, pi_bar)
        persistences = np.zeros(len(pi_bar), np.int64)
        for path, lengths in paths.paths(point):
            rows = kappa_rows(logit, path.shape)
            kernels.varying_persistence_counts(
                rng, path.ravel(), lengths, rows, pi_bar, persistences
            )
        return kernels.switch_counts(counts, persistences), persistences

    def row_values(self, rows):
        """Values of pi_init and pi_bar by their names."""
        return {
            self._pi_init.name: rows[0].astype(self._pi_init.dtype, copy=False),
            self._pi_bar.name: rows[1:].astype(self._pi_bar.dtype, copy=False),
        }


class TransitionUpdate(_Rows):
    """Draw gamma, beta (v), alpha, pi_bar, pi_init of one prior given its switches.

    Parameters
    ----------
    model : pymc.Model
    prior : PriorVariables
    step : str
        Name of the step, for messages.
    """

    rows_alike = True

    def __init__(self, model, prior, step):
        super().__init__(model, prior, step)
        self._hyper = Reader(model, [prior.gamma, prior.alpha])
        self._gamma = _Hyperprior(model, prior.gamma)
        self._alpha = _Hyperprior(model, prior.alpha)
        values = model.rvs_to_values
        self._sticks = None if prior.fractions is None else values[prior.fractions]
        self._beta = None if prior.fractions is not None else values[prior.beta]

    def concentrations(self, point):
        """(gamma, alpha), floats."""
        return self._hyper.read(point)

    def weights(self, point):
        """(logit of v or an empty array, beta)."""
        if self._sticks is None:
            return NO_STICKS, np.asarray(point[self._beta.name], dtype="float64")
        sticks = np.asarray(point[self._sticks.name], dtype="float64")
        return sticks, kernels.stick_breaking_weights(sticks)

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
        """Alpha beta, the Dirichlet parameters of pi_init and each row; shape (L + 1, L)."""
        _, alpha = self._hyper.read(point)
        base = alpha * self.weights(point)[1]
        return np.tile(base, (len(base) + 1, 1))

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
        prior = kernels.TransitionPrior(
            *self._gamma.gamma_parameters(point), *self._alpha.gamma_parameters(point)
        )
        if self._gamma.by_slice and sticks.size == 0:
            alpha, tables = kernels.alpha_and_tables(rng, switches, alpha, beta, prior)
            gamma = self._gamma.slice(
                point, lambda g: kernels.log_gamma_conditional(g, tables), rng
            )
            draw = kernels.weights_and_rows(rng, switches, tables, gamma, alpha, sticks)
        else:
            draw = kernels.transition_block(rng, switches, gamma, alpha, sticks, beta, prior)
        return self._values(point, draw)

    def _values(self, point, draw):
        new = self._hyper.write(point, [draw.gamma, draw.alpha]) | self.row_values(draw.rows)
        return new | self.weight_values(draw.sticks_logit, draw.beta)

    def weight_values(self, sticks_logit, beta):
        """Value of v or beta by its name."""
        if self._sticks is None:
            return {self._beta.name: beta.astype(self._beta.dtype, copy=False)}
        return {self._sticks.name: sticks_logit.astype(self._sticks.dtype, copy=False)}


class StickyUpdate(TransitionUpdate):
    """Draw phi, s and kappa of the sticky prior together with its transition block.

    (phi, s) | W, n, beta by slices with kappa and the rows integrated out, one after the other
    in value space; then the block with alpha = (1 - phi) s; kappa | W, n, phi, s last.
    """

    def __init__(self, model, prior, step):
        super().__init__(model, prior, step)
        self._tie = Reader(model, prior.sticky)
        self._tied = [_Hyperprior(model, node) for node in prior.sticky]
        self._kappa = model.rvs_to_values[prior.kappa]

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
        new[self._kappa.name] = logit.astype(self._kappa.dtype, copy=False)
        return new


class FixedRowsUpdate(_Rows):
    """Draw the rows of ``FixedTransitions``: P_j ~ Dir(a_j + N_j), for given a."""

    rows_alike = False

    def __init__(self, model, prior, step):
        super().__init__(model, prior, step)
        nodes = [rv.owner.inputs[2] * unwrap(rv.owner.inputs[3]) for rv in self.rvs]
        base = dict(zip(self.rvs, point_function(nodes)({}), strict=True))
        rows = np.broadcast_to(base[prior.pi_bar], (prior.n_states, prior.n_states))
        self._base = np.vstack([base[prior.pi_init].reshape(1, -1), rows])

    def row_concentrations(self, point):
        """Return a of pi_init and each row; shape (L + 1, L)."""
        return self._base

    def __call__(self, point, switches, persistences, rng):
        """Draw the rows given the path counts; returns them by the name of their variables."""
        return self.row_values(kernels.draw_dirichlet_rows(rng, self._base + switches))


def transition_update(model, prior, step):
    """Choose the update that fits the prior."""
    if prior.gamma is None:
        return FixedRowsUpdate(model, prior, step)
    if prior.sticky is not None:
        return StickyUpdate(model, prior, step)
    return TransitionUpdate(model, prior, step)
