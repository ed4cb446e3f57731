"""Hyperparameter updates against PyMC's own Slice on the collapsed conditional."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from families import L
from models import posterior, sample
from reference import monte_carlo_error, path_counts
from scipy import special

import pymc_dshdp as dshdp

PATH = np.array([0, 0, 0, 1, 1, 2, 0, 0, 1, 1, 1, 1, 0, 2, 2, 1, 3, 3, 0, 0])
LENGTHS = [13, 7]
NUMBA = {"mode": "NUMBA"}


def log_rising(x, n):
    """log Gamma(x + n) / Gamma(x) for an integer n, without the cancellation of two of them."""
    return pt.sum(pt.log(x + np.arange(n)))


def log_urn(counts, base):
    """Log-probability of draws with these counts from a row, the row integrated out."""
    drawn = [log_rising(base[k], counts[k]) for k in np.flatnonzero(counts)]
    return sum(drawn) - log_rising(pt.sum(base), counts.sum())


def log_path(base, rho):
    """log p(z | alpha beta, rho): rows, kappa and w summed out; ``rho`` None for kappa = 0.

    Of row j: log sum_W C(N_jj, W) B(rho1 + W, rho2 + N_j. - W) / B(rho1, rho2) p(n_j | urn),
    where W of the N_jj self-transitions persist and n_j = N_j - W at j.
    """
    counts = path_counts(PATH, LENGTHS, L)
    total = log_urn(counts[0], base)
    for j, row in enumerate(counts[1:]):
        terms = []
        for W in range(row[j] + 1 if rho is not None else 1):
            switches = row - W * (np.arange(L) == j)
            term = log_urn(switches, base)
            if rho is not None:
                term += np.log(special.comb(row[j], W))
                term += log_rising(rho[0], W) + log_rising(rho[1], switches.sum())
                term -= log_rising(rho[0] + rho[1], row.sum())
            terms.append(term)
        total += pt.logsumexp(pt.stack(terms))
    return total


def collapsed_model(prior, weights):
    """Hyperparameters and sticks of the weights, with the path in a Potential."""
    with pm.Model() as model:
        gamma = pm.Gamma("hmm_gamma", 6.0, 2.0)
        # Logits of the sticks, whose density stays finite where a stick rounds to 0 or 1; those
        # of a Dirichlet of gamma / L in the weak limit.
        a, b = pt.ones(L - 1), gamma * pt.ones(L - 1)
        if weights == "weak-limit":
            a, b = gamma / L * a, gamma / L * np.arange(L - 1, 0, -1)
        x = pm.Flat("x", shape=L - 1)
        log_beta = pt.gammaln(a) + pt.gammaln(b) - pt.gammaln(a + b)
        pm.Potential("sticks", -a * pt.softplus(-x) - b * pt.softplus(x) - log_beta)
        before = pt.concatenate([[1.0], pt.exp(-pt.cumsum(pt.softplus(x)))])
        first = pt.concatenate([pt.sigmoid(x), [1.0]])
        beta = pm.Deterministic("hmm_beta", first * before)
        rho = None
        if prior == "sticky":
            s, phi = pm.Gamma("hmm_s", 2.0, 0.5), pm.Uniform("hmm_phi", 0.0, 1.0)
            alpha, rho = (1.0 - phi) * s, (phi * s, (1.0 - phi) * s)
        else:
            alpha = pm.Gamma("hmm_alpha", 2.0, 1.0)
        if prior == "ds":
            phi, eta = pm.Uniform("hmm_phi", 0.0, 1.0), pm.Uniform("hmm_eta", 0.0, 2.0)
            rho = (phi * eta**-3.0, (1.0 - phi) * eta**-3.0)
        pm.Potential("path", log_path(alpha * beta, rho))
    return model


def pinned_model(prior, weights):
    """The prior of the package, with a Potential that allows one path."""
    with pm.Model() as model:
        gamma = pm.Gamma("hmm_gamma", 6.0, 2.0)
        arguments = {"n_states": L, "gamma": gamma, "weights": weights}
        if prior == "sticky":
            prior = dshdp.StickyHDP("hmm", s=pm.Gamma("hmm_s", 2.0, 0.5), **arguments)
        else:
            declare = dshdp.DSHDP if prior == "ds" else dshdp.HDP
            prior = declare("hmm", alpha=pm.Gamma("hmm_alpha", 2.0, 1.0), **arguments)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        pm.Potential("pin", pt.switch(pt.eq(z, PATH), 0.0, -np.inf))
    return model


def hyperparameter_statistics(draws):
    out = {"sum of beta^2": (draws["hmm_beta"] ** 2).sum(axis=-1)}
    for name in ("hmm_gamma", "hmm_alpha", "hmm_s"):
        if name in draws:
            out[f"log {name}"] = np.log(draws[name])
            out[f"(log {name})^2"] = np.log(draws[name]) ** 2
    for name in ("hmm_phi", "hmm_eta"):
        if name in draws:
            out |= {name: draws[name], f"{name}^2": draws[name] ** 2}
    return {name: x[0] for name, x in out.items()}


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["weak-limit", "stick-breaking"])
@pytest.mark.parametrize("prior", ["ds", "sticky", "hdp"])
def test_hyperparameters_agree_with_slice(prior, weights):
    """At a fixed path; fails if gamma follows the infinite model, or rows come before alpha.

    PyMC's Slice sees the conditional with rows, kappa and w summed out, because the density of
    rows that underflowed is no function of alpha.
    """
    length = {"chains": 1, "draws": 2_000, "tune": 100, "compile_kwargs": NUMBA}
    ours = sample(pinned_model(prior, weights), initvals={"z": PATH}, **length)
    collapsed = collapsed_model(prior, weights)
    with collapsed:
        step = pm.Slice(collapsed.value_vars, compile_kwargs=NUMBA)
    theirs = sample(collapsed, step=step, **length)
    assert (posterior(ours)["z"] == PATH).all()
    ours, theirs = (hyperparameter_statistics(posterior(x)) for x in (ours, theirs))
    assert set(theirs) <= set(ours)
    for name, x in theirs.items():
        error = np.hypot(monte_carlo_error(x), monte_carlo_error(ours[name]))
        assert abs(ours[name].mean() - x.mean()) < 4.0 * error, name
