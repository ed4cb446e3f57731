"""How many states are there, and what does a prior on their number change?

    python examples/number_of_states.py

One series of 400 counts from three Poisson states is fitted with 10 states by the disentangled
prior, with its ordinary weights and with a mixture of finite mixtures. Prints the posterior
probability of each number of occupied states, and of active states, beside the score of each on a
second series; draws both. ``python -m benchmarks.number_of_states`` is the study behind
``docs/number.md``: more states, lengths, priors, and emissions that are wrong.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

L, TIMES, STAY, RATES = 10, 400, 0.9, np.array([3.0, 12.0, 48.0])
WEIGHTS = {"ordinary": "weak-limit", "mixture": "finite-mixture"}


def simulate(rng):
    """Draw counts of a chain of three states."""
    z = np.zeros(TIMES, int)
    for t in range(1, TIMES):
        stays = rng.random() < STAY
        z[t] = z[t - 1] if stays else (z[t - 1] + rng.integers(1, RATES.size)) % RATES.size
    return rng.poisson(RATES[z])


def declare(weights, y):
    """Declare ten states, more than there are."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L, weights=weights), length=y.size)
        rate = pm.Gamma("rate", 0.5, 0.5 / y.mean(), dims="hmm_state")
        pm.Poisson("y", rate[z], observed=y)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "number_of_states", arguments)
    rng = np.random.default_rng(1)
    y, other = simulate(rng), simulate(rng)
    fig, axes = short.plt.subplots(2, 1, figsize=(8.0, 4.8), layout="constrained", sharex=True)
    print("weights   of states   " + "".join(f"{k:5}" for k in range(2, L + 1)) + "   held out")
    three = {}
    for ax, (name, weights) in zip(axes, WEIGHTS.items(), strict=True):
        model = declare(weights, y)
        idata = short.sample(model, options.quick, draws=1000)
        invariant = dshdp.label_invariant(idata)
        score = dshdp.held_out_log_likelihood(idata, model=model, observed={"y": other}, thin=5)
        numbers = {"occupied": "n_occupied", "active": "hmm_n_active"}
        for what, variable in numbers.items():
            if variable in invariant:
                p = np.bincount(invariant[variable].values.ravel(), minlength=L + 1)
                three[name, what] = p[3] / p.sum()
                said = "".join(f"{x:5.2f}" for x in p[2:] / p.sum())
                tail = f"{float(score['log_mean_exp']):11.1f}" if what == "occupied" else ""
                print(f"{name:9} {what:11} {said}{tail}")
        dshdp.plot_occupied(idata, model=model, ax=ax)
        ax.set_title(f"{name} weights", loc="left")
    before, after = (three[name, "occupied"] for name in WEIGHTS)
    print(
        f"answer: three occupied states have probability {before:.2f}, with a mixture {after:.2f}"
    )
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
