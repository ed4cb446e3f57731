"""Place cells: do the states of a population, found from its spikes alone, map the maze?

    python examples/places.py

A rat walks around a square, four times, at a speed that varies; forty cells fire near a place of
their own, in bins of 100 ms. The model knows the spike counts, not where the rat is. Prints how far
the rat is from the place of its state, and draws the places, and one walk with its states.
``hippocampus.py`` reads the recording of the paper, which is not ours to pass on.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

WALKS, FRAMES, CELLS, SIDE, STATES = 4, 250, 40, 100.0, 30


def around(along):
    """Positions in cm, (..., 2), at distances along the sides of the square."""
    corner = SIDE * np.arange(5)
    x = np.interp(along % (4 * SIDE), corner, SIDE * np.array([0, 1, 1, 0, 0]))
    y = np.interp(along % (4 * SIDE), corner, SIDE * np.array([0, 0, 1, 1, 0]))
    return np.stack([x, y], axis=-1)


def simulate(rng):
    """Draw distances walked, positions and spike counts of the walks."""
    speed = np.repeat(rng.gamma(2.0, 0.8, (WALKS, FRAMES // 10)), 10, axis=1)  # cm a frame
    along = SIDE * np.arange(WALKS)[:, None] + speed.cumsum(axis=1)
    positions = around(along) + 2.0 * rng.normal(size=(WALKS, FRAMES, 2))
    places = around(rng.uniform(0.0, 4 * SIDE, CELLS))
    distance = np.linalg.norm(positions[:, :, None] - places, axis=-1)
    return along, positions, rng.poisson(0.05 + 2.5 * np.exp(-0.5 * (distance / 15.0) ** 2))


def declare(counts):
    """Declare spike counts with a rate of each state and cell."""
    with pm.Model(coords={"state": np.arange(STATES), "cell": np.arange(CELLS)}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, shape=counts.shape[:2])
        rate = pm.Gamma("rate", 1.0, 1.0, dims=("state", "cell"))
        pm.Poisson("counts", rate[z], observed=counts)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "places", arguments)
    along, positions, counts = simulate(np.random.default_rng(2))
    idata = short.fit(declare(counts), options.quick)
    occupied = dshdp.label_invariant(idata)["n_occupied"].values.ravel()
    print(f"number of states: {short.interval(occupied)}")
    near = []
    for z in short.flat(idata, "z")[::20]:
        visits = np.bincount(z.ravel(), minlength=STATES)
        sums = np.stack(
            [np.bincount(z.ravel(), x, STATES) for x in positions.reshape(-1, 2).T], axis=-1
        )
        middle = sums / np.maximum(visits, 1)[:, None]
        near.append(np.median(np.linalg.norm(positions - middle[z], axis=-1)))
    anywhere = np.median(np.linalg.norm(positions - SIDE / 2, axis=-1))
    print(
        f"answer: half of the time the rat is within {np.mean(near):.0f} cm of the middle of ",
        end="",
    )
    print(f"the place of its state, and {anywhere:.0f} cm or more from that of the maze")
    z = idata["alignment"]["z_consensus"].values
    fig, (left, right) = short.figure()
    colours = dict(c=z.ravel() % 20, cmap="tab20", s=5, vmin=0, vmax=19)
    left.scatter(*positions.reshape(-1, 2).T, **colours)
    left.set(xlabel="x, cm", ylabel="y, cm", title="where the rat is, by state", aspect="equal")
    colours |= {"c": z[0] % 20}
    right.scatter(np.arange(FRAMES) / 10, along[0] / 100, **colours)
    right.set(xlabel="time of the first walk, s", ylabel="distance walked, m")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
