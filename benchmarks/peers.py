"""Other packages on the same data, where they can be imported.

``pip install hmmlearn dynamax jax-moseq numpyro`` into the environment brings them all in.
"""

import numpy as np

__all__ = ["arhmm_sweep", "filters"]


def filters(table, initial, transition, lengths):
    """Functions that draw (dynamax) or only filter (hmmlearn) the hidden paths, by name."""
    found = {}
    n, T, L = len(lengths), int(lengths[0]), table.shape[1]
    assert np.all(lengths == T)
    try:
        import jax
        from dynamax.hidden_markov_model import hmm_posterior_sample
    except ImportError:
        pass
    else:
        draw = jax.jit(jax.vmap(hmm_posterior_sample, in_axes=(0, None, None, 0)))
        ell = jax.numpy.asarray(table.reshape(n, T, L), "float32")
        P = jax.numpy.asarray(transition, "float32")
        start = jax.numpy.asarray(initial, "float32")
        keys = jax.random.split(jax.random.PRNGKey(0), n)
        found["dynamax float32"] = lambda: draw(keys, start, P, ell)[1].block_until_ready()
    try:
        from hmmlearn import _hmmc
    except ImportError:
        pass
    else:

        def forward():
            for i in range(n):
                rows = table[i * T : (i + 1) * T]
                weights = np.exp(rows - rows.max(axis=1, keepdims=True))
                _hmmc.forward_scaling(initial, transition, weights)

        found["hmmlearn, filter only"] = forward
    return found


def arhmm_sweep(y, n, T, n_states):
    """Return a function for one sweep of jax-moseq's AR-HMM, hyperparameters fixed; or None."""
    try:
        import jax
        from jax_moseq.models import arhmm
    except ImportError:
        return None
    d = y.shape[1]
    x = jax.numpy.asarray(y.reshape(n, T, d), "float32")
    state = arhmm.init_model(
        data={"x": x, "mask": jax.numpy.ones((n, T))},
        trans_hypparams={"num_states": n_states, "gamma": 1e3, "alpha": 5.7, "kappa": 100.0},
        ar_hypparams={
            "latent_dim": d, "nlags": 1, "num_states": n_states, "S_0_scale": 0.1, "K_0_scale": 1.0,
        },
        seed=jax.random.PRNGKey(0),
    )  # fmt: skip
    data = {"x": x, "mask": jax.numpy.ones((n, T))}
    holder = [state]

    def one():
        holder[0] = arhmm.resample_model(data, **holder[0])
        holder[0]["states"]["z"].block_until_ready()

    return one
