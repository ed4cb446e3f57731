"""Which state, when: smoothed and filtered probabilities, and the most probable path."""

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.analysis.result import find_states
from pymc_dshdp.kernels.decoding import (
    filter_with_scores,
    most_probable_path,
    smooth_backward,
)

__all__ = [
    "filter_states",
    "self_persistence_probability",
    "smooth",
    "state_probabilities",
    "viterbi",
]


def state_probabilities(idata, states=None):
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
    ValueError
        If the hidden-state variable cannot be found.
    """
    name = find_states(idata, states)
    posterior = group(idata, "posterior")
    z = posterior[name]
    dim, labels = _state_axis(posterior, int(z.max()))
    share = [(z == k).mean(("chain", "draw")) for k in range(len(labels))]
    out = xr.concat(share, dim=dim).assign_coords({dim: labels})
    out = out.transpose(..., dim).rename("probability")
    return with_sequences(out, idata, name, axis=-2)


def smooth(model, idata, *, observed=None, lengths=None, states=None, thin=1):
    r"""Compute smoothed probabilities by forward-backward in each draw, averaged over draws.

    The average of :math:`p(z_t = k \mid y, \theta^{(s)}, P^{(s)})` over draws s estimates
    :math:`p(z_t = k \mid y)` without the noise of the drawn paths (Rao-Blackwell). With other
    data it classifies new sequences: parameters stay as the training data left them. States
    must mean the same in every draw, as they do after aligning the result.

    Parameters
    ----------
    model : pymc.Model
        The model of the posterior, or that model declared again on other data.
    idata : arviz.InferenceData or xarray.DataTree
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
    """
    draws = PosteriorDraws(model, idata, observed, lengths, states, thin, latent=observed is None)
    average = _Average(draws)
    for _, table, initial, P in draws:
        filtered, _ = filter_with_scores(table, initial, P, draws.lengths)
        average.add(smooth_backward(filtered, P, draws.lengths))
    return draws.data_array(average.result(), "probability", state=True)


def filter_states(model, idata, *, observed=None, lengths=None, states=None, thin=1):
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
    model, idata, observed, lengths, states, thin
        As in ``smooth``.

    Returns
    -------
    xarray.Dataset
        ``probability`` (time, state), the filtered probabilities averaged over draws;
        ``log_predictive`` (chain, draw, time), whose sum over time is the log-likelihood of the
        draw; ``log_score`` (time), its log-mean-exp over draws. -inf from an impossible
        observation to the end of its sequence.

    Raises
    ------
    ValueError
        As ``held_out_log_likelihood``, and if a sequence is impossible in every draw.
    """
    draws = PosteriorDraws(model, idata, observed, lengths, states, thin)
    average = _Average(draws)
    scores = np.empty((*draws.draws_shape, draws.lengths.sum()))
    for index, table, initial, P in draws:
        filtered, scores[index] = filter_with_scores(table, initial, P, draws.lengths)
        average.add(filtered)
    score = logsumexp(scores, axis=(0, 1)) - np.log(scores.shape[0] * scores.shape[1])
    return xr.Dataset(
        {
            "probability": draws.data_array(average.result(), "probability", state=True),
            "log_predictive": draws.data_array(scores, "log_predictive", draws=True),
            "log_score": draws.data_array(score, "log_score"),
        }
    )


def viterbi(model, idata, *, observed=None, lengths=None, states=None, thin=1):
    r"""Find the most probable path: the best one of the draw that explains the data best.

    Maximises :math:`\log p(y, z \mid \theta^{(s)}, P^{(s)})` over the paths z, by Viterbi's
    algorithm, and over the draws s. The labels are those of that draw, whose parameters are
    ``idata.posterior.sel(chain=path.chain, draw=path.draw)``, so that no alignment is needed.
    For the path of a draw of your choice, pass a result that has only that draw.

    Parameters
    ----------
    model, idata, observed, lengths, states, thin
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
    """
    draws = PosteriorDraws(model, idata, observed, lengths, states, thin, latent=observed is None)
    best = -np.inf, None, None
    for index, table, initial, P in draws:
        with np.errstate(divide="ignore"):
            initial, P = np.log(initial), np.log(P)
        path, log_joint = most_probable_path(table, initial, P, draws.lengths)
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


