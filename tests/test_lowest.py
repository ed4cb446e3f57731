"""From a model to a summary in one go: what every supported set of dependencies must do."""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from models import sample

import pymc_dshdp as dshdp


def test_from_model_to_summary():
    years, counts = dshdp.datasets.earthquakes()
    with pm.Model(coords={"state": np.arange(4), "year": years}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="year")
        rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
    idata = sample(model, draws=50, tune=50)
    aligned = dshdp.align(idata)
    smoothed = dshdp.smooth(aligned, model=model)
    assert smoothed.dims == ("year", "state")
    np.testing.assert_allclose(smoothed.sum("state"), 1.0)
    # the years around 1950 had about twice as many as those around 1990
    shown = str(dshdp.summary(aligned))
    assert "rate" in shown
    rates = (smoothed * aligned["posterior"]["rate"].mean(("chain", "draw"))).sum("state")
    assert rates.sel(year=1950) > 1.4 * rates.sel(year=1990)
    forecast = dshdp.forecast(idata, model=model, horizon=3, random_seed=1)
    assert 3 in forecast["counts"].shape
    dshdp.plot_series(aligned, counts)
    plt.close("all")
