"""Choices by changing strategies: does a rat in training follow one rule, and if not, when which?

    python examples/choices.py

A rat hears two sounds and goes right where the first was the louder: 14 sessions of its training,
``dshdp.datasets.rat_choices``. The model is a logistic regression in each state (a GLM-HMM): a
bias, a weight for the loudness of each sound and one for the choice before. The number of
strategies is learned, and all coefficients are drawn by exact steps. A strategy is meant to last:
its self-persistence is given a Beta(95, 5), twenty choices or more, without which states also take
turns from choice to choice and mend what a logistic curve cannot follow. Prints the strategies,
how many choices each explains, and how often the rat is right in it.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES = 10
COVARIATES = ["first", "second", "previous"]


def declare(trials):
    """Declare a logistic regression in each state."""
    lengths = trials.groupby("session").size().tolist()
    with pm.Model(coords={"state": np.arange(STATES), "covariate": COVARIATES}) as model:
        x = pm.Data("x", trials[COVARIATES].to_numpy(float))
        prior = dshdp.DSHDP("hmm", dims="state", rho=(95.0, 5.0))
        z = dshdp.HiddenStates("z", prior, lengths=lengths)
        bias = pm.Normal("bias", 0.0, 1.0, dims="state")
        weight = pm.Normal("weight", 0.0, 1.0, dims=("state", "covariate"))
        logit = bias[z] + (weight[z] * x).sum(axis=-1)
        pm.Bernoulli("choice", logit_p=logit, observed=trials["right"])
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "choices", arguments)
    trials = dshdp.datasets.rat_choices()
    idata = short.fit(declare(trials), options.quick, draws=1500)
    z, bias, weight = (short.flat(idata, name) for name in ("z", "bias", "weight"))
    shares = (z[..., None] == np.arange(STATES)).mean(axis=1)
    number = (shares > 0.05).sum(axis=1)
    for n in np.unique(number):
        print(f"P({n} strategies of more than 5% of the choices) = {np.mean(number == n):.2f}")
    probability = (z[..., None] == np.arange(STATES)).mean(axis=0)
    share = probability.mean(axis=0)
    used = np.argsort(-share)[:3]
    rule = trials["right"] == (trials["first"] > trials["second"])
    names = {}
    for k in used:
        b, (_, _, previous) = bias[:, k].mean(), weight[:, k].mean(axis=0)
        name = "repeats" if previous > 0.4 else "biased" if abs(b) > 0.8 else "by the sounds"
        names[k] = name
        right = np.average(rule, weights=probability[:, k])
        print(f"{name}: {100 * share[k]:.0f}% of the choices, {100 * right:.0f}% right")
        print(f"  bias             {short.interval(bias[:, k])}")
        for c, covariate in enumerate(COVARIATES):
            print(f"  weight, {covariate:8}  {short.interval(weight[:, k, c])}")
    by_session = np.stack([probability[trials["session"] == s].mean(axis=0) for s in range(14)])
    print(short.verdict(idata))
    first, last = (names[used[row[used].argmax()]] for row in by_session[[0, -1]])
    print(f"answer: three strategies hold {100 * share[used].sum():.0f}% of the choices; ", end="")
    print(f"the rat begins with '{first}' and ends with '{last}'")
    fig, (left, right) = short.figure()
    places = np.arange(4)
    for n, k in enumerate(used):
        draws = np.c_[bias[:, k], weight[:, k]]
        low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
        bars = [middle - low, high - middle]
        left.errorbar(places + 0.2 * (n - 1), middle, bars, fmt="o", ms=4, label=names[k])
        right.plot(100 * by_session[:, k], marker="o", ms=3, label=names[k])
    left.axhline(0.0, color="black", lw=0.6)
    left.set(xticks=places, xticklabels=["bias", *COVARIATES], ylabel="logit of right")
    left.legend(frameon=False, fontsize=8)
    right.set(xlabel="session, every sixth of the training", ylabel="% of its choices")
    right.set(ylim=(0.0, 100.0))
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
