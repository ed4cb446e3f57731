"""The steps beside PyMC's own: hyperparameters against Slice, two chains, NUTS on a hyperprior."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from families import L, Poisson
from harness import assert_same_means, share_observations, stack
from models import posterior, sample
from reference import monte_carlo_error, path_counts
from scipy import special
from simulators import declare_prior, draw_paths, natural, prior_points, transition_matrices

import pymc_dshdp as dshdp
from pymc_dshdp._compat import begin_chain

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


def successive(shared, steps, start, simulate, sweeps):
    """Geweke's chain: points and data, which the steps read from a shared variable."""
    point, chain, data = start, [], []
    for _ in range(sweeps):
        y = simulate({name: x[None] for name, x in point.items()})
        shared.set_value(np.asarray(y[0], shared.dtype))
        for step in steps:
            point, _ = step.step(point)
        chain.append(point)
        data.append(y[0])
    return stack(chain), np.array(data)


def as_point(model, points):
    start = model.initial_point()
    return {name: np.asarray(points[name][0], x.dtype) for name, x in start.items()}


OFFSETS = {"a": np.array([-1.0, 1.0, -0.5, 0.5]), "b": np.array([1.0, -1.0, 0.5, -0.5])}
PRIORS = {"a": ("ds", "weak-limit"), "b": ("fixed", "given")}
SHORT = 4  # time points, so that the chain moves


@pytest.mark.slow
def test_two_hidden_chains():
    """Geweke's test of paths of two priors, of whose offsets the sum is observed.

    Fails if both tables are computed at the old paths.
    """
    with pm.Model() as model:
        states = {
            name: dshdp.HiddenStates(
                f"z_{name}", declare_prior(*PRIORS[name], name=name), length=SHORT
            )
            for name in OFFSETS
        }
        mean = sum(pt.as_tensor(OFFSETS[name])[z] for name, z in states.items())
        pm.Normal("y", mean, 0.5, observed=np.zeros(SHORT))
    [shared] = share_observations(model).values()
    rng = np.random.default_rng(6)

    def simulate(points):
        mean = sum(OFFSETS[name][points[f"z_{name}"]] for name in OFFSETS)
        return mean + 0.5 * rng.standard_normal(mean.shape)

    def prior(n):
        points = {}
        for name in OFFSETS:
            points |= prior_points(rng, n, *PRIORS[name], name=name)
            values = natural(points, name)
            points[f"z_{name}"] = draw_paths(rng, values, [SHORT])
        return points

    def summary(points, y):
        out = {"data": y.mean(axis=1), "data^2": (y**2).mean(axis=1)}
        for name in OFFSETS:
            values, z = natural(points, name), points[f"z_{name}"].astype(int)
            at = OFFSETS[name][z]
            out |= {
                f"{name}: occupied": [np.unique(path).size for path in z],
                f"{name}: self-transitions": (z[:, 1:] == z[:, :-1]).mean(axis=1),
                f"{name}: P": transition_matrices(values)[np.arange(len(z)), z[:, 0], z[:, -1]],
                f"{name}: offset x data": (at * y).mean(axis=1),
            }
        at = [OFFSETS[name][points[f"z_{name}"]] for name in OFFSETS]
        out["offset x offset"] = (at[0] * at[1]).mean(axis=1)
        return list(out), np.array(list(out.values()), float).T

    with model:
        both = list(states.values())
        steps = [dshdp.WeakLimitFFBS(both), dshdp.GridRhoStep([states["a"]], grid=(6, 6))]
    assert {v for step in steps for v in step.vars} == set(model.value_vars)
    for step, generator in zip(steps, rng.spawn(2), strict=True):
        step.stop_tuning()
        step.rng = generator
    points = prior(20_000)
    names, independent = summary(points, simulate(points))
    chain = successive(shared, steps, as_point(model, prior(1)), simulate, 20_000)
    assert_same_means(names, independent, summary(*chain)[1])


