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
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.timing import only_help

__all__ = ["filters", "sweeps"]


def filters(table, initial, transition, lengths):
    """Functions that draw (dynamax) or only filter (hmmlearn) the hidden paths, by name."""
    problem = table, initial, transition, lengths
    makers = {"dynamax float32": _dynamax_draw, "hmmlearn, filter only": _hmmlearn_filter}
    return _that_work({name: partial(make, *problem) for name, make in makers.items()})


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
    makers = {}
    if kind == "AR":
        makers["jax-moseq"] = partial(_moseq_sweep, y, len(lengths), int(lengths[0]), n_states)
    elif kind in ("PO", "GA") and "PYHSMM_PYTHON" in os.environ:
        makers["pyhsmm"] = partial(_pyhsmm_sweep, y, z, lengths, n_states)
    return _that_work(makers)


def _that_work(makers):
    """Make and call each once; those that are not installed, or fail, are named and left out."""
    found = {}
    for name, make in makers.items():
        try:
            function = make()
            function()
        except ImportError:
            continue
        except Exception as error:  # whatever another package raises
            print(f"  {name} is left out: {type(error).__name__}: {str(error)[:200]}")
            continue
        found[name] = function
    return found


def _dynamax_draw(table, initial, transition, lengths):
    import jax
    from dynamax.hidden_markov_model import hmm_posterior_sample

    n, T, L = len(lengths), int(lengths[0]), table.shape[1]
    if not np.all(lengths == T):
        raise ValueError("sequences of several lengths")
    draw = jax.jit(jax.vmap(hmm_posterior_sample, in_axes=(0, None, None, 0)))
    ell = jax.numpy.asarray(table.reshape(n, T, L), "float32")
    P = jax.numpy.asarray(transition, "float32")
    start = jax.numpy.asarray(initial, "float32")
    keys = jax.random.split(jax.random.PRNGKey(0), n)
    return lambda: draw(keys, start, P, ell)[1].block_until_ready()


def _hmmlearn_filter(table, initial, transition, lengths):
    from hmmlearn import _hmmc

    ends = np.cumsum(lengths)

    def forward():
        for start, end in zip(ends - lengths, ends, strict=True):
            rows = table[start:end]
            weights = np.exp(rows - rows.max(axis=1, keepdims=True))
            _hmmc.forward_scaling(initial, transition, weights)

    return forward


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
    import jax
    from jax_moseq.models import arhmm

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


if __name__ == "__main__":  # used by ``benchmarks.run``; a command of its own only to say so
    only_help(__doc__)
