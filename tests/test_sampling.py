"""Whole runs: a recovered segmentation, and priors of the user's own reproduced without data."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from models import COUNTS, FAST, SEGMENTS, poisson_model, posterior, sample

import pymc_dshdp as dshdp
from pymc_dshdp.transitions import find_transitions

pytestmark = pytest.mark.usefixtures("python_mode")

SWEEPS, BATCHES, Z_LIMIT = 1000, 25, 4.5


def test_clear_segments_are_found_by_every_chain():
    model = poisson_model(n_states=6)
    with model:
        step = pm.Metropolis([model["rate"]])
    idata = sample(model, step=step, draws=40, tune=150, chains=4)
    draws = posterior(idata)
    same = SEGMENTS[:, None] == SEGMENTS
    level = np.array([COUNTS[SEGMENTS == k].mean() for k in range(3)])[SEGMENTS]
    for chain in range(4):
        z = draws["z"][chain].astype(int)
        together = np.mean(z[:, :, None] == z[:, None, :], axis=0)
        assert np.abs(together - same).mean() < 0.12
        assert together[~same].max() < 0.2
        rate = np.take_along_axis(draws["rate"][chain], z, axis=1).mean(axis=0)
        assert np.all(np.abs(rate - level) < 5.0 * np.sqrt(level / 6))
        assert 3 <= np.median([len(np.unique(path)) for path in z]) <= 5
    assert np.all(draws["hmm_gamma"] > 0) and draws["hmm_alpha"].std() > 0
    names = ("hmm_rho1", "hmm_rho2")
    rho = [
        draws["hmm_phi"] * draws["hmm_eta"] ** -3,
        (1 - draws["hmm_phi"]) * draws["hmm_eta"] ** -3,
    ]
    for name, expected in zip(names, rho, strict=True):
        np.testing.assert_allclose(draws[name], expected)


# -- the joint prior ----------------------------------------------------------------------------


def default():
    return {}, []


def alpha_half_normal():
    return {"alpha": pm.HalfNormal("alpha", 3.0)}, []


def alpha_exponential():
    return {"alpha": pm.Exponential("alpha", 0.5)}, []


def gamma_lognormal():
    return {"gamma": pm.LogNormal("gamma", 0.5, 0.8)}, []


def alpha_hierarchical():
    rate = pm.LogNormal("rate_of_alpha", 0.0, 0.7)
    return {"alpha": pm.Gamma("alpha", 2.0, rate)}, [rate]


def gamma_hierarchical_scale():
    scale = pm.LogNormal("scale_of_gamma", 0.0, 0.7)
    return {"gamma": pm.HalfNormal("gamma", scale)}, [scale]


def phi_beta():
    return {"phi": pm.Beta("phi", 4.0, 2.0)}, []


def phi_narrow():
    return {"phi": pm.Uniform("phi", 0.99, 1.0), "eta": 0.8}, []


def eta_uniform():
    return {"eta": pm.Uniform("eta", 0.2, 1.5)}, []


def eta_fixed():
    return {"eta": 0.7}, []


def kappa_beta():
    return {"kappa": pm.Beta("kappa", 3.0, 2.0, shape=3)}, []


def kappa_logit_normal():
    return {"kappa": pm.LogitNormal("kappa", 0.5, 1.0, shape=3)}, []


def kappa_fixed():
    return {"kappa": [0.2, 0.5, 0.8]}, []


def rho_pair():
    rho1, rho2 = pm.LogNormal("rho1", 1.0, 0.5), pm.LogNormal("rho2", 0.0, 0.5)
    return {"rho": (rho1, rho2)}, [rho1, rho2]


WEAK, STICKS = "weak-limit", "stick-breaking"
PRIORS = [(default, WEAK), (default, STICKS), (alpha_half_normal, WEAK), (kappa_beta, WEAK)]
SLOW_PRIORS = [
    (gamma_lognormal, WEAK), (gamma_lognormal, STICKS), (alpha_exponential, WEAK),
    (alpha_hierarchical, WEAK), (gamma_hierarchical_scale, WEAK), (phi_narrow, WEAK),
    (phi_beta, WEAK), (eta_fixed, WEAK), (eta_uniform, WEAK), (kappa_fixed, WEAK),
    (kappa_logit_normal, WEAK), (rho_pair, WEAK),
]  # fmt: skip
POSITIVE = (
    "alpha",
    "gamma",
    "rho1",
    "rho2",
    "hmm_alpha",
    "hmm_gamma",
    "rate_of_alpha",
    "scale_of_gamma",
)
IN_UNIT = ("phi", "eta", "kappa", "hmm_phi", "hmm_eta", "hmm_kappa")


def statistics(draws):
    """Moments that do not depend on the labels, of natural-scale draws by name; (draws, S)."""
    out = {}
    for name, values in draws.items():
        if name in POSITIVE:
            out[f"log {name}"] = np.log(values)
            out[f"log^2 {name}"] = np.log(values) ** 2
        elif name in IN_UNIT:
            values = values.reshape(len(values), -1)
            out[name] = values.mean(axis=1)
            out[f"{name}^2"] = (values**2).mean(axis=1)
    z = draws["z"]
    out["occupied"] = np.array([len(np.unique(path)) for path in z], float)
    out["stays"] = (z[:, 1:] == z[:, :-1]).mean(axis=1)
    out["pi_init squared"] = (draws["hmm_pi_init"] ** 2).sum(axis=1)
    out["pi_bar squared"] = (draws["hmm_pi_bar"] ** 2).sum(axis=2).mean(axis=1)
    out["beta squared"] = (draws["hmm_beta"] ** 2).sum(axis=1)
    out["pi_bar and beta"] = (
        (draws["hmm_pi_bar"] * draws["hmm_beta"][:, None]).sum(axis=2).mean(axis=1)
    )
    return out


def transitions(model, others):
    """The documented steps, and Slice on the user's other variables, ready to sample."""
    with model, pytest.warns(UserWarning, match="No likelihood depends on 'z'"):
        steps = [dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))]
    with model:
        [prior] = find_transitions(model)
        if prior.persistence_variables(model):
            steps.append(dshdp.GridRhoStep([model["z"]], rng=np.random.default_rng(2)))
        for i, rv in enumerate(others):
            steps.append(pm.Slice([rv], rng=np.random.default_rng(3 + i)))
    for step in steps:
        step.tune = False
    return steps