def self_persistence_probability(idata, *, states=None, prior=None, kappa=None):
    r"""Estimate the probability that a state persisted rather than being chosen anew, E[w_t | y].

    Given a draw the w_t are independent, with :math:`p(w_t = 1) = \kappa_j / (\kappa_j + (1 -
    \kappa_j) \bar\pi_{jj})` where :math:`z_{t-1} = z_t = j` and 0 at a switch; this is averaged
    over draws. It does not depend on how states are numbered.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        The hidden-state variable, where there are several.
    prior : str, optional
        Name of the prior, where there are several.
    kappa : number, array or str, optional
        Self-persistence where it was not sampled as ``prior_kappa``: its fixed value (0 for
        ``HDP``), or the name of the variable.

    Returns
    -------
    xarray.DataArray
        With the dimensions of the states; NaN at the first time of each sequence.

    Raises
    ------
    ValueError
        If the states, the rows or kappa cannot be found.
    """
    name = find_states(idata, states)
    posterior = group(idata, "posterior")
    rows = _rows(posterior, prior)
    z = posterior[name]
    stay = np.diagonal(posterior[rows].values, axis1=-2, axis2=-1)
    kappa = _kappa(posterior, rows.removesuffix("_pi_bar"), kappa, stay.shape)
    with np.errstate(invalid="ignore"):
        persist = np.where(kappa > 0.0, kappa / (kappa + (1.0 - kappa) * stay), 0.0)
    paths = z.values.astype(np.intp)
    total = np.zeros(paths.shape[2:])
    for chain, draw in np.ndindex(paths.shape[:2]):
        path = paths[chain, draw]
        stays = path[..., 1:] == path[..., :-1]
        total[..., 1:] += np.where(stays, persist[chain, draw][path[..., 1:]], 0.0)
    total /= paths.shape[0] * paths.shape[1]
    lengths = sequence_lengths(idata, name, paths.shape[2:])
    if total.ndim == 1:
        total[np.cumsum(lengths) - lengths] = np.nan
    else:
        total[..., 0] = np.nan
    out = z.isel(chain=0, draw=0, drop=True).astype(float).copy(data=total)
    return with_sequences(out.rename("self_persistence"), idata, name, axis=-1)


class _Average:
    """Average over draws of (T, L) probabilities, sequence by sequence."""

    def __init__(self, draws):
        self._total = np.zeros((draws.lengths.sum(), draws.n_states))
        self._count = np.zeros((draws.lengths.sum(), 1), int)

    def add(self, probabilities):
        valid = ~np.isnan(probabilities[:, :1])
        self._count += valid
        self._total += np.where(valid, probabilities, 0.0)

    def result(self):
        never = np.flatnonzero(self._count == 0)
        if never.size:
            raise ValueError(
                f"the sequence of time point {never[0]} has probability 0 in every draw, so that "
                "its states have no distribution; check its observations"
            )
        return self._total / self._count


# -- reading a result -------------------------------------------------------------------------


def sequence_lengths(idata, states, shape):
    """Sequence lengths of a result from its constant data, else one per row of the states."""
    if "constant_data" in idata:
        constant = group(idata, "constant_data")
        if f"{states}_lengths" in constant:
            lengths = constant[f"{states}_lengths"].values.astype(int)
            if lengths.sum() == np.prod(shape):
                return lengths
    return np.full(int(np.prod(shape[:-1])), shape[-1])


def with_sequences(array, idata, states, axis):
    """Add the numbers of sequences laid end to end along the time axis."""
    time = array.dims[axis]
    n_axes = array.ndim + axis + 1
    lengths = sequence_lengths(idata, states, array.shape[:n_axes])
    if n_axes > 1 or lengths.size == 1:
        return array
    return array.assign_coords(sequence=(time, np.repeat(np.arange(lengths.size), lengths)))


def _rows(posterior, prior):
    found = [str(name) for name in posterior if str(name).endswith("_pi_bar")]
    if prior is not None:
        if f"{prior}_pi_bar" not in found:
            raise ValueError(f"prior={prior!r} has no rows in the posterior, which has {found}")
        return f"{prior}_pi_bar"
    if len(found) != 1:
        raise ValueError(f"prior must name one prior; the posterior has the rows {found or 'none'}")
    return found[0]


def _kappa(posterior, prior, kappa, shape):
    name = kappa if isinstance(kappa, str) else f"{prior}_kappa"
    if kappa is None or isinstance(kappa, str):
        if name not in posterior:
            raise ValueError(
                f"{name!r} is not in the posterior; give kappa= as its fixed value (0 for HDP) or "
                "the name of the variable"
            )
        return posterior[name].values
    values = np.asarray(kappa, "float64")
    if values.shape not in {(), shape[-1:]} or not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(
            f"kappa must be in [0, 1] and a number or of shape {shape[-1:]}, received {kappa!r}"
        )
    return np.broadcast_to(values, shape)


def _state_axis(posterior, largest):
    """(dimension, labels) of the states: those of the rows where there is one kind of them."""
    found = {}
    for name, rows in posterior.items():
        if str(name).endswith("_pi_bar") and rows.ndim == 4:
            found[rows.dims[-2]] = rows
    if len(found) == 1:
        [(dim, rows)] = found.items()
        if rows.sizes[dim] > largest:
            return dim, np.asarray(rows[dim])
    return "state", np.arange(largest + 1)
