"""The maximum of the likelihood of a parametric hidden Markov model, its path summed out."""

from typing import NamedTuple

import numpy as np
from pytensor.graph.traversal import ancestors
from scipy.optimize import minimize

from pymc_dshdp.graph.gathers import states_that_read
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.decoding import filter_with_scores, smooth
from pymc_dshdp.likelihood.table import terms_involving
from pymc_dshdp.transitions.matrices import connected

__all__ = ["MarginalLikelihood", "Maximum"]

DEPENDENT = 1e-6  # of the largest singular value: above the error of the differences
STEP = 6e-6  # relative, about the third root of the rounding error: for central differences
FLAT = 0.01  # the largest gradient, in nats, at what is taken for a maximum
OPTIONS = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-11, "gtol": 1e-5, "maxcor": 20}
NEVER = 1e-12  # a starting probability of what was 0 in a draw and may be more


class Maximum(NamedTuple):
    """Where an ascent ended.

    Attributes
    ----------
    log_likelihood : float
    found : bool
        Whether that is a (local) maximum: the gradient vanishes there. Where the likelihood has no
        bound, as that of normal observations whose standard deviation goes to 0 in a state of one
        observation, an ascent may lead there and find none.
    """

    log_likelihood: float
    found: bool


class MarginalLikelihood:
    r"""log p(y | theta, P, pi_init) and its gradient, at unconstrained real numbers x.

    The emission parameters are those of the model's transformed space; the rows of P and pi_init,
    on the transitions that are possible, are the softmax of theirs. With smoothed probabilities
    :math:`s_t(k) = p(z_t = k \mid y)` and expected counts :math:`\xi_{jk}`, Fisher's identity
    gives

    .. math::

       \partial_\theta \log p(y) = \sum_{tk} s_t(k) \, \partial_\theta \log p(y_t \mid z_t = k),
       \qquad \partial \log p(y) / \partial P_{jk} = \xi_{jk} / P_{jk},

    the former by central differences of the table, of all elements at once that no state reads two
    of (proved by ``graph/gathers.py``), the latter in closed form.

    Parameters
    ----------
    model : pymc.Model
    transitions : FixedRows
        Without self-persistence.
    draws : PosteriorDraws
        Of the model.
    initial : {"estimated", "stationary"}
        Whether pi_init is free, or the stationary distribution of P.

    Attributes
    ----------
    n_parameters : dict of int
        The number of free parameters: "P", "pi_init", and each emission parameter by its name; and
        "redundant", less than 0, where the likelihood depends on fewer numbers than these, as on
        the sum of two.

    Raises
    ------
    ValueError
        Naming an emission parameter that is discrete, or zeros of P under which there is no
        stationary distribution.
    """

    def __init__(self, model, transitions, draws, initial):
        self._draws, self._stationary = draws, initial == "stationary"
        rows = transitions.update(model, "choose_states").row_concentrations({}) > 0.0
        self._possible = rows[1:] if self._stationary else np.vstack([rows[1:], rows[:1]])
        if self._stationary and not connected(rows[1:]):
            raise ValueError(
                'initial="stationary" is for a chain in which every state leads to every other; '
                f"{transitions.label!r} has transitions of concentration 0 that prevent it. Use "
                'initial="estimated"'
            )
        rvs = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
        self._values = {name: rvs[name] for name in sorted(draws.table.parameters)}
        for rv in self._values.values():
            if not rv.dtype.startswith("float"):
                raise ValueError(
                    f"{rv.name!r} is discrete: no ascent leads to a maximum over it, and it is no "
                    "parameter in the sense of AIC and BIC"
                )
        own = transitions.pi_bar, transitions.pi_init
        self._rows = [model.rvs_to_values[rv].name for rv in own]
        self._layout = [(name, np.shape(x)) for name, x in self._emission(draws.point(0, 0))]
        self._n_emission = sum(int(np.prod(shape)) for _, shape in self._layout)
        self._reads = _reads(model, transitions, [name for name, _ in self._layout])
        self._apart = _apart(self._reads)
        free = self._possible.sum(axis=1) - 1
        L = len(rows) - 1
        self.n_parameters = {
            "P": int(free[:L].sum()),
            "pi_init": int(free[L:].sum()),
            **{self._values[name].name: int(np.prod(shape)) for name, shape in self._layout},
        }
        redundant = self._n_emission - self._rank(self.start(0, 0))
        if redundant:
            self.n_parameters["redundant"] = -redundant

    def _emission(self, point):
        return [(name, point[name]) for name in self._values]

    def start(self, chain, draw):
        """Return x of a posterior draw, by position."""
        point = self._draws.point(chain, draw)
        pi_bar, pi_init = (point[name] for name in self._rows)
        rows = pi_bar if self._stationary else np.vstack([pi_bar, pi_init])
        logits = np.log(np.maximum(rows[self._possible], NEVER))
        return np.concatenate([*(np.ravel(x) for _, x in self._emission(point)), logits])

    def _parameters(self, x):
        """Emission parameters, by the names of their value variables."""
        point, low = {}, 0
        for name, shape in self._layout:
            high = low + int(np.prod(shape))
            point[name], low = x[low:high].reshape(shape), high
        return point

    def _probabilities(self, x):
        """Return (P, pi_init)."""
        rows = np.full(self._possible.shape, -np.inf)
        rows[self._possible] = x[self._n_emission :]
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        rows /= rows.sum(axis=1, keepdims=True)
        L = rows.shape[1]
        if self._stationary:
            return rows, np.linalg.solve((np.eye(L) - rows + 1.0).T, np.ones(L))
        return rows[:L], rows[L]

    def __call__(self, x):
        """Return (log-likelihood, gradient); (-inf, 0) where a parameter is out of its support."""
        try:
            P, initial = self._probabilities(x)
        except np.linalg.LinAlgError:  # of P that is, to rounding, in several parts
            return -np.inf, np.zeros_like(x)
        transitions, lengths = without_persistence(P), self._draws.lengths
        table = self._draws.table(self._parameters(x))
        filtered, scores = filter_with_scores(table, initial, transitions, lengths)
        value = scores.sum()
        if not np.isfinite(value):
            return -np.inf, np.zeros_like(x)
        smoothed = smooth(table, initial, transitions, lengths)
        gradient = np.empty_like(x)
        for elements in self._apart:
            gradient[elements] = self._slopes(x, elements, smoothed)
        gradient[self._n_emission :] = self._row_slopes(P, initial, filtered, smoothed)
        return value, gradient

    def _slopes(self, x, elements, smoothed):
        """Differentiate with respect to emission parameters of which each state reads one."""
        tables, steps = self._beside(x, elements)
        up, down = (
            (smoothed * np.where(smoothed > 0.0, table, 0.0)).sum(axis=0) for table in tables
        )
        return self._reads[elements] @ (up - down) / (2.0 * steps)

    def _beside(self, x, elements):
        """Tables a step above and below x in some elements, and the steps."""
        steps, tables = STEP * np.maximum(1.0, np.abs(x[elements])), []
        for sign in (1.0, -1.0):
            moved = x.copy()
            moved[elements] += sign * steps
            tables.append(self._draws.table(self._parameters(moved)))
        return tables, steps

    def _rank(self, x):
        """Of how many numbers the table is a function near x: the rank of its derivatives.

        Those of a state's column depend on what the state reads; the triangular factors of these
        blocks have the singular values of all.
        """
        n, L = self._reads.shape
        columns = [[] for _ in range(L)]
        for elements in self._apart:
            (up, down), steps = self._beside(x, elements)
            with np.errstate(invalid="ignore"):
                change = np.where(np.isfinite(up) & np.isfinite(down), up - down, 0.0)
            for element, step in zip(elements, steps, strict=True):
                for state in np.flatnonzero(self._reads[element]):
                    columns[state].append((element, change[:, state] / step))
        blocks = [np.zeros((0, n))]
        for of_state in columns:
            if of_state:
                elements, slopes = zip(*of_state, strict=True)
                factor = np.linalg.qr(np.column_stack(slopes), mode="r")
                blocks.append(np.zeros((len(factor), n)))
                blocks[-1][:, list(elements)] = factor
        stacked = np.vstack(blocks)
        lengths = np.linalg.norm(stacked, axis=0)
        found = np.linalg.svd(stacked / np.where(lengths > 0.0, lengths, 1.0), compute_uv=False)
        return int((found > DEPENDENT * found.max(initial=0.0)).sum())

    def _row_slopes(self, P, initial, filtered, smoothed):
        """Gradient with respect to the logits of the rows, and of pi_init if that is free.

        xi_t(j, k) = a_t-1(j) P_jk s_t(k) / b_t(k),  b_t = a_t-1 P, for filtered a; of a softmax the
        derivative is xi_jk - P_jk xi_j. . The stationary distribution has d pi = pi dP Z with Z the
        inverse of I - P + 1 1'.
        """
        lengths = self._draws.lengths
        starts = np.cumsum(lengths) - lengths
        inner = np.ones(len(smoothed), bool)
        inner[starts] = False
        before = filtered[:-1][inner[1:]]
        predicted = before @ P
        ratio = np.divide(
            smoothed[inner], predicted, out=np.zeros_like(predicted), where=predicted > 0.0
        )
        counts = P * (before.T @ ratio)
        first = smoothed[starts].sum(axis=0)
        if self._stationary:
            per_initial = np.divide(first, initial, out=np.zeros_like(first), where=initial > 0.0)
            onward = np.linalg.solve(np.eye(len(P)) - P + 1.0, per_initial)
            rows, counts = P, counts + P * np.outer(initial, onward)
        else:
            rows, counts = np.vstack([P, initial]), np.vstack([counts, first])
        slopes = counts - rows * counts.sum(axis=1, keepdims=True)
        return slopes[self._possible]

    def ascend(self, x):
        """Follow the gradient from x to a maximum, by L-BFGS; returns a ``Maximum``."""

        def downhill(x):
            value, gradient = self(x)
            return -value, -gradient

        with np.errstate(all="ignore"):
            if x.size:
                x = minimize(downhill, x, jac=True, method="L-BFGS-B", options=OPTIONS).x
            value, gradient = self(x)
        found = bool(np.isfinite(value) and np.abs(gradient).max(initial=0.0) < FLAT)
        return Maximum(float(value), found)


def _reads(model, transitions, names):
    """Which states may read which elements of value variables, laid end to end: (n, L)."""
    [z], L, start = transitions.states, transitions.n_states, model.initial_point()
    z_value, found = model.rvs_to_values[z], [np.empty((0, L), bool)]
    graphs = [graph for _, graph in terms_involving(model, z)]
    for name in names:
        [value] = [v for v in model.value_vars if v.name == name]
        of_graphs = [
            states_that_read(graph, value, z_value, L, start)
            for graph in graphs
            if value in set(ancestors([graph]))
        ]
        found.append(np.any(of_graphs, axis=0))
    return np.concatenate(found)


def _apart(reads):
    """Collect elements of which no state reads two, in few sets."""
    sets: list = []
    for i, states in enumerate(reads):
        for elements in sets:
            if not (reads[elements] & states).any():
                elements.append(i)
                break
        else:
            sets.append([i])
    return sets
