"""Held-out log-likelihood."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import logsumexp

from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.model.context import results_first
from pymc_dshdp.typing import Result

__all__ = ["held_out_log_likelihood"]


@results_first
def held_out_log_likelihood(
    idata: Result,
    *,
    model: pm.Model | None = None,
    observed: dict[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
    thin: int = 1,
) -> xr.Dataset:
    r"""Log-likelihood of other data under each posterior draw, the hidden path summed out.

    For each draw :math:`\log p(y^\mathrm{test} \mid \theta, P, \pi_\mathrm{init})` by the forward
    algorithm, with that draw's own emission parameters, transition probabilities and initial
    distribution; every sequence starts from pi_init and its first observation counts.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Posterior of the model of the training data.
    model : pymc.Model, optional
        Without ``observed``: the model declared again on the test data, with the same variable
        names; of any length, with any covariates and any likelihood. With it: the model of the
        training data. Default: that of the context.
    observed : dict, optional
        Test data by the name of the observed variable or of the ``pm.Data`` that holds it, and
        new values of other ``pm.Data`` (covariates of the likelihood, or of a kappa that varies
        with time). The model itself is left as it is. Everything along the times that the states
        or their observations depend on must be given: the likelihood's parameters are functions of
        ``theta[z]`` and of the ``pm.Data`` given, and a kappa that varies of the latter. Masked
        arrays as in sampling.
    lengths : sequence of int, optional
        Sequence lengths of ``observed``. Default: those of the model, or one sequence.
    states : str, optional
        The ``HiddenStates`` variable of the model, where there are several.
    thin : int
        Use every thin-th draw.

    Returns
    -------
    xarray.Dataset
        ``log_likelihood`` (chain, draw, sequence), ``total`` (chain, draw), and over all draws
        ``mean`` of the total and ``log_mean_exp``, the log posterior predictive density.

    Raises
    ------
    ValueError
        If a variable that the likelihood needs is not in the posterior or has another shape
        there, if the likelihood has a latent variable that depends on the states, or if the
        model cannot be moved to ``observed``; the message says which form to use instead.

    Examples
    --------
    >>> later = {"counts": [14, 18, 22, 15]}
    >>> score = dshdp.held_out_log_likelihood(idata, model=model, observed=later)
    >>> score["total"].dims, score["log_mean_exp"].dims
    (('chain', 'draw'), ())
    """
    draws = PosteriorDraws(idata, model, observed, lengths, states, thin)
    starts = np.cumsum(draws.lengths) - draws.lengths
    out = np.empty((*draws.draws_shape, len(starts)))
    for index, blocks in draws:
        out[index] = np.add.reduceat(draws.log_predictive(blocks), starts)
    total = out.sum(axis=2)
    return xr.Dataset(
        {
            "log_likelihood": (("chain", "draw", "sequence"), out),
            "total": (("chain", "draw"), total),
            "mean": ((), total.mean()),
            "log_mean_exp": ((), logsumexp(total) - np.log(total.size)),
        },
        draws.coords,
    )
