"""The track of an animal: does it rest longer at night?

    python examples/tracks.py

Twenty days of hourly step lengths and turning angles are simulated: encamped, steps are short and
turn anywhere; on the move, they are long and go straight on. The probability to stay in a
behaviour depends on the hour; steps are gamma and angles von Mises, in each of two behaviours.
Prints both behaviours and the hours until each is left, by day and at night.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

HOURS = 24 * 20
STEP, SPREAD, CONCENTRATION = np.array([0.1, 1.5]), np.array([0.08, 0.6]), np.array([0.3, 6.0])
STAY = np.array([[0.75, 0.9], [0.96, 0.6]])  # by day, at night; encamped, on the move


def simulate(rng):
    """Draw the behaviour, the steps in km and the angles of each hour."""
    night = ((np.arange(HOURS) % 24) < 6) | ((np.arange(HOURS) % 24) >= 20)
    z = np.zeros(HOURS, int)
    for t in range(1, HOURS):
        z[t] = (z[t - 1] + (rng.random() > STAY[int(night[t]), z[t - 1]])) % 2
    shape = (STEP / SPREAD) ** 2
    step = rng.gamma(shape[z], STEP[z] / shape[z])
    return night.astype(float), z, step, rng.vonmises(0.0, CONCENTRATION[z])


def declare(night, step, angle):
    """Declare two behaviours whose persistence depends on the hour."""
    with pm.Model(coords={"state": ["a", "b"]}) as model:
        dark = pm.Data("dark", night[:, None])
        stay = dshdp.LogisticPersistence(dark, mu=[1.0, 0.0], sigma=1.5)
        prior = dshdp.FixedTransitions("hmm", dims="state", kappa=stay)
        z = dshdp.HiddenStates("z", prior, length=HOURS)
        mean = pm.LogNormal("mean", -1.0, 1.5, dims="state")
        spread = pm.LogNormal("spread", -1.5, 1.0, dims="state")
        concentration = pm.LogNormal("concentration", 0.0, 1.5, dims="state")
        pm.Gamma("step", mu=mean[z], sigma=spread[z], observed=step)
        pm.VonMises("angle", 0.0, concentration[z], observed=angle)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "tracks", arguments)
    night, truth, step, angle = simulate(np.random.default_rng(3))
    idata = short.fit(declare(night, step, angle), options.quick)
    mean, coefficients = short.flat(idata, "mean"), short.flat(idata, "hmm_kappa_coef")
    stay, effect = coefficients[..., 0], coefficients[..., 1]
    pi_bar = short.flat(idata, "hmm_pi_bar")
    order = np.argsort(mean.mean(axis=0))  # encamped first
    names = ("encamped", "on the move")
    hours = {}
    for name, k, true in zip(names, order, STAY.T, strict=True):
        print(f"{name}: steps of {short.interval(mean[:, k])} km")
        for dark, when in enumerate(("by day", "at night")):
            kappa = 1.0 / (1.0 + np.exp(-stay[:, k] - dark * effect[:, k]))
            hours[name, dark] = 1.0 / ((1.0 - kappa) * (1.0 - pi_bar[:, k, k]))
            print(f"  hours until it is left {when}: {short.interval(hours[name, dark])}", end="")
            print(f", truth {1.0 / (1.0 - true[dark]):.2f}")
    moves = (short.flat(idata, "z") == order[1]).mean(axis=0)
    print(f"behaviour told rightly in {100 * np.mean((moves > 0.5) == truth):.0f}% of the hours")
    longer = np.mean(hours["encamped", 1] > hours["encamped", 0])
    rests = [np.median(hours["encamped", dark]) for dark in (1, 0)]
    print(f"answer: it rests longer at night with probability {longer:.3f}: ", end="")
    print(f"{rests[0]:.0f} hours until it leaves, against {rests[1]:.0f} by day")
    fig, (left, right) = short.figure()
    for name, dark in hours:
        where = names.index(name) + 0.3 * dark
        low, middle, high = np.quantile(hours[name, dark], [0.05, 0.5, 0.95])
        bars = [[middle - low], [high - middle]]
        left.errorbar(where, middle, bars, fmt="o", color=("C1", "C0")[dark])
        left.plot(where, 1.0 / (1.0 - STAY[dark, names.index(name)]), "kx")
    left.set(xticks=[0.15, 1.15], xticklabels=names, ylabel="hours until it is left")
    left.set(title="day orange, night blue, truth x", yscale="log")
    ticks = [2, 5, 10, 20, 50]
    left.set_yticks(ticks, [str(tick) for tick in ticks])
    left.set_yticks([], minor=True)
    heading = np.cumsum(angle)
    track = np.cumsum(step * np.exp(1j * heading))
    marks = right.scatter(track.real, track.imag, c=moves, s=6, cmap="coolwarm")
    fig.colorbar(marks, label="P(on the move)")
    right.set(xlabel="km east", ylabel="km north", aspect="equal")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
