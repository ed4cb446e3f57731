"""Behaviour: which movements does it consist of, and which of three priors says so best?

    python examples/behaviour.py                     # simulated data like the paper's video
    python examples/behaviour.py path/to/file.npz    # yt_train and yt_test

The arrays have shape (trials, frames, channels); trials of different lengths are arrays of
objects, each (frames, channels); the paper's recording is not ours to pass on. Channels are
standardised, as in the paper. A parametric autoregressive hidden Markov model is fitted first, and
its segmentation is where the disentangled, the sticky and the plain HDP-HMM start. Prints the
log-likelihood of the test trials, the number of states and the medians of the hyperparameters;
saves the paper's figure: a trial with the states of the parametric and of the disentangled model,
the held-out log-likelihoods and the transition matrix.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from switching_var import simulate
from three_models import add_options, fit_all, sample

import pymc_dshdp as dshdp
from pymc_dshdp.plots.style import COLOURS, state_colours

HERE = Path(__file__).parent
WORDS = {"DS": "the disentangled", "sticky": "the sticky", "HDP": "the plain"}
TRAINING_TRIALS, TEST_TRIALS, FRAMES = 16, 12, 189


class Trials(NamedTuple):
    """Trials end to end, (T, channels), and their lengths."""

    y: np.ndarray
    lengths: list


def joined(name, trials):
    """Lay trials of any lengths end to end."""
    trials = [np.asarray(y, dtype="float64") for y in trials]
    shapes = {y.shape[1:] for y in trials}
    if len(shapes) != 1 or len(shapes.pop()) != 1:
        raise SystemExit(
            f"{name} must hold trials of shape (frames, channels) with the same channels, "
            f"received shapes {[y.shape for y in trials[:5]]}"
        )
    return Trials(np.concatenate(trials), [len(y) for y in trials])


def load(path, trusted):
    """Read training and test trials."""
    with np.load(path, allow_pickle=trusted) as arrays:
        missing = {"yt_train", "yt_test"} - set(arrays.files)
        if missing:
            raise SystemExit(f"{path} lacks the arrays {sorted(missing)}; it has {arrays.files}")
        try:
            return [joined(name, arrays[name]) for name in ("yt_train", "yt_test")]
        except ValueError as error:
            raise SystemExit(
                f"{path} holds arrays of objects, which can run code when they are read; if you "
                "trust the file, add --trust-file"
            ) from error


def simulated(seed):
    """Simulate training and test trials from the same states, of very different persistence."""
    rng = np.random.default_rng(seed)
    trials = TRAINING_TRIALS + TEST_TRIALS
    _, y = simulate(rng, trials, FRAMES, persistence=(0.5, 0.98), offset=0.0)
    return joined("train", y[:TRAINING_TRIALS]), joined("test", y[TRAINING_TRIALS:])


def standardised(train, test):
    """Both by the means and standard deviations of the training data."""
    mean, sd = train.y.mean(axis=0), train.y.std(axis=0)
    return [trials._replace(y=(trials.y - mean) / sd) for trials in (train, test)]


def declaration(train, lags):
    """Return a function that declares the model, its prior set by the training data."""
    channels = train.y.shape[1]
    S0 = 0.75 * np.cov(train.y.T, bias=True).reshape(channels, channels)

    def declare(prior, trials, n_states, initial_states=None):
        coords = {"state": np.arange(n_states), "channel": np.arange(channels)}
        with pm.Model(coords=coords) as model:
            hmm = prior("hmm", dims="state")
            z = dshdp.HiddenStates("z", hmm, lengths=trials.lengths, initial_states=initial_states)
            A, Sigma = dshdp.MatrixNormalInverseWishart(
                "ar", S0=S0, lags=lags, dims=("state", "channel")
            )
            dshdp.SwitchingVAR("y", A, Sigma, z, observed=trials.y, lags=lags)
        return model

    return declare


def parametric_path(declare, train, options):
    """Segment the training data by a parametric ARHMM: the consensus of its draws."""
    model = declare(dshdp.FixedTransitions, train, options.parametric_states)
    settings = argparse.Namespace(**vars(options) | {"chains": 1})
    aligned = dshdp.align(sample(model, settings))
    return aligned["alignment"]["z_consensus"].values


def figure(fits, parametric, train, path):
    """Draw the states of one trial, the scores, the self-persistence and the transitions."""
    aligned = dshdp.align(fits["DS"].idata)
    found = aligned["alignment"]["z_consensus"].values
    first = slice(train.lengths[0])
    plt.rcParams["font.size"] = 8
    fig = plt.figure(figsize=(10, 6), layout="constrained")
    grid = fig.add_gridspec(3, 3, height_ratios=(1, 1, 1.5))
    matched = dshdp.align_to(parametric, found)
    colours = state_colours(max(matched.max(), found.max()) + 1)
    for row, (title, states) in enumerate({"parametric": matched, "DS": found}.items()):
        axis = fig.add_subplot(grid[row, :])
        trial_states, y = states[first], train.y[first]
        step = 3.0 * y.std()
        axis.imshow(
            colours[trial_states][None],
            aspect="auto",
            alpha=0.6,
            extent=(-0.5, len(y) - 0.5, -step, step * y.shape[1]),
            interpolation="nearest",
        )
        axis.plot(y + step * np.arange(y.shape[1]), color="k", lw=0.7)
        switches = np.count_nonzero(np.diff(trial_states))
        axis.set(yticks=[], title=f"{title}: {len(np.unique(states))} states, {switches} switches")
    axis.set_xlabel("frame of the first trial")
    axis = fig.add_subplot(grid[2, 0])
    for (name, fit), colour in zip(fits.items(), COLOURS, strict=False):
        axis.hist(fit.held_out["total"].values.ravel(), 20, color=colour, alpha=0.6, label=name)
    axis.set(title="held-out log-likelihood", yticks=[])
    axis.locator_params(axis="x", nbins=4)
    axis.legend(frameon=False)
    axis = dshdp.plot_transitions(aligned, ax=fig.add_subplot(grid[2, 1]))
    for number in axis.texts:
        number.remove()  # there is no room for them
    axis = fig.add_subplot(grid[2, 2])
    for h, colour in zip(("alpha", "rho1", "rho2"), COLOURS, strict=False):
        draws = np.log10(fits["DS"].idata.posterior[f"hmm_{h}"].values.ravel())
        axis.hist(draws, 30, color=colour, alpha=0.6, label=h)
    axis.set(title="hyperparameters of DS", xlabel="log10", yticks=[])
    axis.legend(frameon=False)
    fig.savefig(path, dpi=72)
    plt.close(fig)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="the paper: --chains 7 --tune 9000 --draws 1000, on 100 training and 30 test trials",
    )
    parser.add_argument("path", type=Path, nargs="?", help="default: simulated data")
    add_options(parser, n_states=40, draws=150, tune=150)
    parser.add_argument("--parametric-states", type=int, default=32, help="of the ARHMM")
    parser.add_argument("--lags", type=int, default=1)
    parser.add_argument("--trust-file", action="store_true", help="read arrays of objects")
    parser.add_argument("--out", type=Path, default=HERE / "behaviour.png")
    options = parser.parse_args()
    if options.parametric_states > options.n_states:
        parser.error("--parametric-states must be at most --n-states: the others start from them")
    data = load(options.path, options.trust_file) if options.path else simulated(options.seed)
    train, test = standardised(*data)
    print(
        f"{len(train.lengths)} training trials, {len(train.y)} frames in all, {train.y.shape[1]} "
        f"channels; {len(test.lengths)} test trials"
    )
    declare = declaration(train, options.lags)
    parametric = parametric_path(declare, train, options)
    print(f"parametric ARHMM: {len(np.unique(parametric))} of {options.parametric_states} states")
    fits = fit_all(declare, train, test, options, initial_states=parametric)
    states = dshdp.label_invariant(fits["DS"].idata)["n_occupied"].median()
    best = max(fits, key=lambda name: float(fits[name].held_out["total"].mean()))
    print(f"answer: {float(states):.0f} movements, where the parametric model has ", end="")
    print(f"{len(np.unique(parametric))} states; {WORDS[best]} prior predicts the test trials best")
    figure(fits, parametric, train, options.out)
    print(f"saved {options.out}")


if __name__ == "__main__":
    main()
