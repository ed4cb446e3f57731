"""The sticky, plain and parametric priors: reproduced without data, and theorem 1."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from models import FAST
from scipy import special, stats
from test_sampling import BATCHES, Z_LIMIT, statistics

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.persistence import log_sticky_marginal

pytestmark = pytest.mark.usefixtures("python_mode")

SWEEPS = 1500
LENGTHS = [5, 7]


def sticky():
    return dshdp.StickyHDP("hmm", n_states=3)


def sticky_by_sticks():
    return dshdp.StickyHDP("hmm", n_states=3, weights="stick-breaking", gamma=1.5)


def sticky_user_priors():
    s, phi = pm.LogNormal("s", 1.0, 0.7), pm.Beta("phi", 2.0, 3.0)
    return dshdp.StickyHDP("hmm", n_states=3, s=s, phi=phi)


def plain():
    return dshdp.HDP("hmm", n_states=3, alpha=pm.Gamma("alpha", 2.0, 1.0))


def plain_by_sticks():
    return dshdp.HDP("hmm", n_states=3, alpha=2.0, weights="stick-breaking")


def parametric():
    return dshdp.FixedTransitions(
        "hmm", n_states=3, concentration=np.eye(3) + 0.5, initial_concentration=[1.0, 2.0, 3.0]
    )


BUILDERS = [
    sticky_by_sticks,
    pytest.param(sticky_user_priors, marks=pytest.mark.slow),
    plain,
    parametric,
    pytest.param(sticky, marks=pytest.mark.slow),
    pytest.param(plain_by_sticks, marks=pytest.mark.slow),
]


def with_more(draws):
    """Add the sticky prior's own parameters, and beta where there is none."""
    draws = {**draws}
    draws.setdefault("hmm_beta", np.full((len(draws["z"]), 3), 1 / 3))
    out = statistics(draws)
    for name in ("hmm_s", "s"):
        if name in draws:
            out[f"log {name}"] = np.log(draws[name])
            out[f"log^2 {name}"] = np.log(draws[name]) ** 2
            stays = np.log(draws["hmm_kappa"].mean(axis=1) + 1e-300)
            out["log s x largest row"] = np.log(draws[name]) * draws["hmm_pi_bar"].max((1, 2))
            out["log s x log kappa"] = np.log(draws[name]) * np.maximum(stays, -20.0)
    return out


