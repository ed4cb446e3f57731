"""Partly labelled data: do the recessions of 25 years tell those of the next 25?

    python examples/labelled.py

Growth of output and change of unemployment in the United States, by quarter, 1959 to 2009,
``dshdp.datasets.economy``. Until 1984 the quarters are labelled, expansion or recession, as the
National Bureau of Economic Research dates them; afterwards nothing is. Known quarters keep their
numbers in all draws, the others are drawn, and states without a label may be found. Prints how many
of the later recessions are told, and what was found that nobody labelled.
"""

import numpy as np
import pandas as pd
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES, LABELLED_UNTIL = 10, "1984Q4"
NAMES = ("expansion", "recession")


def declare(y, known):
    """Declare Normal features in each state, with the known quarters."""
    coords = {"state": np.arange(STATES), "feature": list(y.columns), "quarter": y.index}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="quarter", known=known)
        data = y.to_numpy()
        mu, Sigma = dshdp.NormalInverseWishart("n", data=data, dims=("state", "feature"))
        pm.MvNormal("y", mu[z], Sigma[z], observed=data)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "labelled", arguments)
    table = dshdp.datasets.economy()
    growth = 400.0 * np.log(table["gdp"]).diff()  # % a year
    y = pd.DataFrame({"growth": growth, "unemployment": table["unemployment"].diff()})[1:]
    recession = table["recession"].to_numpy()[1:]
    later = np.asarray(y.index > LABELLED_UNTIL)
    y.index = y.index.astype(str)
    known = {int(t): int(recession[t]) for t in np.flatnonzero(~later)}
    idata = short.fit(declare(y, known), options.quick, draws=2000)
    z, mu = short.flat(idata, "z"), short.flat(idata, "n_mu")
    Sigma = short.flat(idata, "n_Sigma")
    probability = (z[..., None] == np.arange(STATES)).mean(axis=0)
    best = probability.argmax(axis=1)
    new = 2 + int(np.bincount(best[later & (best > 1)], minlength=STATES)[2:].argmax())
    print(f"{len(known)} quarters labelled, {later.sum()} not")
    print("state      growth, % a year       sd                 change of unemployment, points")
    for k, name in ((0, NAMES[0]), (1, NAMES[1]), (new, "no label")):
        at = (z == k).any(axis=1)
        sd = np.sqrt(Sigma[at][:, k, 0, 0])
        print(f"{name:9}  {short.interval(mu[at][:, k, 0]):21}  {short.interval(sd)}  ", end="")
        print(short.interval(mu[at][:, k, 1]))
    told = best == 1
    starts = np.flatnonzero(recession & ~np.r_[False, recession[:-1]] & later)
    found = 0
    for t in starts:
        run = np.arange(t, t + np.argmin(np.r_[recession[t:], False]))
        found += told[run].any()
        share = f"{told[run].sum()} of {len(run)}"
        print(f"recession from {y.index[t]}: {share} quarters told as recession")
    false = np.sum(told & later & ~recession)
    print(f"{false} of {np.sum(later & ~recession)} other quarters told as recession")
    print(short.verdict(idata))
    share = short.between((z[:, later] == new).mean(axis=1), 2)
    print(
        f"answer: {found} of {len(starts)} later recessions are told; nobody labelled a calm ",
        end="",
    )
    print(f"expansion, whose share of the later quarters is {share}")
    fig, (left, right) = short.figure()
    for k, name in ((0, NAMES[0]), (1, NAMES[1]), (new, "no label")):
        at = best == k
        left.scatter(*y.to_numpy()[at & later].T, s=12, color=f"C{min(k, 2)}", label=name)
        left.scatter(
            *y.to_numpy()[at & ~later].T, s=12, facecolor="none", edgecolor=f"C{min(k, 2)}"
        )
    left.set(xlabel="growth, % a year", ylabel="unemployment, change in points")
    left.legend(frameon=False, fontsize=7, title="hollow: labelled", title_fontsize=7)
    years = np.array([int(q[:4]) + (int(q[-1]) - 1) / 4 for q in y.index])
    right.fill_between(
        years, recession, color="0.85", step="post", lw=0.0, label="recession, dated"
    )
    right.plot(years, probability[:, 1], color="C1", lw=1.2, label="P(recession)")
    right.plot(years, probability[:, new], color="C2", lw=1.2, label="P(no label)")
    right.axvline(1985.0, color="black", lw=0.6, ls=":")
    right.set(ylim=(0.0, 1.0), xlabel="year; labelled until the dotted line")
    right.legend(frameon=True, fontsize=7, loc="center left")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
