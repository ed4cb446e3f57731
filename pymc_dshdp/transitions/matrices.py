"""Transition matrices that the user writes, of any kind that PyMC can express."""

from typing import Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.variable import TensorVariable

from pymc_dshdp.kernels.chain import first_wrong_row
from pymc_dshdp.transitions.declared import TransitionPrior, exchangeable
from pymc_dshdp.transitions.update import describe_wrong_row
from pymc_dshdp.typing import Tensor

__all__ = ["Transitions", "connected", "stationary_distribution"]

FORMS = "(L, L); (G, L, L) with index=; (T, L, L); or (n_sequences, T, L, L)"


class Transitions(TransitionPrior):
    r"""Transition matrices P that are written by the user, in the place of a prior.

    Any tensor whose rows sum to one: the softmax of covariates or of a season, ``pm.Dirichlet``
    rows, the exponential of a rate matrix. Its parameters are sampled by NUTS through the
    log-density of the states, :math:`\sum_t \log P_{t, z_{t-1} z_t}`, and the states given P as
    under any other prior. P may have zeros: a path never takes a transition of probability 0.

    Parameters
    ----------
    name : str
        Prefix of the variables ``name_P``, ``name_pi_init`` and, where P depends on time,
        ``name_P_mean``, its average over time.
    P : array or tensor
        (L, L); (G, L, L), of which ``index`` says which leads to each time; (T, L, L), or
        (n_sequences, T, L, L) for a batch, where P[t] leads from t - 1 to t and that of a first
        time is not used. One for each time is not stored, but its average.
    initial : array, tensor or "stationary", optional
        Probabilities of the first state of each sequence, of shape (L,); or the stationary
        distribution of a constant P. Default: all states alike.
    index : array or tensor of int, optional
        Of shape (T,) or (n_sequences, T), 0 to G - 1. As a ``pm.Data`` it can be given for other
        data and for the future.
    dims : str, optional
        A coordinate of the model for the states. Default: ``name_state``.

    Attributes
    ----------
    pi_init, pi_bar, index
        The tensors given; the matrices are called ``pi_bar`` as in the other priors, whose P is
        diag(kappa) + (1 - kappa) pi_bar.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead: a row that does not sum
        to one, by its number and sum, also while sampling.

    Examples
    --------
    Two seasons, each with its own matrix:

    >>> import numpy as np, pymc as pm, pymc_dshdp as dshdp
    >>> y = np.random.default_rng(1).poisson(np.repeat([2, 20, 2, 20], 6))
    >>> with pm.Model() as model:
    ...     season = pm.Data("season", np.arange(24) // 6 % 2)
    ...     P = pm.Dirichlet("P", np.ones((2, 3, 3)))
    ...     prior = dshdp.Transitions("hmm", P, index=season)
    ...     z = dshdp.HiddenStates("z", prior, length=24)
    ...     rate = pm.Gamma("rate", 1.0, 0.1, dims="hmm_state")
    ...     counts = pm.Poisson("counts", rate[z], observed=y)
    >>> prior
    Transitions('hmm', n_states=3)
    """

    def __init__(
        self,
        name: str,
        P: ArrayLike | Tensor,
        *,
        initial: ArrayLike | Tensor | Literal["stationary"] | None = None,
        index: ArrayLike | Tensor | None = None,
        dims: str | None = None,
    ) -> None:
        matrices = self._checked_matrices(name, P)
        drawn = _drawn(matrices)
        L = drawn.shape[-1] if drawn is not None else matrices.type.shape[-1]
        if L is None:
            raise ValueError(
                f"{name}: P must have a last dimension of known length, received {P}; fix it with "
                "pt.specify_shape"
            )
        super().__init__(name, None if dims else int(L), dims)
        if L != self.n_states:
            raise ValueError(
                f"{self.name}: P is for {L} states, but the coordinate {dims!r} has {self.n_states}"
            )
        if drawn is not None and drawn.shape[-2] != L:
            raise ValueError(
                f"{self.name}: P must be square in its last two dimensions, received shape "
                f"{drawn.shape}"
            )
        index = self._checked_index(index, matrices, drawn)
        start = self._checked_initial(initial, matrices, drawn)
        if drawn is not None:
            self._check_rows("P", drawn.reshape(-1, L, L))
        self._declare(matrices, index, start)
        patterns = [] if drawn is None else [drawn.reshape(-1, L, L) > 0.0]
        if isinstance(start, Constant):
            patterns.append(start.data > 0.0)
        self.tied = not all(map(exchangeable, patterns))

    def _declare(self, matrices, index, start):
        self.declare_coords()
        dims, name = self.dims, self.prefixed("P")
        self.pi_init = pt.specify_shape(start, (self.n_states,))
        self.recorded["pi_init"] = pm.Deterministic(
            self.prefixed("pi_init"), self.pi_init, dims=dims[0]
        )
        per_time = index is None and matrices.type.ndim > 2
        if not per_time:
            along = () if index is None else (f"{name}_matrix",)
            if index is not None:
                self.model.add_coord(along[0], length=matrices.shape[0])
            self.recorded["pi_bar"] = self.recorded["matrices"] = (
                matrices
                if self.model.named_vars.get(name) is matrices
                else pm.Deterministic(name, matrices, dims=(*along, *dims))
            )
        if index is not None or per_time:
            if per_time:
                mean = matrices.mean(tuple(range(matrices.type.ndim - 2)))
            else:
                seen = pt.eq(index.ravel()[None], pt.arange(matrices.shape[0])[:, None])
                mean = pt.tensordot(seen.mean(axis=1), matrices, 1)
            mean_name = self.prefixed("P_mean")
            self.recorded["pi_bar"] = pm.Deterministic(mean_name, mean, dims=dims)
        if per_time:
            times, known = matrices.shape[:-2], matrices.type.shape[:-2]
            index = pt.arange(pt.prod(times)).reshape(times, ndim=matrices.type.ndim - 2)
            if None not in known:
                index = pt.constant(np.arange(np.prod(known)).reshape(known))
            matrices = matrices.reshape((-1, *matrices.shape[-2:]))
        self.pi_bar, self.index = matrices, index

    def _checked_matrices(self, name, P):
        if not isinstance(P, Variable):
            P = np.asarray(P)
            if P.dtype.kind not in "fiu":
                raise TypeError(f"{name}: P must be probabilities, received dtype {P.dtype}")
            P = pt.constant(P.astype("float64"))
        if not isinstance(P, TensorVariable) or P.type.ndim not in (2, 3, 4):
            shape = getattr(P.type, "shape", P.type)
            raise ValueError(f"{name}: P must have shape {FORMS}; received {shape}")
        return P

    def _checked_index(self, index, matrices, drawn):
        where = f"{self.name}: index"
        if index is None:
            return None
        if matrices.type.ndim != 3:
            raise ValueError(
                f"{where} says which of the matrices of a P of shape (G, L, L) leads to each time, "
                f"received a P of {matrices.type.ndim} dimensions"
            )
        values = None
        if not isinstance(index, Variable):
            values = np.asarray(index)
            index = pt.constant(values)
        if index.type.dtype.startswith(("float", "complex", "bool")):
            raise TypeError(f"{where} must be integers, received dtype {index.type.dtype}")
        if index.type.ndim not in (1, 2):
            raise ValueError(
                f"{where} must have shape (T,) or (n_sequences, T), received {index.type.ndim} "
                "dimensions"
            )
        values = index.get_value(borrow=True) if hasattr(index, "get_value") else values
        if values is not None and drawn is not None and values.size:
            low, high = values.min(), values.max()
            if low < 0 or high >= len(drawn):
                raise ValueError(
                    f"{where} must be 0 to {len(drawn) - 1}, a number for each of the matrices of "
                    f"P, received {low} to {high}"
                )
        return index.astype("int64")

    def _checked_initial(self, initial, matrices, drawn):
        L, where = self.n_states, f"{self.name}: initial"
        if initial is None:
            return pt.constant(np.full(L, 1.0 / L))
        if isinstance(initial, str):
            if initial != "stationary":
                raise ValueError(
                    f'{where} must be probabilities of shape ({L},) or "stationary", received '
                    f"{initial!r}"
                )
            if matrices.type.ndim != 2:
                raise ValueError(
                    f'{where}="stationary" is for a P that is the same at all times, received one '
                    f"of {matrices.type.ndim} dimensions; give the probabilities"
                )
            if drawn is not None and not connected(drawn > 0.0):
                raise ValueError(
                    f'{where}="stationary" is for a P under which every state leads to every '
                    "other; states that a path leaves for ever have no stationary probability. "
                    "Give the probabilities"
                )
            return stationary_distribution(matrices)
        if not isinstance(initial, Variable):
            initial = pt.constant(np.asarray(initial, dtype="float64"))
        if initial.type.ndim != 1 or initial.type.shape[0] not in (None, L):
            raise ValueError(f"{where} must have shape ({L},), received {initial.type.shape}")
        if isinstance(initial, Constant):
            self._check_rows("initial", initial.data[None, None])
        return initial

    def _check_rows(self, argument, rows):
        g, j = first_wrong_row(rows)
        if g >= 0:
            found = describe_wrong_row(rows, g, j)
            raise ValueError(
                f"{self.name}: {argument} must be probabilities that sum to one"
                f"{' in each row' if argument == 'P' else ''}, received {found}; write them with "
                "pm.math.softmax(..., axis=-1) or as pm.Dirichlet"
            )


def _drawn(matrices):
    """Draw from the prior of P, whose zeros are those of any draw; None where there is no draw."""
    try:
        return np.asarray(pm.draw(matrices, random_seed=0, mode="FAST_COMPILE"), "float64")
    except NotImplementedError:  # of pm.Flat, say
        return None


def connected(possible):
    """Whether every state leads to every other, by a matrix of what is possible."""
    reach = possible | np.eye(len(possible), dtype=bool)
    for _ in range(len(possible)):
        reach = (reach.astype(int) @ reach) > 0
    return bool(reach.all())


def stationary_distribution(P: TensorVariable) -> TensorVariable:
    """Solve pi P = pi, sum(pi) = 1: pi (I - P + 1 1') = 1', whose matrix is regular.

    Parameters
    ----------
    P : tensor of shape (L, L)

    Returns
    -------
    TensorVariable of shape (L,)
    """
    L = P.shape[-1]
    return pt.linalg.solve((pt.eye(L) - P + 1.0).T, pt.ones(L))
