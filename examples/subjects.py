"""Several subjects: how long do hasty phases last, and does anybody have more of them?

    python examples/subjects.py

Seconds that fourteen people take to choose between two symbols, ``dshdp.datasets.reaction_times``,
in two sessions each. The two states, usual and hasty, are shared; each session has a level of log
seconds, each person a scatter about it, and pairs that are hard to tell apart take longer. Haste
is meant to last: self-persistence is Beta(95, 5), twenty trials or more, since one quick choice is
scatter. Prints, for each person, the seconds of a usual trial and the share of time in haste.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

PAIRS = ["LL", "WW"]  # beside WL, the easy one


def declare(trials):
    """Declare shared states, a level of each session and a scatter of each person."""
    person = trials["person"].to_numpy()
    session = trials.groupby(["person", "stimulation"], sort=False).ngroup().to_numpy()
    hard = np.column_stack([trials["pair"] == pair for pair in PAIRS]).astype(float)
    coords = {"state": ["usual", "hasty"], "pair": PAIRS}
    coords |= {"person": np.unique(person), "session": np.unique(session)}
    with pm.Model(coords=coords) as model:
        stay = pm.Beta("stay", 95.0, 5.0, dims="state")
        prior = dshdp.FixedTransitions("hmm", dims="state", kappa=stay)
        z = dshdp.HiddenStates("z", prior, lengths=np.bincount(session))
        level = pm.Normal("level", 0.0, 0.5, dims="session")
        scatter = pm.LogNormal("scatter", -1.0, 0.4, dims="person")
        harder = pm.Normal("harder", 0.0, 0.3, dims="pair")
        quicker = pm.HalfNormal("quicker", 1.0)  # in units of the person's scatter
        shift = scatter[person] * pm.math.stack([0.0, -quicker])[z]
        mean = level[session] + (hard * harder).sum(axis=-1) + shift
        pm.Normal("y", mean, scatter[person], observed=np.log(trials["seconds"]))
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "subjects", arguments)
    trials = dshdp.datasets.reaction_times()
    # Not aligned: "usual" and "hasty" differ in the model, so that their numbers mean something.
    idata = short.sample(declare(trials), options.quick, draws=7000)
    hasty = short.flat(idata, "z") == 1
    level = short.flat(idata, "level").reshape(len(hasty), -1, 2)  # both sessions of each person
    people = np.unique(trials["person"])
    share = np.stack([hasty[:, trials["person"] == p].mean(axis=1) for p in people], axis=1)
    print("person  usual seconds, two sessions               share of time hasty")
    for p in people:
        print(f"{p:6d}  {short.interval(np.exp(level[:, p, 0]))}  ", end="")
        print(f"{short.interval(np.exp(level[:, p, 1]))}  {short.interval(share[:, p])}")
    scatter = short.flat(idata, "scatter").mean(axis=1)
    quicker = np.exp(-short.flat(idata, "quicker") * scatter)
    session = trials.groupby(["person", "stimulation"], sort=False).ngroup().to_numpy()
    begins = hasty & np.c_[np.ones(len(hasty), bool), ~hasty[:, :-1] | (np.diff(session) > 0)]
    last = hasty.sum(axis=1) / begins.sum(axis=1)
    better = trials["better"].to_numpy() == 1
    print(f"a hasty phase lasts, trials: {short.interval(last)}")
    print(f"a choice in it takes, of the usual time: {short.interval(quicker)}")
    right = {}
    for name, at in (("hasty", hasty), ("usual", ~hasty)):
        right[name] = (at & better).sum(axis=1) / np.maximum(at.sum(axis=1), 1)
        print(f"the better symbol is chosen, {name}: {short.interval(right[name])}")
    print(short.verdict(idata))
    most = np.bincount(share.argmax(axis=1), minlength=people.size) / len(share)
    good, usual = (100 * np.median(right[name]) for name in ("hasty", "usual"))
    print(f"answer: hasty phases last {short.between(last, 0)} trials, ", end="")
    print(f"with {100 * np.median(quicker):.0f}% of the usual time and choices ", end="")
    print(f"as good ({good:.0f}% against {usual:.0f}%); who has most of them is open: ", end="")
    print(f"person {most.argmax()} with probability {most.max():.2f}")
    fig, (left, axis) = short.figure()
    low, middle, high = np.quantile(share, [0.05, 0.5, 0.95], axis=0)
    left.errorbar(people, middle, [middle - low, high - middle], fmt="o")
    left.set(xlabel="person", ylabel="share of time hasty", ylim=(0.0, 1.0), xticks=people[::2])
    shown = np.flatnonzero((trials["person"] == 13) & (trials["stimulation"] == 0))
    axis.plot(trials["seconds"].to_numpy()[shown], ".", ms=4, color="0.4")
    axis.set(xlabel="trial of person 13, stimulator off", ylabel="seconds of a choice")
    haste = axis.twinx()
    haste.fill_between(range(shown.size), hasty[:, shown].mean(axis=0), alpha=0.3, color="C1", lw=0)
    haste.set(ylabel="P(hasty)", ylim=(0.0, 1.0))
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
