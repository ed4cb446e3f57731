"""Which state, when: smoothed and filtered probabilities, and the most probable path."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.analysis.result import find_hidden, find_prior, read_posterior, state_labels
from pymc_dshdp.kernels import decoding
from pymc_dshdp.kernels.segmentations import votes
from pymc_dshdp.model.context import results_first
from pymc_dshdp.typing import Result

__all__ = [
    "filter_states",
    "self_persistence_probability",
    "smooth",
    "state_probabilities",
    "viterbi",
]


def state_probabilities(idata: Result, *, states: str | None = None) -> xr.DataArray:
    """Estimate smoothed probabilities p(z_t = k | y) by the share of draws with z_t = k.

    States must mean the same in every draw, as they do after aligning the result. ``smooth``
    computes the same probabilities without the noise of the drawn paths.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    xarray.DataArray
        With the dimensions of the states (time, or sequence and time) and, last, that of the
        prior's states; a coordinate ``sequence`` numbers sequences laid end to end.

    Raises
    ------
    TypeError, ValueError
        If the hidden-state variable cannot be found.

    Examples
    --------
    >>> dshdp.state_probabilities(aligned).shape
    (107, 10)
    """
    hidden = find_hidden(idata, states)
    paths = hidden.paths()
    same = np.broadcast_to(np.arange(hidden.n_states), (len(paths), hidden.n_states))
    share = votes(paths, same, hidden.n_states) / len(paths)
    labels = state_labels(read_posterior(idata), hidden)
    return _over_time(hidden, share, "probability", labels)


@results_first
def smooth(
    idata: Result,
    *,
    model: pm.Model | None = None,
    observed: dict[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
    thin: int = 1,
) -> xr.DataArray:
    r"""Compute smoothed probabilities by forward-backward in each draw, averaged over draws.

    The average of :math:`p(z_t = k \mid y, \theta^{(s)}, P^{(s)})` over draws s estimates
    :math:`p(z_t = k \mid y)` without the noise of the drawn paths (Rao-Blackwell). With other
    data it classifies new sequences: parameters stay as the training data left them. States
    must mean the same in every draw, as they do after aligning the result.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        The model of the posterior, or that model declared again on other data. Default: that of
        the context.
    observed : dict, optional
        New sequences by name; see ``held_out_log_likelihood``.
    lengths : sequence of int, optional
        Sequence lengths of ``observed``.
    states : str, optional
        The ``HiddenStates`` variable, where there are several.
    thin : int
        Use every thin-th draw.

    Returns
    -------
    xarray.DataArray
        Probabilities with the dimensions of the states (time, or sequence and time) and, last,
        that of the prior's states; rows sum to one. A coordinate ``sequence`` numbers sequences
        laid end to end. Draws in which a sequence is impossible are left out of its average.

    Raises
    ------
    ValueError
        As ``held_out_log_likelihood``, and if a sequence is impossible in every draw.

    Examples
    --------
    >>> dshdp.smooth(aligned, model=model).shape
    (107, 10)
    >>> dshdp.smooth(aligned, model=model, observed={"counts": [14, 18, 22]}).shape
    (3, 10)
    """
    draws = PosteriorDraws(idata, model, observed, lengths, states, thin, latent=observed is None)
    average = _Average(draws)
    for _, blocks in draws:
        for times, messages in blocks:
            average.add(times, decoding.smooth(*messages))
    return draws.data_array(average.result(), "probability", state=True)


@results_first
def filter_states(
    idata: Result,
    *,
    model: pm.Model | None = None,
    observed: dict[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
    thin: int = 1,
    pointwise: bool = False,
) -> xr.Dataset:
    r"""Compute filtered probabilities and one-step-ahead predictive log-likelihoods.

    In draw s, :math:`p(z_t \mid y_{1..t}, \theta^{(s)})` and
    :math:`\log p(y_t \mid y_{1..t-1}, \theta^{(s)})`, within each sequence.

    The score of time t is the logarithm of the average over draws of the predictive density.
    On data that the draws have not seen this is an honest forecast score: that of a forecaster
    who keeps the posterior of the training data, never looks ahead and names a density of
    :math:`y_t` before seeing it. On the training data it is not: the parameters of every draw
    have seen all of y, so that scores are too high and the filter knows the states' parameters
    from the future; only the states are filtered.

    Parameters
    ----------
    idata, model, observed, lengths, states, thin
        As in ``smooth``.
    pointwise : bool
        Return the predictive log-likelihood of every draw at every time too, which is as large
        as the stored paths, 8 bytes an element.

    Returns
    -------
    xarray.Dataset
        ``probability`` (time, state), the filtered probabilities averaged over draws, and
        ``log_score`` (time), the logarithm of the average predictive density. With ``pointwise``
        ``log_predictive`` (chain, draw, time), whose sum over time is the log-likelihood of the
        draw. -inf from an impossible observation to the end of its sequence.

    Raises
    ------
    ValueError
        As ``held_out_log_likelihood``, and if a sequence is impossible in every draw.

    Examples
    --------
    >>> filtered = dshdp.filter_states(aligned, model=model)
    >>> filtered["log_score"].sizes["year"]
    107
    """
    draws = PosteriorDraws(idata, model, observed, lengths, states, thin)
    average = _Average(draws)
    T = int(draws.lengths.sum())
    total = np.full(T, -np.inf)
    scores = np.empty((*draws.draws_shape, T if pointwise else 0))
    for index, blocks in draws:
        for times, messages in blocks:
            filtered, score = decoding.filter_with_scores(*messages)
            average.add(times, filtered)
            total[times] = np.logaddexp(total[times], score)
            if pointwise:
                scores[index][times] = score
    total -= np.log(np.prod(draws.draws_shape))
    out = {
        "probability": draws.data_array(average.result(), "probability", state=True),
        "log_score": draws.data_array(total, "log_score"),
    }
    if pointwise:
        out["log_predictive"] = draws.data_array(scores, "log_predictive", draws=True)
    return xr.Dataset(out)


@results_first
def viterbi(
    idata: Result,
    *,
    model: pm.Model | None = None,
    observed: dict[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
    thin: int = 1,
) -> xr.DataArray:
    r"""Find the most probable path: the best one of the draw that explains the data best.

    Maximises :math:`\log p(y, z \mid \theta^{(s)}, P^{(s)})` over the paths z, by Viterbi's
    algorithm, and over the draws s. The labels are those of that draw, whose parameters are
    ``idata.posterior.sel(chain=path.chain, draw=path.draw)``, so that no alignment is needed.
    For the path of a draw of your choice, pass a result that has only that draw.

    Parameters
    ----------
    idata, model, observed, lengths, states, thin
        As in ``smooth``.

    Returns
    -------
    xarray.DataArray of int
        With the dimensions of the states. Coordinates ``chain`` and ``draw`` name the draw,
        ``log_joint`` has the maximum, and ``sequence`` numbers sequences laid end to end.

    Raises
    ------
    ValueError
        As ``held_out_log_likelihood``, and if no path is possible in any draw.

    Examples
    --------
    >>> dshdp.viterbi(aligned, model=model).shape
    (107,)
    """
    draws = PosteriorDraws(idata, model, observed, lengths, states, thin, latent=observed is None)
    best: tuple = -np.inf, None, None
    for index, blocks in draws:
        parts = [decoding.most_probable_path(*messages) for _, messages in blocks]
        path, log_joint = (np.concatenate(x) for x in zip(*parts, strict=True))
        if log_joint.sum() > best[0]:
            best = log_joint.sum(), index, path
    if best[1] is None:
        raise ValueError("no path is possible in any draw: an observation has probability 0")
    log_joint, (chain, draw), path = best
    where = {
        "chain": draws.coords["chain"].values[chain],
        "draw": draws.coords["draw"].values[draw],
    }
    return draws.data_array(path, draws.name).assign_coords(log_joint=log_joint, **where)


def self_persistence_probability(idata: Result, *, states: str | None = None) -> xr.DataArray:
    r"""Estimate the probability that a state persisted rather than being chosen anew, E[w_t | y].

    Given a draw the w_t are independent, with :math:`p(w_t = 1) = \kappa_j / (\kappa_j + (1 -
    \kappa_j) \bar\pi_{jj})` where :math:`z_{t-1} = z_t = j` and 0 at a switch; this is averaged
    over draws. It does not depend on how states are numbered.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    xarray.DataArray
        With the dimensions of the states; NaN at the first time of each sequence. Zero for a
        prior without self-persistence.

    Raises
    ------
    TypeError, ValueError
        If the states, the rows or kappa cannot be found, or if kappa varies with time.

    Examples
    --------
    >>> stayed = dshdp.self_persistence_probability(aligned)
    >>> stayed.shape
    (107,)
    """
    hidden = find_hidden(idata, states)
    prior = find_prior(idata, hidden)
    if prior.varies:
        raise ValueError(
            f"the self-persistence of {hidden.name!r} varies with time, and its values are not in "
            "the posterior; only their mean over time is"
        )
    paths = hidden.paths()
    total = np.zeros(paths.shape[1])
    if prior.kappa is not None:
        kappa = prior.kappa.values
        stay = kappa + (1.0 - kappa) * np.diagonal(prior.pi_bar.values, axis1=-2, axis2=-1)
        persist = np.divide(kappa, stay, out=np.zeros_like(kappa), where=kappa > 0.0)
        first = 0 if hidden.groups is None else hidden.groups[1:] * hidden.n_states
        for path, probability in zip(paths, persist.reshape(len(paths), -1), strict=True):
            stays = path[1:] == path[:-1]
            total[1:] += np.where(stays, probability[first + path[1:]], 0.0)
    total[np.cumsum(hidden.lengths) - hidden.lengths] = np.nan
    return _over_time(hidden, total / len(paths), "self_persistence")


class _Average:
    """Average over draws of (T, L) probabilities, sequence by sequence."""

    def __init__(self, draws):
        self._total = np.zeros((draws.lengths.sum(), draws.n_states))
        self._count = np.zeros((draws.lengths.sum(), 1), int)

    def add(self, times, probabilities):
        valid = ~np.isnan(probabilities[:, :1])
        self._count[times] += valid
        self._total[times] += np.where(valid, probabilities, 0.0)

    def result(self):
        never = np.flatnonzero(self._count == 0)
        if never.size:
            raise ValueError(
                f"the sequence of time point {never[0]} has probability 0 in every draw, so that "
                "its states have no distribution; check its observations"
            )
        return self._total / self._count


def _over_time(hidden, values, name, labels=None):
    """Label values over time, (T,) or with the labels of the states (T, L), as the states are."""
    path = hidden.z.isel(chain=0, draw=0, drop=True)
    dims, coords = path.dims, dict(path.coords)
    if path.ndim == 1 and hidden.lengths.size > 1:
        coords["sequence"] = *dims, np.repeat(np.arange(hidden.lengths.size), hidden.lengths)
    if labels is not None:
        dims, coords = (*dims, hidden.dim), {**coords, hidden.dim: labels}
    return xr.DataArray(values.reshape(*path.shape, *values.shape[1:]), coords, dims, name)
