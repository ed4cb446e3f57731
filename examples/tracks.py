"""The track of an elephant: does it rest longer by day or at night?

    python examples/tracks.py

Twenty days of hourly positions of a bull in Mali, ``dshdp.datasets.elephant``, as step lengths and
turning angles: encamped, steps are short and turn anywhere; on the move, they are long and go
straight on. The probability to stay in a behaviour depends on whether it is night, 18 to 6 o'clock;
steps are gamma and angles von Mises, in each of two behaviours. Prints both behaviours, the hours
until each is left, by day and at night, and how often it is on the move.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

EARTH = 6371.0  # radius in km


def steps(track):
    """Return where it was in km, east + i north, and each step's length, turn and time."""
    east = EARTH * np.radians(track["longitude"]) * np.cos(np.radians(track["latitude"].mean()))
    where = east.to_numpy() + 1j * EARTH * np.radians(track["latitude"].to_numpy())
    move = np.diff(where)
    turn = np.angle(move[1:] / move[:-1])
    return where - where[0], np.abs(move[1:]), turn, track.index[1:-1]


def declare(night, step, angle):
    """Declare two behaviours whose persistence depends on the hour."""
    with pm.Model(coords={"state": ["a", "b"]}) as model:
        dark = pm.Data("dark", night[:, None])
        stay = dshdp.LogisticPersistence(dark, mu=[1.0, 0.0], sigma=1.5)
        prior = dshdp.FixedTransitions("hmm", dims="state", kappa=stay)
        z = dshdp.HiddenStates("z", prior, length=len(step))
        mean = pm.LogNormal("mean", -1.0, 1.5, dims="state")
        spread = pm.LogNormal("spread", -1.5, 1.0, dims="state")
        concentration = pm.LogNormal("concentration", 0.0, 1.5, dims="state")
        pm.Gamma("step", mu=mean[z], sigma=spread[z], observed=step)
        pm.VonMises("angle", 0.0, concentration[z], observed=angle)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "tracks", arguments)
    where, step, angle, times = steps(dshdp.datasets.elephant())
    night = ((times.hour < 6) | (times.hour >= 18)).astype(float)
    idata = short.fit(declare(night, step, angle), options.quick, draws=1000)
    mean, coefficients = short.flat(idata, "mean"), short.flat(idata, "hmm_kappa_coef")
    stay, effect = coefficients[..., 0], coefficients[..., 1]
    pi_bar = short.flat(idata, "hmm_pi_bar")
    order = np.argsort(mean.mean(axis=0))  # encamped first
    moves = short.flat(idata, "z") == order[1]
    names = ("encamped", "on the move")
    hours = {}
    for name, k in zip(names, order, strict=True):
        print(f"{name}: steps of {short.interval(mean[:, k])} km an hour")
        for dark, when in enumerate(("by day", "at night")):
            kappa = 1.0 / (1.0 + np.exp(-stay[:, k] - dark * effect[:, k]))
            hours[name, dark] = 1.0 / ((1.0 - kappa) * (1.0 - pi_bar[:, k, k]))
            print(f"  hours until it is left {when}: {short.interval(hours[name, dark])}")
    for dark, when in enumerate(("by day", "at night")):
        print(
            f"on the move {when}: {short.interval(moves[:, night == dark].mean(axis=1))} of the ",
            end="",
        )
        print("hours")
    print(short.verdict(idata))
    by_day = np.mean(hours["encamped", 0] > hours["encamped", 1])
    rests = [np.median(hours["encamped", dark]) for dark in (0, 1)]
    print(f"answer: it rests longer by day with probability {by_day:.3f}: ", end="")
    print(f"{rests[0]:.0f} hours until it sets out, against {rests[1]:.0f} at night")
    fig, (left, right) = short.figure()
    hour = np.arange(24)
    share = np.array([moves[:, times.hour == h].mean(axis=1) for h in hour])
    low, middle, high = np.quantile(share, [0.05, 0.5, 0.95], axis=1)
    for dusk in (-0.5, 17.5):
        left.axvspan(dusk, dusk + 6.0, color="0.88", lw=0.0)
    left.fill_between(hour, low, high, alpha=0.4, lw=0.0)
    left.plot(hour, middle)
    left.set(xlabel="hour of the day, night grey", ylabel="share on the move", xlim=(-0.5, 23.5))
    left.set(xticks=[0, 6, 12, 18], ylim=(0.0, 1.0))
    right.plot(where.real, where.imag, color="0.8", lw=0.6, zorder=0)
    shown = where[2:]  # where each step ends
    marks = right.scatter(shown.real, shown.imag, c=moves.mean(axis=0), s=6, cmap="coolwarm")
    fig.colorbar(marks, label="P(on the move)")
    right.set(xlabel="km east", ylabel="km north", aspect="equal")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