@pytest.mark.slow
@pytest.mark.parametrize("nuts", [pm.NUTS, dshdp.ConditionalNUTS])
def test_hyperprior_of_the_emissions(nuts):
    """Geweke's test of rate_k ~ Gamma(2, b) by ConjugateStep and b ~ Gamma(3, 1) by NUTS.

    Fails if the rates keep the first b.
    """
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", declare_prior("fixed", "given"), length=12)
        b = pm.Gamma("b", 3.0, 1.0)
        rate = pm.Gamma("rate", 2.0, b, shape=(L, 2))
        pm.Poisson("y", rate[z], observed=np.zeros((12, 2), int))
    [shared] = share_observations(model).values()
    rng = np.random.default_rng(8)

    def rates(points):
        return np.exp(points["rate_log__"])[np.arange(len(points["z"]))[:, None], points["z"]]

    def simulate(points):
        return Poisson.simulate(rng, [12], rates(points))

    def prior(n):
        points = prior_points(rng, n, "fixed", "given")
        points["z"] = draw_paths(rng, natural(points), [12])
        scale = rng.gamma(3.0, 1.0, n)
        points["b_log__"] = np.log(scale)
        points["rate_log__"] = np.log(rng.gamma(2.0, 1.0 / scale[:, None, None], (n, L, 2)))
        return points

    def summary(points, y):
        at, log_b = rates(points), points["b_log__"]
        mean = points["rate_log__"].mean(axis=(1, 2))
        out = {
            "log b": log_b,
            "(log b)^2": log_b**2,
            "log rate": mean,
            "log b x log rate": log_b * mean,
            "log of rates in use": np.log(at).mean(axis=(1, 2)),
            "log rate x data": (np.log(at) * np.log1p(y)).mean(axis=(1, 2)),
            "self-transitions": (points["z"][:, 1:] == points["z"][:, :-1]).mean(axis=1),
        }
        return list(out), np.array(list(out.values()), float).T

    with model:
        ours = [dshdp.WeakLimitFFBS([z]), dshdp.ConjugateStep([rate])]
        nuts = nuts([b], compile_kwargs=NUMBA, step_scale=0.25)
    assert [v.name for v in nuts.vars] == ["b_log__"]
    if hasattr(nuts, "setup_chain"):
        nuts.setup_chain(np.random.default_rng(9), 0, 4_000)
    else:
        nuts.set_rng(np.random.default_rng(9))
    for step in [*ours, nuts]:
        step.stop_tuning()
    for step, generator in zip(ours, rng.spawn(2), strict=True):
        step.rng = generator
    points = prior(20_000)
    names, independent = summary(points, simulate(points))
    chain = successive(shared, [*ours, nuts], as_point(model, prior(1)), simulate, 4_000)
    assert_same_means(names, independent, summary(*chain)[1])


@pytest.mark.slow
def test_scale_of_each_state_by_nuts():
    """Geweke's test of sigma_k ~ HalfNormal(tau), tau ~ Gamma(3, 3), with the metric learnt before.

    Fails if the metric looks at sigma, or empty states keep theirs.
    """
    T = 12
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", declare_prior("fixed", "given"), length=T)
        tau = pm.Gamma("tau", 3.0, 3.0)
        sigma = pm.HalfNormal("sigma", tau, shape=L)
        pm.Normal("y", 0.0, sigma[z], observed=np.zeros(T))
    [shared] = share_observations(model).values()
    rng = np.random.default_rng(8)

    def scales(points):
        return np.exp(points["sigma_log__"])[np.arange(len(points["z"]))[:, None], points["z"]]

    def simulate(points):
        at = scales(points)
        return at * rng.standard_normal(at.shape)

    def prior(n):
        points = prior_points(rng, n, "fixed", "given")
        points["z"] = draw_paths(rng, natural(points), [T])
        scale = rng.gamma(3.0, 1.0 / 3.0, n)
        points["tau_log__"] = np.log(scale)
        normal = np.abs(rng.standard_normal((n, L)))
        points["sigma_log__"] = np.log(scale[:, None] * normal)
        return points

    def summary(points, y):
        at, log_tau = np.log(scales(points)), points["tau_log__"]
        mean = points["sigma_log__"].mean(axis=1)
        used = np.array([np.unique(path).size for path in points["z"]])
        out = {
            "log tau": log_tau,
            "(log tau)^2": log_tau**2,
            "log sigma": mean,
            "log tau x log sigma": log_tau * mean,
            "log of sigmas in use": at.mean(axis=1),
            "log sigma x log |data|": (at * np.log1p(np.abs(y))).mean(axis=1),
            "states in use": used,
            "states in use x log sigma": used * mean,
        }
        return list(out), np.array(list(out.values()), float).T

    with model:
        steps = [dshdp.WeakLimitFFBS([z])]
        steps.append(dshdp.ConditionalNUTS([tau, sigma], compile_kwargs=NUMBA))
    begin_chain(steps[1], np.random.default_rng(9), 130, 8_000)
    steps[0].stop_tuning()
    steps[0].rng = np.random.default_rng(10)
    successive(shared, steps, as_point(model, prior(1)), simulate, 130)
    steps[1].stop_tuning()
    names, independent = summary(points := prior(20_000), simulate(points))
    chain = successive(shared, steps, as_point(model, prior(1)), simulate, 8_000)
    assert_same_means(names, independent, summary(*chain)[1])
