"""The transition matrix of a result, what follows from it, and their intervals."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from rich.text import Text

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.report import Report, interval, table
from pymc_dshdp.analysis.result import find_prior, state_labels
from pymc_dshdp.analysis.summaries import (
    by_group,
    central_levels,
    each_group,
    of_group,
    quantiles_over,
    transitions_frame,
)
from pymc_dshdp.kernels.segmentations import occupancies
from pymc_dshdp.typing import Result

__all__ = ["TransitionTable", "transition_matrix"]

TOGETHER = 128  # matrices whose entries fit into the cache
HEADINGS = {"stationary": "long run", "expected_dwell": "expected dwell"}


@dataclass(frozen=True, repr=False)
class TransitionTable(Report):
    """Transitions of a result; it prints them, and holds each as a DataFrame.

    States are numbered as by ``align``. What is said of a state is over the draws that occupy it;
    ``lower`` and ``upper`` bound the central interval of probability ``prob``. Where the prior has
    groups, all is said of each of them, and of a state over the draws in which the group occupies
    it.

    Attributes
    ----------
    draws : xarray.DataArray
        P = diag(kappa) + (1 - kappa) pi_bar of all L states, (chain, draw, state, state_to), or
        (chain, draw, group, state, state_to); its average over time where it depends on it.
    transitions : pandas.DataFrame
        ``mean``, ``lower`` and ``upper`` of P between the main states, by (from, to), or (group,
        from, to).
    states : pandas.DataFrame
        A row for each main state, by (group, state) if there are groups: ``stationary``, its share
        of time in the long run, and ``expected_dwell``, 1 / (1 - P_jj), the posterior median with
        ``_lower`` and ``_upper``.
    prob : float
    """

    draws: xr.DataArray
    transitions: pd.DataFrame
    states: pd.DataFrame
    prob: float

    def __rich_console__(self, console, options):
        yield Text(f"intervals of probability {self.prob:g}\n")
        for title, frame in each_group(self.transitions, "Transition matrix"):
            main = frame.index.get_level_values("to").unique()
            cells = interval(*(frame[c] for c in ("mean", "lower", "upper")))
            text = pd.Series(cells, frame.index).unstack("to").loc[main, main]
            text.index.name = "from \\ to"
            yield from table(text, f"{title}, posterior mean", options)
        for title, frame in each_group(self.states, "Main states"):
            columns = {
                heading: interval(*(frame[f"{name}{end}"] for end in ("", "_lower", "_upper")))
                for name, heading in HEADINGS.items()
            }
            yield from table(pd.DataFrame(columns, frame.index), title, options)


def transition_matrix(
    idata: Result, *, states: str | None = None, prob: float | None = None
) -> TransitionTable:
    """Read the transition matrix of a result, with the stationary distribution and dwell times.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been, or the states need
        no alignment.
    states : str, optional
        The hidden-state variable, where there are several.
    prob : float, optional
        Probability of the central intervals. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.

    Returns
    -------
    TransitionTable
        Print it; ``.draws`` has the draws of P.

    Raises
    ------
    ValueError
        If the states or their transitions cannot be found, or ``prob`` is not in (0, 1).

    Notes
    -----
    The stationary distribution solves pi P = pi over all L states. In draws of which some states
    never lead to each other, so that there are several, it is NaN.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dshdp as dshdp
    >>> with pm.Model():
    ...     hmm = dshdp.FixedTransitions("hmm", n_states=2)
    ...     z = dshdp.HiddenStates("z", hmm, length=40)
    ...     y = pm.Normal("y", 5.0 * z, 1.0, observed=5.0 * (np.arange(40) // 10 % 2))
    ...     idata = pm.sample(20, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> dshdp.transition_matrix(idata).draws.sizes["hmm_state_to"]
    2
    """
    prob, level = central_levels(prob)
    idata, hidden = aligned(idata, states)
    prior, posterior = find_prior(idata, hidden), group(idata, "posterior")
    labels = state_labels(posterior, hidden)
    occupied = occupancies(hidden.paths(), hidden.n_states)[0] > 0
    main = np.flatnonzero(occupied.mean(axis=0) >= 0.5)
    matrices, transitions, rows = [], [], []
    for g in range(len(prior.group_labels)):
        own, sizes, _ = of_group(hidden, prior, g)
        matrices.append(own.transition_matrices(np.arange(hidden.n_states)))
        transitions.append(transitions_frame(own, sizes > 0, main, labels[main], level))
        rows.append(_states_frame(matrices[-1], sizes > 0, main, labels[main], level))
    P = np.stack(matrices, axis=1).reshape(prior.pi_bar.shape)
    return TransitionTable(
        draws=prior.pi_bar.copy(data=P).rename("transition_matrix"),
        transitions=by_group(prior, transitions),
        states=by_group(prior, rows),
        prob=prob,
    )


def _states_frame(P, occupied, main, labels, level):
    """Tabulate the long-run share and expected dwell of the main states of (S, L, L) matrices."""
    q = np.array([0.5, *level])
    leave = P.sum(axis=2) - np.diagonal(P, axis1=1, axis2=2)
    with np.errstate(divide="ignore"):
        dwell = 1.0 / quantiles_over(leave[:, main], occupied[:, main], 1.0 - q)
    share = quantiles_over(_stationary(P)[:, main], occupied[:, main], q)
    columns: dict[str, np.ndarray] = {}
    for name, values in (("stationary", share), ("expected_dwell", dwell)):
        columns |= dict(zip((name, f"{name}_lower", f"{name}_upper"), values, strict=True))
    return pd.DataFrame(columns, pd.Index(labels, name="state"))


def _stationary(P):
    """Stationary distributions of (S, L, L) matrices, (S, L); NaN where there are several.

    By elimination without subtractions (Grassmann, Taksar and Heyman): state k is taken out of the
    chain, P_ij + P_ik P_kj / sum_l<k P_kl for i, j < k, and put back in with its share. Only
    transitions between different states are read, so that a state left with a probability of 1e-17
    has its share too, where I - P is singular in floating point. The first state must be one that
    is come back to. NaN also where a state is left for those before it with probability 0 in
    floating point.
    """
    S, L = P.shape[:2]
    one, first = _one_end(P > 0.0)
    order = np.argsort(np.arange(L) != first[:, None], axis=1, kind="stable")
    rows = np.arange(S)[:, None]
    out = np.full((S, L), np.nan)
    for start in range(0, S, TOGETHER):
        of = slice(start, start + TOGETHER)
        A = P[rows[of, :, None], order[of, :, None], order[of, None, :]]
        out[rows[of], order[of]] = _eliminated(np.ascontiguousarray(np.moveaxis(A, 0, -1))).T
    out[~one] = np.nan
    return out


def _eliminated(A):
    """Stationary distributions, (L, S), of (L, L, S) matrices, which are overwritten."""
    L = len(A)
    share = np.ones((L, A.shape[2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(L - 1, 0, -1):
            A[:k, k] /= A[k, :k].sum(axis=0)
            A[:k, :k] += A[:k, k, None] * A[k, None, :k]
        for k in range(1, L):
            share[k] = (share[:k] * A[:k, k]).sum(axis=0)
        return share / share.sum(axis=0)


def _one_end(possible):
    """Whether the states that are always come back to lead to each other, and the first, (S,)."""
    one, first = possible.all(axis=(1, 2)), np.zeros(len(possible), int)
    reach = (possible[~one] | np.eye(possible.shape[1], dtype=bool)).astype(np.float32)
    for _ in range(int(np.ceil(np.log2(possible.shape[1])))):
        reach = (reach @ reach > 0.0).astype(np.float32)
    reach = reach > 0.0
    back = np.swapaxes(reach, 1, 2)
    final = (~reach | back).all(axis=2)
    first[~one] = final.argmax(axis=1)
    one[~one] = (reach | ~final[:, :, None] | ~final[:, None, :]).all(axis=(1, 2))
    return one, first
