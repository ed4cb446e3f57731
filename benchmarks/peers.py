"""Other packages on the same data, where they can be imported.

``pip install hmmlearn dynamax jax-moseq numpyro`` into the environment brings all but one in.
pyhsmm 0.1.7 needs an environment of its own, of Python 3.7 with ``numpy<1.17 scipy<1.3
cython<0.30 setuptools<60 future six matplotlib nose pybasicbayes``, and its source archive from
PyPI: unpack it, put the headers of Eigen 3 at ``deps/Eigen`` (it would fetch them from an address
that is no more), and ``pip install --no-deps --no-build-isolation .`` there. The environment
variable ``PYHSMM_PYTHON`` names that interpreter.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

__all__ = ["filters", "sweeps"]


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


def sweeps(kind, y, z, lengths, n_states):
    """Functions for one sweep of a sticky HDP-HMM with fixed hyperparameters, by name.

    Parameters
    ----------
    kind : {"AR", "PO", "GA", "short"}
    y : ndarray of shape (T, ...)
    z : ndarray of shape (T,)
        A path to start from.
    lengths : sequence of int
    n_states : int
    """
    found = {}
    if kind == "AR":
        moseq = _moseq_sweep(y, len(lengths), int(lengths[0]), n_states)
        if moseq is not None:
            found["jax-moseq"] = moseq
    elif kind in ("PO", "GA") and "PYHSMM_PYTHON" in os.environ:
        found["pyhsmm"] = _pyhsmm_sweep(y, z, lengths, n_states)
    return found


def _pyhsmm_sweep(y, z, lengths, n_states):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        np.savez(file, y=y, z=z, lengths=lengths, n_states=n_states)
        worker = subprocess.Popen(
            [os.environ["PYHSMM_PYTHON"], Path(__file__).with_name("pyhsmm_sweeps.py"), file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

        def one():
            worker.stdin.write("\n")
            if worker.stdout.readline() != "done\n":
                raise RuntimeError("pyhsmm stopped; what it printed stands above")

        one()  # the data have been read
    return one


def _moseq_sweep(y, n, T, n_states):
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