def cases(priors, marks=()):
    return [pytest.param(f, w, marks=marks, id=f"{f.__name__}-{w}") for f, w in priors]


@pytest.mark.parametrize(
    ("build", "weights"), [*cases(PRIORS), *cases(SLOW_PRIORS, pytest.mark.slow)]
)
def test_without_data_the_prior_is_reproduced(build, weights):
    """Fails if alpha is not written back, or if kappa is drawn with the old (phi, eta)."""
    with pm.Model() as model:
        arguments, others = build()
        prior = dshdp.DSHDP("hmm", n_states=3, weights=weights, **arguments)
        dshdp.HiddenStates("z", prior, lengths=[5, 7])
    forward = pm.sample_prior_predictive(
        SWEEPS, model=model, random_seed=3, compile_kwargs=dict(FAST)
    )
    forward = {name: forward["prior"][name].values[0] for name in forward["prior"].data_vars}
    independent = statistics(forward)

    outputs = [*model.unobserved_value_vars]
    natural = pytensor.function(model.value_vars, outputs, on_unused_input="ignore", **FAST)
    steps = transitions(model, others)
    point = model.initial_point(random_seed=4)
    chain = {v.name: [] for v in outputs}
    for _ in range(SWEEPS):
        for step in steps:
            point, _ = step.step(point)
        for v, value in zip(outputs, natural(**point), strict=True):
            chain[v.name].append(value)
    dependent = statistics({name: np.array(chain[name]) for name in forward})
    for name, sampled in dependent.items():
        batches = sampled[SWEEPS // 20 :]
        batches = batches[: len(batches) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
        error = np.sqrt(batches.var(ddof=1) / BATCHES + independent[name].var() / SWEEPS)
        gap = batches.mean() - independent[name].mean()
        assert abs(gap) < Z_LIMIT * error + 1e-12, (name, gap / error)
        assert sampled.std() >= 0.3 * independent[name].std(), (name, "does not move")


def test_progress_bar_has_one_column_of_ours(monkeypatch):
    """Fails if columns are added until none can be read at 80 characters."""
    monkeypatch.setenv("COLUMNS", "79")
    assert dshdp.WeakLimitFFBS._progressbar_config(2) == ([], {"n_occupied": [0, 0]})
    monkeypatch.setenv("COLUMNS", "80")
    columns, stats = dshdp.WeakLimitFFBS._progressbar_config(2)
    assert [column.get_table_column().header for column in columns] == ["States"]
    assert stats == {"n_occupied": [0, 0]}
    assert dshdp.GridRhoStep._progressbar_config(2) == ([], {})