@pytest.mark.parametrize("build", BUILDERS)
def test_without_data_the_prior_is_reproduced(build):
    """Fails if the concentrations of pi_init and of pi_bar are exchanged."""
    with pm.Model() as model:
        prior = build()
        dshdp.HiddenStates("z", prior, lengths=LENGTHS)
    forward = pm.sample_prior_predictive(
        SWEEPS, model=model, random_seed=3, compile_kwargs=dict(FAST)
    )
    forward = {name: forward["prior"][name].values[0] for name in forward["prior"].data_vars}
    independent = with_more(forward)
    with model, pytest.warns(UserWarning, match="No likelihood depends on 'z'"):
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))
    step.tune = False
    assert {v.name for v in step.vars} == {v.name for v in model.value_vars}
    outputs = [*model.unobserved_value_vars]
    natural = pytensor.function(model.value_vars, outputs, on_unused_input="ignore", **FAST)
    point = model.initial_point(random_seed=4)
    chain = {v.name: [] for v in outputs}
    for _ in range(SWEEPS):
        point, _ = step.step(point)
        for v, value in zip(outputs, natural(**point), strict=True):
            chain[v.name].append(value)
    dependent = with_more({name: np.array(chain[name]) for name in forward})
    for name, sampled in dependent.items():
        batches = sampled[SWEEPS // 20 :]
        batches = batches[: len(batches) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
        error = np.sqrt(batches.var(ddof=1) / BATCHES + independent[name].var() / SWEEPS)
        gap = batches.mean() - independent[name].mean()
        assert abs(gap) < Z_LIMIT * error + 1e-12, (name, gap / error)


def test_density_of_the_sticky_pair():
    """log p(w, n | phi, s) by SciPy. Fails if the term of alpha, or of kappa, is left out."""
    rng = np.random.default_rng(2)
    beta = np.array([0.5, 0.3, 0.2])
    switches = rng.poisson(1.5, (4, 3))
    W = np.array([0, 4, 9])
    n = switches[1:].sum(axis=1)

    def expected(phi, s):
        rho1, alpha = phi * s, (1.0 - phi) * s
        out = np.sum(special.betaln(rho1 + W, alpha + n) - special.betaln(rho1, alpha))
        for row in switches:
            out += special.gammaln(alpha) - special.gammaln(alpha + row.sum())
            out += np.sum(special.gammaln(alpha * beta + row) - special.gammaln(alpha * beta))
        return out

    for phi, s in ((0.3, 0.7), (0.9, 12.0), (0.5, 300.0)):
        found = log_sticky_marginal(phi, s, W, switches, beta)
        assert found == pytest.approx(expected(phi, s), rel=1e-10)


def test_sticky_rows_are_dirichlet():
    """Theorem 1: rows of P are Dir(alpha beta + kappa0 delta_j). Fails if rho is not tied."""
    L, alpha, kappa0, draws = 4, 2.0, 3.0, 5_000
    beta = np.array([0.1, 0.2, 0.3, 0.4])
    with pm.Model() as model:
        prior = dshdp.StickyHDP("hmm", n_states=L, s=alpha + kappa0, phi=kappa0 / (alpha + kappa0))
    rows = pm.do(model, {"hmm_beta": beta})
    kappa, pi_bar = pm.draw(
        [rows["hmm_kappa"], rows["hmm_pi_bar"]], draws=draws, random_seed=5, **FAST
    )
    P = kappa[:, :, None] * np.eye(L) + (1.0 - kappa[:, :, None]) * pi_bar
    for j in range(L):
        concentration = alpha * beta + kappa0 * (np.arange(L) == j)
        for k in range(L):
            marginal = stats.beta(concentration[k], concentration.sum() - concentration[k])
            assert stats.kstest(P[:, j, k], marginal.cdf).pvalue > 1e-4
        np.testing.assert_allclose(
            np.cov(P[:, j].T), stats.dirichlet(concentration).cov(), atol=0.003
        )
    assert prior.alpha.eval() == pytest.approx(alpha)


def test_density_of_sticky_rows():
    """Theorem 1 by densities: that of row j of P, kappa integrated out by quadrature.

    A row x is kappa delta_j + (1 - kappa) pi_bar, so that its density is the integral over kappa
    in (0, x_j) of p(kappa) p(pi_bar = (x - kappa delta_j) / (1 - kappa)) (1 - kappa)^-(L - 1).
    Fails if kappa ~ Beta(alpha, kappa0), or if the rows get the weight kappa0 too.
    """
    L, alpha, kappa0 = 4, 20.0, 3.0
    beta = np.array([0.2, 0.2, 0.3, 0.3])
    with pm.Model() as model:
        dshdp.StickyHDP("hmm", n_states=L, s=alpha + kappa0, phi=kappa0 / (alpha + kappa0))
    point = {v.name: v for v in model.value_vars}
    names = ("hmm_kappa_logodds__", "hmm_pi_bar", "hmm_beta")
    terms = model.logp(vars=[model["hmm_kappa"], model["hmm_pi_bar"]], sum=False, jacobian=False)
    density = pytensor.function([point[n] for n in names], terms, **FAST)
    nodes, weights = np.polynomial.legendre.leggauss(10)  # exact: a polynomial
    rng = np.random.default_rng(12)
    rows = rng.dirichlet(np.ones(L), size=L)
    integral = np.zeros(L)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        kappa = node * np.diag(rows)
        pi_bar = (rows - np.diag(kappa)) / (1 - kappa[:, None])
        of_kappa, of_rows = density(special.logit(kappa), pi_bar, beta)
        jacobian = -(L - 1) * np.log1p(-kappa)
        integral += weight * np.diag(rows) * np.exp(of_kappa + of_rows + jacobian)
    for j in range(L):
        expected = stats.dirichlet(alpha * beta + kappa0 * (np.arange(L) == j)).logpdf(rows[j])
        assert np.log(integral[j]) == pytest.approx(expected, abs=1e-10)


def test_hdp_is_the_limit_of_no_self_persistence():
    """As rho1 -> 0, kappa becomes 0 and the path density of DSHDP that of HDP.

    Fails if rho1 and rho2 change places.
    """
    with pm.Model():
        prior = dshdp.DSHDP("hmm", n_states=3, rho=(1e-9, 2.0))
    assert pm.draw(prior.kappa, draws=200, random_seed=6, **FAST).max() < 1e-13
    path = np.array([0, 0, 1, 2, 2, 0], "int8")
    logps = []
    for build in (
        lambda: dshdp.DSHDP("hmm", n_states=3, kappa=1e-13),
        lambda: dshdp.HDP("hmm", n_states=3),
    ):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", build(), length=6)
        point = model.initial_point() | {"z": path}
        point["hmm_pi_bar"] = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
        density = pytensor.function(
            model.value_vars, model.logp(vars=[z]), on_unused_input="ignore", **FAST
        )
        logps.append(float(density(**point)))
    assert logps[0] == pytest.approx(logps[1], abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"concentration": -1.0},
            r"hmm: concentration must be finite and not negative, received -1.0",
        ),
        ({"concentration": [[1.0, 0.0, 0.0], [0.0] * 3, [1.0] * 3]}, "a state to go to, .* row 1"),
        ({"initial_concentration": [0.0, 0.0, 0.0]}, "received zeros in all of them"),
        (
            {"concentration": np.ones((2, 3))},
            r"concentration must be a scalar or an array that fits",
        ),
    ],
)
def test_bad_concentrations(arguments, message):
    with pm.Model(), pytest.raises(ValueError, match=message):
        dshdp.FixedTransitions("hmm", n_states=3, **arguments)


