"""Place cells: do the states of a population, found from its spikes alone, map the maze?

    python examples/places.py

Eight cells of the hippocampus of a mouse in a maze of three arms, and seven head-direction cells
of its thalamus, recorded at once, ``dshdp.datasets.spike_counts``. Place cells fire in bursts, so
that counts of spikes would make states of the sizes of bursts: the model has whether a cell fired
in a half second, with a probability for each state and cell. It knows neither where the mouse is
nor where it faces. Prints how far the mouse is from the middle of the places of its state, and how
far it faces from the mean direction, by the states of either population; and by chance, where
the same states are moved by a minute or more, since a mouse that rests would be near any state of
long stays. ``hippocampus.py`` reads a recording of more cells, with models of their counts.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES, MINUTE = 25, 120
CELLS = {"ca1": "place cells", "adn": "head-direction cells"}


def declare(fired):
    """Declare whether each cell fired, with a probability of each state and cell."""
    with pm.Model(coords={"state": np.arange(STATES), "cell": np.arange(fired.shape[1])}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, length=len(fired))
        p = pm.Beta("p", 0.5, 1.5, dims=("state", "cell"))
        pm.Bernoulli("fired", p[z], observed=fired)
    return model


def cm(a, b):
    """Distances of points of the plane, complex numbers."""
    return np.abs(a - b)


def degrees(a, b):
    """Angles between directions, complex numbers."""
    return np.degrees(np.abs(np.angle(a * np.conj(b))))


def off(z, values, distance):
    """Median distance of values, complex numbers, from the mean of those of their state."""
    sums = np.bincount(z, values.real, STATES) + 1j * np.bincount(z, values.imag, STATES)
    middle = sums / np.maximum(np.bincount(z, minlength=STATES), 1)
    return np.median(distance(values, middle[z]))


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "places", arguments)
    table = dshdp.datasets.spike_counts()
    place = (table["x"] + 1j * table["y"]).to_numpy()
    facing = np.exp(1j * np.radians(table["direction"].to_numpy()))
    shifts = np.linspace(MINUTE, len(table) - MINUTE, 15).astype(int)
    found, states = [], {}
    for area, name in CELLS.items():
        fired = table.filter(like=area).to_numpy() > 0
        idata = short.fit(declare(fired), options.quick, draws=1500)
        states[area] = idata["alignment"]["z_consensus"].values
        occupied = dshdp.label_invariant(idata)["n_occupied"].values.ravel()
        paths = short.flat(idata, "z")[::50]
        print(f"{fired.shape[1]} {name}: {short.interval(occupied)} states")
        tell = []
        for what, values, distance in (("place", place, cm), ("direction", facing, degrees)):
            near = np.mean([off(z, values, distance) for z in paths])
            chance = np.mean([off(np.roll(z, s), values, distance) for z in paths for s in shifts])
            print(f"  {what:9}  {near:.0f} {distance.__name__}, by chance {chance:.0f}")
            tell.append(f"the {what} to {near:.0f} {distance.__name__} (by chance {chance:.0f})")
        print(short.verdict(idata))
        found.append(f"the states of the {name} tell {' and '.join(tell)}")
    print(f"answer: half of the time {'; '.join(found)}")
    fig, (left, right) = short.figure()
    colours = dict(cmap="tab20", s=5, vmin=0, vmax=19)
    left.scatter(place.real, place.imag, c=states["ca1"] % 20, **colours)
    left.set(xlabel="x, cm", ylabel="y, cm", title="where it is, by place cells", aspect="equal")
    some = slice(240, 480)
    time = (table.index - table.index[0])[some]
    right.scatter(time, table["direction"][some], c=states["adn"][some] % 20, **colours)
    right.set(xlabel="time, s", ylabel="direction, degrees")
    right.set_title("where it faces, by head-direction cells")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
