"""Distances, held-out likelihood and label-invariant quantities."""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import COUNTS, poisson_model, sample
from scipy import stats

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

TEST = np.array([0, 25, 1, 30, 2])


def test_hamming_distance():
    """Fails if labels are compared without matching, or matched greedily."""
    truth = np.array([0, 0, 0, 1, 1, 2])
    assert dshdp.hamming_distance(np.array([7, 7, 7, 3, 3, 5]), truth) == 0.0
    assert dshdp.hamming_distance(np.zeros(6, int), truth) == pytest.approx(0.5)
    assert dshdp.hamming_distance(np.arange(6), truth) == pytest.approx(0.5)
    # A greedy match takes (0, 0) first, agrees 3 + 0 times and misses (0, 1), (1, 0).
    tricky = np.array([0] * 3 + [0] * 2 + [1] * 2), np.array([0] * 3 + [1] * 2 + [0] * 2)
    assert dshdp.hamming_distance(*tricky) == pytest.approx(3 / 7)
    rng = np.random.default_rng(0)
    draws, truth = rng.integers(4, size=(2, 3, 30)), rng.integers(3, size=30)
    expected = np.empty((2, 3))
    for i, j in np.ndindex(2, 3):
        best = 0
        for image in itertools.permutations(range(4)):
            best = max(best, np.mean(np.array(image)[draws[i, j]] == truth))
        expected[i, j] = 1.0 - best
    np.testing.assert_allclose(dshdp.hamming_distance(draws, truth), expected)
    array = xr.DataArray(draws, dims=("chain", "draw", "time"))
    found = dshdp.hamming_distance(array, truth)
    assert found.dims == ("chain", "draw")
    np.testing.assert_allclose(found, expected)
    batch = xr.DataArray(draws.reshape(2, 3, 6, 5), dims=("chain", "draw", "trial", "time"))
    xr.testing.assert_equal(dshdp.hamming_distance(batch, truth.reshape(6, 5)), found)


def test_align_to():
    truth = np.array([4, 4, 4, 9, 9])
    np.testing.assert_array_equal(
        dshdp.align_to(np.array([[1, 1, 0, 2, 2], [9, 9, 9, 4, 4]]), truth),
        [[4, 4, 10, 9, 9], [4, 4, 4, 9, 9]],
    )


@pytest.mark.parametrize(
    ("z", "truth", "error", "message"),
    [
        (np.zeros(3, int), np.zeros(4, int), ValueError, r"of shape \(4,\); received shape \(3,\)"),
        (np.zeros(4), np.zeros(4, int), TypeError, r"must be an array of integer.*astype\(int"),
        (np.zeros(4, int), np.zeros((2, 4), int), ValueError, "z, the draws, must be those of z_"),
        (xr.Dataset(), np.zeros(4, int), TypeError, r"as idata.posterior\['z'\] is.* Dataset"),
        ({"posterior": 0}, np.zeros(4, int), TypeError, r"as idata.posterior\['z'\] is.* dict"),
        (np.zeros(4, int), np.zeros(0, int), ValueError, r"one path, received shape \(0,\)"),
    ],
)
def test_bad_paths(z, truth, error, message):
    with pytest.raises(error, match=message):
        dshdp.hamming_distance(z, truth)


def declare(counts, lengths):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, lengths=lengths)
        rate = pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=counts)
    return model


def fake_posterior(draws=4):
    """Prior draws in the guise of a posterior."""
    model = declare(COUNTS, [len(COUNTS)])
    prior = pm.sample_prior_predictive(draws, model=model, random_seed=1)["prior"]
    group = prior.to_dataset() if hasattr(prior, "to_dataset") else prior
    return {"posterior": group}


def test_held_out_log_likelihood_sums_over_all_paths():
    """Fails if a sequence starts in state 0, its first observation is left out, or kappa is."""
    result = fake_posterior()
    found = dshdp.held_out_log_likelihood(result, model=declare(TEST, [3, 2]))
    draws = result["posterior"].isel(chain=0)
    for d in range(4):
        kappa, rate = draws["hmm_kappa"].values[d], draws["rate"].values[d]
        P = np.diag(kappa) + (1 - kappa)[:, None] * draws["hmm_pi_bar"].values[d]
        for n, part in enumerate((TEST[:3], TEST[3:])):
            total = 0.0
            for path in itertools.product(range(3), repeat=len(part)):
                p = draws["hmm_pi_init"].values[d][path[0]]
                p *= np.prod([P[a, b] for a, b in itertools.pairwise(path)])
                total += p * np.prod(stats.poisson.pmf(part, rate[list(path)]))
            assert found["log_likelihood"].values[0, d, n] == pytest.approx(np.log(total))
    total = found["log_likelihood"].sum("sequence").values
    np.testing.assert_allclose(found["total"], total)
    assert float(found["log_mean_exp"]) == pytest.approx(np.log(np.exp(total).mean()))
    assert (
        dshdp.held_out_log_likelihood(result, model=declare(TEST, [5]), thin=2).sizes["draw"] == 2
    )


def test_held_out_log_likelihood_does_not_see_labels():
    result = fake_posterior()
    turned = result["posterior"].copy()
    for name in ("hmm_kappa", "hmm_pi_init", "rate"):
        turned[name] = turned[name].copy(data=turned[name].values[..., [2, 0, 1]])
    rows = turned["hmm_pi_bar"].values[..., [2, 0, 1], :][..., [2, 0, 1]]
    turned["hmm_pi_bar"] = turned["hmm_pi_bar"].copy(data=rows)
    model = declare(TEST, [5])
    one = dshdp.held_out_log_likelihood(result, model=model)
    two = dshdp.held_out_log_likelihood({"posterior": turned}, model=model)
    np.testing.assert_allclose(one["total"], two["total"])


def test_held_out_refusals():
    result = fake_posterior()
    with pytest.raises(ValueError, match="'rate' is not in the posterior"):
        without = {"posterior": result["posterior"].drop_vars("rate")}
        dshdp.held_out_log_likelihood(without, model=declare(TEST, [5]))
    with pytest.raises(ValueError, match="thin must be a positive integer, received 0"):
        dshdp.held_out_log_likelihood(result, model=declare(TEST, [5]), thin=0)
    with pytest.raises(ValueError, match="states must name one of the hidden states"):
        dshdp.held_out_log_likelihood(result, model=declare(TEST, [5]), states="w")
    with pm.Model() as latent:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=5)
        rate = pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")
        pm.Poisson("y", pm.math.exp(pm.Normal("x", rate[z], 1.0)), observed=TEST)
    with pytest.raises(ValueError, match="'x' is latent and depends on the states"):
        dshdp.held_out_log_likelihood(result, model=latent)


def test_label_invariant_quantities():
    """Fails if occupied states are counted by the largest label."""
    model = poisson_model(n_states=5)
    with model:
        step = pm.Metropolis([model["rate"]])
    idata = sample(model, step=step, draws=12, tune=5, chains=2)
    found = dshdp.label_invariant(idata)
    z = idata["posterior"]["z"].values
    counted = [[len(np.unique(path)) for path in chain] for chain in z]
    np.testing.assert_array_equal(found["n_occupied"], counted)
    assert {"n_occupied", "log_marginal_likelihood", "hmm_alpha", "hmm_phi"} <= set(found)
    assert all(v.dims == ("chain", "draw") for v in found.data_vars.values())
    with pytest.raises(ValueError, match="states='w' is not in the posterior; it has"):
        dshdp.label_invariant(idata, states="w")
