"""Results made by hand: draws of hidden states whose numbers mean nothing."""

import arviz as az
import numpy as np

from pymc_dshdp.transitions.record import StatesRecord

ARVIZ_0 = az.__version__.startswith("0.")


def from_groups(groups, coords=None, dims=None):
    """``arviz.from_dict`` of either generation, from {group: {name: values}}."""
    if ARVIZ_0:
        return az.from_dict(**groups, coords=coords, dims=dims)
    return az.from_dict(groups, coords=coords, dims=dims)


def noisy_copies(truth, shape, n_labels, noise, rng):
    """Paths that differ from the truth at a share of the times, of shape (*shape, T)."""
    z = np.broadcast_to(truth, (*shape, truth.size)).copy()
    wrong = rng.random(z.shape) < noise
    z[wrong] = rng.integers(n_labels, size=wrong.sum())
    return z


def dressed(z, L, rng, lengths=None, shuffle=True, name="z", dim="state", prior="hmm", labels=None):
    """Groups of a result with states z (chain, draw, T) and parameters that tell the states apart.

    ``rate`` and ``mu`` of state k are k and 10 k plus noise; ``pi_bar[j, k]`` grows with j and k.
    With ``shuffle`` the states of each draw are then renumbered at random.
    """
    shape = z.shape[:2]
    k = np.arange(L)
    noise = 0.05 * rng.standard_normal((*shape, L))
    rows = 1.0 + k[:, None] + 0.1 * k + 0.01 * rng.random((*shape, L, L))
    parameters = {
        f"{prior}_beta": rng.dirichlet(np.ones(L), shape),
        f"{prior}_kappa": 1.0 / (2.0 + k + noise),
        f"{prior}_pi_init": rng.dirichlet(np.ones(L), shape),
        f"{prior}_pi_bar": rows / rows.sum(axis=-1, keepdims=True),
        "rate": k + noise,
        "mu": 10.0 * k[:, None] + np.arange(2) + noise[..., None],
    }
    order = (
        np.argsort(rng.random((*shape, L)), axis=-1) if shuffle else np.broadcast_to(k, noise.shape)
    )
    posterior = {name: renumbered(z, order, None).astype("int8")}
    for key, values in parameters.items():
        axes = (2, 3) if key.endswith("pi_bar") else (2,)
        posterior[key] = renumbered(values, order, axes)
    posterior[f"{prior}_alpha"] = rng.gamma(2.0, size=shape)
    lengths = np.array([z.shape[2]]) if lengths is None else np.asarray(lengths)
    return {
        "posterior": posterior,
        "constant_data": {
            f"{name}_lengths": lengths,
            f"{name}_record": recorded(name, L, dim=dim, prior=prior),
        },
    }, {
        "coords": {
            dim: k if labels is None else labels,
            f"{dim}_to": k if labels is None else labels,
            "side": ["left", "right"],
            "time": 1900 + np.arange(z.shape[2]),
        },
        "dims": {
            name: ["time"],
            f"{prior}_beta": [dim],
            f"{prior}_kappa": [dim],
            f"{prior}_pi_init": [dim],
            f"{prior}_pi_bar": [dim, f"{dim}_to"],
            "rate": [dim],
            "mu": [dim, "side"],
            f"{name}_lengths": [f"{name}_sequence"],
        },
    }


def recorded(name, L, *, dim="state", prior="hmm", kind="DSHDP", kappa="constant"):
    """Record that ``HiddenStates`` would have written of states with this prior."""
    roles = {"beta": "beta", "pi_bar": "pi_bar", "pi_init": "pi_init", "alpha": "alpha"}
    roles |= {"fractions": "v", "rho1": "rho1", "rho2": "rho2"}
    if kappa != "none":
        roles["kappa"] = "kappa" if kappa == "constant" else "kappa_mean"
    return StatesRecord(
        states=name,
        lengths=f"{name}_lengths",
        known=f"{name}_known",
        prior=prior,
        kind=kind,
        dims=(dim, f"{dim}_to"),
        n_states=L,
        weights=None if kind == "FixedTransitions" else "weak-limit",
        kappa=kappa,
        variables={role: f"{prior}_{own}" for role, own in roles.items()},
    ).to_bytes()


def renumbered(values, order, axes):
    """Renumber the states of each draw: new number i is old number order[i].

    ``axes`` are the state axes of a parameter; None for paths, whose entries are states.
    """
    if axes is None:
        return np.take_along_axis(np.argsort(order, axis=-1), values.astype(int), axis=-1)
    for axis in axes:
        index = np.expand_dims(order, [a for a in range(2, values.ndim) if a != axis])
        values = np.take_along_axis(values, index, axis=axis)
    return values


def result(truth, L, *, chains=3, draws=40, noise=0.03, seed=0, extra=1, **kwargs):
    """A result whose chains all found ``truth``, up to noise."""
    rng = np.random.default_rng(seed)
    z = noisy_copies(truth, (chains, draws), truth.max() + 1 + extra, noise, rng)
    groups, described = dressed(z, L, rng, **kwargs)
    return from_groups(groups, **described)


def variables(idata, group="posterior"):
    """Arrays of a group by name."""
    return {str(name): v.values for name, v in idata[group].data_vars.items()}
