"""Held-out log-likelihood."""

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from scipy.special import logsumexp

from pymc_dshdp._compat import group
from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.kernels import varying
from pymc_dshdp.kernels.messages import forward_filter
from pymc_dshdp.kernels.transitions import transition_matrix
from pymc_dshdp.loglik import LogLikelihoodTable, terms_involving
from pymc_dshdp.missing import MissingValues
from pymc_dshdp.structure import (
    find_priors,
    has_op,
    logit_node,
    path_lengths,
    point_function,
)

__all__ = ["held_out_log_likelihood"]


def held_out_log_likelihood(test_model, idata, *, states=None, thin=1):
    r"""Log-likelihood of other data under each posterior draw, the hidden path summed out.

    For each draw :math:`\log p(y^\mathrm{test} \mid \theta, P, \pi_\mathrm{init})` by the forward
    algorithm, with that draw's own emission parameters, transition matrix and initial
    distribution; every sequence starts from pi_init and its first observation counts.

    Parameters
    ----------
    test_model : pymc.Model
        The model declared again on the test data, with the same variable names; of any length
        and with any covariates.
    idata : arviz.InferenceData or xarray.DataTree
        Posterior of the model of the training data.
    states : str, optional
        The ``HiddenStates`` variable of ``test_model``, where there are several.
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
        there, or if the likelihood has a latent variable that depends on the states.
    """
    if int(thin) != thin or thin < 1:
        raise ValueError(f"thin must be a positive integer, received {thin!r}")
    prior, z = _chosen(test_model, states)
    posterior = group(idata, "posterior").isel(draw=slice(None, None, int(thin)))
    start = test_model.initial_point()
    missing = MissingValues(test_model, prior.states).rvs
    _refuse_latent(test_model, z, missing)
    table = LogLikelihoodTable(test_model, z, prior.n_states, missing, start)
    lengths = path_lengths(test_model, z, start)
    kappa = point_function([logit_node(test_model, prior.kappa)])
    to_point = _point_builder(test_model, z, prior, missing, posterior, start)

    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    out = np.empty((chains, draws, len(lengths)))
    for c in range(chains):
        for d in range(draws):
            point = to_point(c, d)
            logit = np.asarray(kappa(point)[0], "float64")
            pi_init, pi_bar = point[prior.pi_init.name], point[prior.pi_bar.name]
            ell = table(point)
            if prior.varies:
                rows = varying.kappa_rows(logit, table.shape)
                result = varying.forward_filter(ell, pi_init, pi_bar, rows, lengths)
            else:
                P = transition_matrix(logit, pi_bar)
                result = forward_filter(ell, pi_init, P, lengths)
            _, log_marginal, impossible = result
            if impossible >= 0:
                owner = np.searchsorted(np.cumsum(lengths), impossible, side="right")
                log_marginal = np.where(np.arange(len(lengths)) == owner, -np.inf, log_marginal)
            out[c, d] = log_marginal
    total = out.sum(axis=2)
    coords = {name: posterior[name] for name in ("chain", "draw")}
    return xr.Dataset(
        {
            "log_likelihood": (("chain", "draw", "sequence"), out),
            "total": (("chain", "draw"), total),
            "mean": ((), total.mean()),
            "log_mean_exp": ((), logsumexp(total) - np.log(total.size)),
        },
        coords,
    )


def _chosen(model, states):
    found = {z.name: (prior, z) for prior in find_priors(model) for z in prior.states}
    if states is None and len(found) == 1:
        return next(iter(found.values()))
    if states not in found:
        raise ValueError(
            f"states must name one of the hidden states of the test model, {sorted(found)}; "
            f"received {states!r}"
        )
    return found[states]


def _refuse_latent(model, z, missing):
    for variable, graph in terms_involving(model, z):
        others = {v for v in model.free_RVs if has_op(v, HiddenPathRV) and v is not z}
        values = {model.rvs_to_values[v] for v in others}
        if values & set(ancestors([graph])):
            raise ValueError(
                f"{variable.name!r} depends on the states {sorted(v.name for v in others)} besides "
                f"{z.name!r}; the likelihood with all of them summed out is not computed"
            )
        if variable in model.free_RVs and variable not in missing:
            raise ValueError(
                f"{variable.name!r} is latent and depends on the states {z.name!r}; its value for "
                "the held-out data is not in the posterior, so their likelihood has no closed form"
            )


def _point_builder(model, z, prior, missing, posterior, start):
    """``f(chain, draw) -> point`` with the value variables that the likelihood needs."""
    graphs = [g for v, g in terms_involving(model, z) if v not in missing]
    graphs += [logit_node(model, prior.kappa)]
    graphs += [model.rvs_to_values[v] for v in (prior.pi_bar, prior.pi_init)]
    used = set(ancestors(graphs))
    needed = [
        rv
        for rv in model.free_RVs
        if rv is not z and rv not in missing and model.rvs_to_values[rv] in used
    ]
    forward = {}
    for rv in needed:  # grows by what the bounds of a transform depend on
        if rv.name not in posterior:
            raise ValueError(
                f"{rv.name!r} is not in the posterior (it has {sorted(posterior)}); sample it, "
                "and give the test model the same names"
            )
        transform = model.rvs_to_transforms[rv]
        x = rv.type(name=rv.name)
        graph = x if transform is None else transform.forward(x, *rv.owner.inputs)
        forward[rv] = x, pt.as_tensor(graph)
        bounds = set(ancestors([graph], blockers=model.free_RVs)) & set(model.free_RVs)
        needed += [v for v in bounds if v not in needed]
    natural = {rv: x for rv, (x, _) in forward.items()}
    graphs = clone_replace([graph for _, graph in forward.values()], natural)
    values = [model.rvs_to_values[rv] for rv in needed]
    convert = point_function(graphs, list(natural.values()))
    stored = [posterior[rv.name].values for rv in needed]
    for rv, value, array in zip(needed, values, stored, strict=True):
        expected = rv.type.shape
        if len(expected) != array.ndim - 2 or any(
            e is not None and e != n for e, n in zip(expected, array.shape[2:], strict=False)
        ):
            raise ValueError(
                f"{rv.name!r} has shape {array.shape[2:]} in the posterior and {expected} in the "
                "test model"
            )

    def to_point(chain, draw):
        out = convert(
            start,
            *(np.asarray(a[chain, draw], rv.dtype) for a, rv in zip(stored, needed, strict=True)),
        )
        return {value.name: np.asarray(x) for value, x in zip(values, out, strict=True)}

    return to_point
