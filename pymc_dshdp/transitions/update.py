"""The values of a transition model at a point: numeric transitions, and the draw of the path."""

import numpy as np

from pymc_dshdp.graph.readers import in_values, logit_node, point_function
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import (
    NO_INDEX,
    Transitions,
    first_wrong_row,
    kappa_rows,
    plain,
    reachable_states,
)

__all__ = ["TransitionReader", "TransitionUpdate", "describe_wrong_row"]


def describe_wrong_row(rows, g, j):
    """Say which row of which matrix is no probability vector, and by how much."""
    row = rows[g, j]
    where = f" in row {j}" if rows.shape[1] > 1 else ""
    where += f" of matrix {g}" if len(rows) > 1 else ""
    low, total = row.min(), row.sum()
    if low < 0.0:
        return f"an entry of {low:.3g}{where}"
    return f"a sum of {total:.9g}{where}, {total - 1.0:+.3g} from one"


class TransitionReader:
    """``reader(point, shape, i) -> (pi_init, Transitions)`` along the flattened states of a shape.

    They are those of the i-th states variable of the transition model: each says for itself which
    group leads to each of its times.

    Parameters
    ----------
    model : pymc.Model
    transitions : TransitionModel

    Attributes
    ----------
    graphs : list
        What it reads, in value variables.
    """

    def __init__(self, model, transitions):
        nodes = [transitions.pi_init, transitions.pi_bar, *transitions.indices]
        pi_init, pi_bar, *indices = in_values(model, nodes)
        logit = logit_node(model, transitions.kappa)
        self.graphs = [pi_init, pi_bar, logit, *indices]
        self._pi_init, self._pi_bar, self._logit, *self._indices = (
            point_function([graph]) for graph in self.graphs
        )
        self._varies, self._by_group = transitions.varies, transitions.kappa_by_group
        self._indexed = pi_bar.type.ndim > 2
        self._given = not transitions.collapses
        self._name = transitions.label

    def kappa_and_rows(self, point):
        """(logit of kappa, pi_bar) as the model has them, float64."""
        [logit], [pi_bar] = self._logit(point), self._pi_bar(point)
        return plain(logit), plain(pi_bar)

    def matrices(self, point):
        """(pi_init, P), of which no kappa varies with time: of the shape of pi_bar."""
        logit, pi_bar = self.kappa_and_rows(point)
        rows = pi_bar.reshape(-1, *pi_bar.shape[-2:])
        found = Transitions(np.atleast_2d(logit), rows, grouped=self._by_group).matrices
        return plain(self._pi_init(point)[0]), found.reshape(pi_bar.shape)

    def __call__(self, point, shape, i=0):
        """See the class."""
        logit, pi_bar = self.kappa_and_rows(point)
        pi_init = plain(self._pi_init(point)[0])
        pi_bar = pi_bar if self._indexed else pi_bar[None]
        kappa = kappa_rows(logit, shape) if self._varies else np.atleast_2d(logit)
        index = self.along(point, shape, len(pi_bar), i) if self._indexed else NO_INDEX
        if self._given:
            self._check(pi_init, pi_bar)
        return pi_init, Transitions(kappa, pi_bar, index, self._by_group)

    def along(self, point, shape, n_matrices, i=0):
        """Which of the matrices leads to each of the flattened states of a shape; checked."""
        [index] = self._indices[i](point)
        try:
            index = plain(np.broadcast_to(index, shape), "int64").ravel()
        except ValueError as error:
            raise ValueError(
                f"{self._name}: the index of its transition matrices has shape {index.shape}, but "
                f"the states have shape {shape}; give a number for each of their times"
            ) from error
        wrong = np.flatnonzero((index < 0) | (index >= n_matrices))
        if wrong.size:
            raise ValueError(
                f"{self._name}: the index of its transition matrices must be 0 to "
                f"{n_matrices - 1}, received {index[wrong[0]]} at position {wrong[0]}"
            )
        return index

    def _check(self, pi_init, pi_bar):
        for what, rows in (("initial probabilities", pi_init[None, None]), ("matrices", pi_bar)):
            g, j = first_wrong_row(rows)
            if g < 0:
                continue
            raise ValueError(
                f"{self._name}: its transition {what} must be probabilities that sum to one in "
                f"each row, received {describe_wrong_row(rows, g, j)}; write them with "
                "pm.math.softmax(..., axis=-1) or as pm.Dirichlet"
            )


class TransitionUpdate:
    """What a sampler of the states does with a transition model: nothing but draw the path.

    Parameters
    ----------
    model : pymc.Model
    transitions : TransitionModel
    step : str
        Name of the step, for messages.

    Attributes
    ----------
    rvs : list of free random variables
        Those that it draws.
    """

    def __init__(self, model, transitions, step):
        self.rvs = transitions.transition_variables(model)
        self.transitions = TransitionReader(model, transitions)

    def transition_probabilities(self, point):
        """(pi_init, P), where P is the same at all times; (G, L, L) where it is in each group."""
        return self.transitions.matrices(point)

    def draw_path(self, table, point, lengths, uniforms, threads, i=0):
        """Draw hidden paths of the i-th states variable; returns a ``PathDraw``.

        ``table`` is its ``LogLikelihoodTable``. States that cannot be reached are left out of it.
        """
        pi_init, transitions = self.transitions(point, table.shape, i)
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

    def opened(self, point, counts):
        """Make the states of a new path possible, of which these are the counts, for a start.

        What depends on them is drawn afterwards.
        """
        return point

    def split(self, point, counts, paths, rng):
        """Divide the counts of paths into switches (w_t = 0) and self-persistences.

        Parameters
        ----------
        point : dict
        counts : ndarray of shape (R + 1, L)
            Of ``paths``.
        paths : PathReader
        rng : numpy.random.Generator
        """
        return counts, counts[1:].diagonal() * 0

    def __call__(self, point, switches, persistences, rng):
        """Draw ``rvs`` given n and W; returns new values by the name of their variables."""
        return {}