def test_grid_step_has_nothing_to_sample():
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.StickyHDP("hmm", n_states=3), length=4)
        with pytest.raises(ValueError, match="nothing to sample; leave the step out"):
            dshdp.GridRhoStep([z])


def test_sticky_prior_of_given_concentrations():
    """Rows Dir(alpha beta + kappa0 delta_j); fails if the two change places."""
    with pm.Model() as model:
        prior = dshdp.StickyHDP("hmm", n_states=3, alpha=2.0, kappa0=6.0)
    values = [float(v.eval()) for v in (prior.s, prior.phi, prior.alpha, *prior.rho)]
    np.testing.assert_allclose(values, [8.0, 0.75, 2.0, 6.0, 2.0])
    assert "hmm_s" not in model.named_vars and "hmm_phi" not in model.named_vars
    wrong = [
        ({"alpha": 1.0}, ValueError, "give alpha and kappa0, or s and phi; received alpha=1.0"),
        (
            {"alpha": 1.0, "kappa0": 1.0, "s": 2.0},
            ValueError,
            "give alpha and kappa0, or s and phi",
        ),
        ({"alpha": 1.0, "kappa0": -1.0}, ValueError, "kappa0 must be positive and finite"),
    ]
    for kwargs, error, message in wrong:
        with pm.Model(), pytest.raises(error, match=message):
            dshdp.StickyHDP("hmm", n_states=3, **kwargs)
    with pm.Model(), pytest.raises(TypeError, match="alpha must be a number, received a; random"):
        dshdp.StickyHDP("hmm", n_states=3, alpha=pm.Gamma("a", 1, 1), kappa0=1.0)
