r"""A metric of NUTS that is a function of the states.

Given the states z and the data y, NUTS samples :math:`p(\theta \mid z, y)`, so its metric may be
any function of z and y: the draws stay exact. One metric for all z would have to serve a state
that is empty and the same number when it is full.

The precision of the parameters of state k, a block of d of them or each by itself, is

.. math:: P_k = A + \sum_c s_{kc} B_c,

with statistics :math:`s_{kc}` of the data in state k, the number of its time points first of all.
A and B are the same for all states, so that the numbering does not matter. Under
:math:`p(\theta \mid z, y)` the gradient g of the log-density has mean zero and
:math:`E[g g'] = E[-\partial^2 \log p]`, so they are learnt while tuning from the gradients at the
draws: as maximum-likelihood estimates under :math:`g_k \sim N(0, P_k)`, by expectation-maximisation
over the independent parts of g, whose covariances are A and :math:`s_{kc} B_c`. With
:math:`w = P^{-1} g` an iteration is

.. math:: B_c \leftarrow B_c + B_c \, \mathrm{mean}[s_c (w w' - P^{-1})] \, B_c,

which keeps all of them positive definite. The metric is P_k with a margin where n_k is small.
"""

from dataclasses import field

import numpy as np
from pymc.step_methods.hmc.quadpotential import PotentialState, QuadPotential
from pymc.step_methods.state import dataclass_state

__all__ = ["Block", "StateMetric"]

FIRST_WINDOW, LAST_WINDOW = 8, 200  # draws between two estimates; each window twice the last
ITERATIONS = 30
FEW = 8.0  # the parameters of a state of one observation move at a third of their speed


class Block:
    """Elements whose precisions are learnt together.

    Parameters
    ----------
    index : ndarray of int, shape (K, R, d)
        Positions of the elements: of K states, R kinds, dense blocks of d.
    n_statistics : int
        C.
    """

    def __init__(self, index, n_statistics):
        self.index = index
        _, self.kinds, self.d = index.shape
        self.n_statistics = n_statistics

    def initial(self):
        """Identity for A and for each B; shape (1 + C, R, d, d)."""
        return np.tile(np.eye(self.d), (1 + self.n_statistics, self.kinds, 1, 1))

    def precisions(self, parts, statistics):
        """P of shape (..., K, R, d, d) at statistics of shape (..., K, C)."""
        return parts[0] + np.einsum("...kc,crij->...krij", statistics, parts[1:])


def fit(parts, gradients, statistics, active, weight):
    """Maximum-likelihood estimates of A and B.

    Parameters
    ----------
    parts : ndarray of shape (1 + C, R, d, d)
        Estimates so far; the new ones give them the weight of some draws.
    gradients : ndarray of shape (N, K, R, d)
    statistics : ndarray of shape (N, K, C)
    active : ndarray of shape (N, K, R), bool
        Which of them to learn from.
    weight : float

    Returns
    -------
    ndarray of shape (1 + C, R, d, d)
    """
    one = np.ones((*statistics.shape[:2], 1))
    factors = np.concatenate([one, statistics], axis=2)[..., None] * active[:, :, None]
    n = (factors > 0.0).sum(axis=(0, 1)) + weight  # (1 + C, R)
    before = parts
    for _ in range(ITERATIONS):
        P = np.einsum("nkcr,crij->nkrij", factors, parts)
        P[~active] = np.eye(parts.shape[-1])
        inverse = np.linalg.inv(P)
        w = np.einsum("nkrij,nkrj->nkri", inverse, gradients)
        slope = np.einsum("nkcr,nkri,nkrj->crij", factors, w, w)
        slope -= np.einsum("nkcr,nkrij->crij", factors, inverse)
        step = parts @ (slope / n[..., None, None]) @ parts
        shrink = (weight / n)[..., None, None] * (before - parts)
        parts = parts + step + shrink
        parts = 0.5 * (parts + parts.swapaxes(-1, -2))
    return parts


def _caution(statistics):
    """Factor (..., K, 1, 1, 1) of the precisions of what is learnt from n > 0 times: 1 + 8 / n^2.

    Where n is small the density is far from normal (a scale and a mean of a single observation):
    its curvature where it is steepest is many times the mean, of which P is an estimate.
    """
    if statistics.shape[-1] == 0:
        return np.ones((len(statistics), 1, 1, 1))
    n = statistics[:, 0]
    factor = 1.0 + FEW / np.where(n > 0.0, n, np.inf) ** 2
    return factor[:, None, None, None]


