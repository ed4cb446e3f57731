"""phi, eta and alpha given the path alone, and what is then drawn of kappa and the rows."""

import numpy as np
import pymc as pm
import pytest
import reference
from models import COUNTS
from numpy.testing import assert_allclose
from scipy.special import expit

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.collapsed_transitions import beta_persistence, log_path_marginal

pytestmark = pytest.mark.usefixtures("python_readers")

PATH = np.repeat([0, 1, 0, 1, 0], 6)
BETA = np.array([0.6, 0.3, 0.1])
CELLS = 14


def declare(case="default"):
    with pm.Model() as model:
        given = {"alpha given": 1.5, "own alpha": pm.LogNormal}.get(case)
        alpha = given("a", 0.0, 0.5) if callable(given) else given
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3, alpha=alpha), length=len(PATH))
        rate = pm.Gamma("rate", 1.0, 0.1, shape=3)
        pm.Poisson("y", rate[z], observed=COUNTS[: len(PATH)])
    return model


def update_of(model):
    with model:
        step = dshdp.GridRhoStep([model["z"]])
    return step._updates[0]


def quadrature(counts, alphas, log_alpha_prior):
    """E of phi, eta, log alpha, and of P_00, P_00^2 and P_01, by midpoints of a grid.

    A further transition from j to k has the probability E P_jk given the path.
    """
    more, twice, other = counts.copy(), counts.copy(), counts.copy()
    more[1, 0] += 1
    twice[1, 0] += 2
    other[1, 1] += 1
    all_counts = (counts, more, twice, other)
    middle = (np.arange(CELLS) + 0.5) / CELLS
    log_weight, values = [], []
    for phi in middle:
        for eta in 2.0 * middle:
            for alpha in alphas:
                base = np.tile(alpha * BETA, (len(counts), 1))
                total = eta**-3.0
                persistence = beta_persistence(phi * total, (1.0 - phi) * total, len(counts) - 1)
                logs = [log_path_marginal(c, base, persistence) for c in all_counts]
                log_weight.append(logs[0] + log_alpha_prior(alpha))
                values.append([phi, eta, np.log(alpha), *np.exp(np.array(logs[1:]) - logs[0])])
    weight = np.exp(np.array(log_weight) - np.max(log_weight))
    return weight @ np.array(values) / weight.sum()


@pytest.mark.parametrize("case", ["default", "own alpha", "alpha given"])
def test_draws_have_their_law_given_the_path(case):
    """Fails if alpha is drawn without the Jacobian of its logarithm, or rows stay as they were."""
    model = declare(case)
    paths, update = update_of(model)
    point = {**model.initial_point(0), "hmm_beta": BETA, "z": PATH.astype("int8")}
    log_alpha_prior = {
        "default": lambda a: np.log(a) - 0.01 * a,  # on the logarithm
        "own alpha": lambda a: -0.5 * (np.log(a) / 0.5) ** 2,
        "alpha given": lambda a: 0.0 if a == 1.5 else -np.inf,
    }[case]
    at = np.array([1.5]) if case == "alpha given" else np.exp(np.linspace(-6.0, 9.0, 16))
    expected = quadrature(paths.counts(point), at, log_alpha_prior)
    rng, found = np.random.default_rng(1), []
    for _ in range(1_200):
        point = update._marginal(point, paths, rng)
        phi, eta, alpha = update._marginal._hyper.read(point)
        kappa, rows = expit(point["hmm_kappa_logodds__"]), point["hmm_pi_bar"]
        P = np.diag(kappa) + (1.0 - kappa[:, None]) * rows
        found.append([phi, eta, np.log(alpha), P[0, 0], P[0, 0] ** 2, P[0, 1]])
    found = np.array(found)
    for x, mean in zip(found.T, expected, strict=True):
        if x.std() > 0.0:
            error = reference.monte_carlo_error(x)
            assert abs(x.mean() - mean) < 4.0 * error + 0.003 * abs(mean)


@pytest.mark.parametrize("case", ["default", "alpha given"])
def test_the_kernel_draws_as_its_plain_twin(case):
    """Fails if a slice of the kernel has another height, interval or density."""
    model = declare(case)
    paths, update = update_of(model)
    point = {**model.initial_point(0), "hmm_beta": BETA, "z": PATH.astype("int8")}
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    update._marginal._log_prior = lambda point, x: [-0.01 * x]  # Gamma(1, 0.01)
    for _ in range(300):
        new, update._marginal._closed = update._marginal(point, paths, one), False
        plain, update._marginal._closed = update._marginal(point, paths, two), True
        for name in new:
            assert_allclose(new[name], plain[name], rtol=1e-8)
        assert one.bit_generator.state == two.bit_generator.state
        point = plain


def test_rows_are_left_alone_where_they_are_not_the_priors_own():
    """And under the prior that is the grid's midpoints, which no slice knows."""
    model = declare()
    with model:
        midpoints = dshdp.GridRhoStep([model["z"]], refine=False)
    point = model.initial_point(0)
    new, _ = midpoints.step(point)
    assert np.array_equal(new["hmm_pi_bar"], point["hmm_pi_bar"])
    with model:
        pm.Potential("own", -model["hmm_pi_bar"][0, 0])
        watched = dshdp.GridRhoStep([model["z"]])
    new, _ = watched.step(point)
    assert np.array_equal(new["hmm_pi_bar"], point["hmm_pi_bar"])


def test_a_start_through_states_without_weight_is_passed_over():
    """Fails if the slice begins where there is no density."""
    model = declare()
    paths, update = update_of(model)
    point = {**model.initial_point(0), "hmm_beta": np.array([1.0, 0.0, 0.0])}
    point["z"] = PATH.astype("int8")
    assert update._marginal(point, paths, np.random.default_rng(1)) is point