@dataclass_state
class StateMetricState(PotentialState):
    """Sampling state of ``StateMetric``."""

    parts: list
    window: int
    gradients: list
    statistics: list
    active: list
    dtype: str = field(metadata={"frozen": True})


class StateMetric(QuadPotential):
    """Kinetic energy with the precision of the module's formula as the mass.

    ``at`` says what the states are before each draw. Elements that are not active have momentum
    and velocity zero: they stay where they are.

    Parameters
    ----------
    blocks : list of Block
        Each element in one of them.
    size : int
        Number of elements.
    dtype : str
    rng : optional

    Attributes
    ----------
    parts : list of ndarray of shape (1 + C, R, d, d)
        A and B of each block.
    """

    _state_class = StateMetricState

    def __init__(self, blocks, size, dtype="float64", rng=None):
        super().__init__(rng=rng)
        self.blocks, self.size, self.dtype = blocks, size, dtype
        self.reset()

    def reset(self):
        """Forget what was learnt."""
        self.parts = [block.initial() for block in self.blocks]
        self.window = FIRST_WINDOW
        self.gradients, self.statistics, self.active = [], [], []

    def at(self, statistics, active, learnt=None):
        """Set the metric.

        Parameters
        ----------
        statistics : list of ndarray of shape (K, C)
            Of each block.
        active : ndarray of shape (size,), bool
        learnt : ndarray of shape (size,), bool, optional
            Elements to learn from the gradients of; those that are active by default.
        """
        self._now = statistics, active if learnt is None else learnt
        self._variance, self._root = np.zeros(self.size), np.zeros(self.size)
        self._dense = []
        for block, parts, s in zip(self.blocks, self.parts, statistics, strict=True):
            P = block.precisions(parts, s) * _caution(s)
            on = active[block.index].all(axis=-1)[..., None]  # no block is active in part
            if block.d == 1:
                self._variance[block.index] = on / P[..., 0]
                self._root[block.index] = on * np.sqrt(P[..., 0])
            else:
                covariance = on[..., None] * np.linalg.inv(P)
                root = on[..., None] * np.linalg.cholesky(P)
                self._dense.append((block.index, covariance, root))

    def scales(self):
        """Conditional standard deviation of each active element given the others."""
        out = np.sqrt(self._variance)
        for index, _, root in self._dense:
            precision = (root**2).sum(axis=-1)
            out[index] = np.divide(1.0, np.sqrt(precision), where=precision > 0.0, out=precision)
        return out

    def velocity(self, x, out=None):
        """Velocity of a momentum."""
        with np.errstate(invalid="ignore"):  # an infinite momentum: the trajectory diverges
            out = np.multiply(self._variance, x, out=out)
            for index, covariance, _ in self._dense:
                out[index] = np.matmul(covariance, x[index][..., None])[..., 0]
        return out

    def energy(self, x, velocity=None):
        """Kinetic energy of a momentum."""
        return 0.5 * x.dot(self.velocity(x) if velocity is None else velocity)

    def velocity_energy(self, x, v_out):
        """Kinetic energy of a momentum, and its velocity in ``v_out``."""
        return 0.5 * x.dot(self.velocity(x, out=v_out))

    def random(self):
        """Draw a momentum."""
        normal = self.rng.normal(size=self.size)
        out = self._root * normal
        for index, _, root in self._dense:
            out[index] = np.matmul(root, normal[index][..., None])[..., 0]
        return out.astype(self.dtype, copy=False)

    def update(self, sample, grad, tune):
        """Learn from the gradient at a draw, while tuning."""
        if not tune:
            self.gradients, self.statistics, self.active = [], [], []
            return
        if not np.isfinite(grad).all():
            return
        statistics, active = self._now
        self.gradients.append(np.array(grad, float))
        self.statistics.append(statistics)
        self.active.append(active)
        if len(self.gradients) == self.window:
            self._learn()
            self.window = min(2 * self.window, LAST_WINDOW)

    def _learn(self):
        gradients, active = np.array(self.gradients), np.array(self.active)
        for i, block in enumerate(self.blocks):
            self.parts[i] = fit(
                self.parts[i],
                gradients[:, block.index],
                np.array([s[i] for s in self.statistics]),
                active[:, block.index].all(axis=-1),
                block.d + 1.0,
            )
        self.gradients, self.statistics, self.active = [], [], []
