"""States before each possible state, drawn while the matrix that leads to it is at hand.

A backward sample reads one column of the matrix of each time, long after the forward filter has
read all of it. Where there are about as many matrices as times it would wait for the memory at
every step: so the filter draws, for each state k of a time, what the state before is if that is k.
Of these the backward sample then follows one.
"""

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd import WIDTH, count_below, scale_to

__all__ = [
    "antecedents_for",
    "draw_antecedents",
    "many_matrices",
    "of_times_before",
]

MANY = 8  # times for each matrix from which on their columns are laid out instead


@njit(cache=True, nogil=True)
def many_matrices(n_matrices, n_times):
    """Whether there are so many matrices that their columns should not be laid out."""
    return n_matrices > 1 and MANY * n_matrices > n_times


@njit(cache=True, nogil=True)
def antecedents_for(n_matrices, varies, n_times, n_states):
    """Array for what ``draw_antecedents`` draws, (T, C); (0, C) where it would not pay.

    C is the number of states, or the next multiple of the length of a vector.

    Where kappa varies with time there is none: its columns are not those of the matrices.
    """
    n = 0 if varies or not many_matrices(n_matrices, n_times) else n_times
    return np.empty((n, -(-n_states // WIDTH) * WIDTH), np.int16)


@njit(cache=True, nogil=True)
def of_times_before(uniforms):
    """Uniform number of the time before each, (T,); 0 for the first."""
    out = np.zeros(uniforms.shape[0])
    out[1:] = uniforms[:-1]
    return out


@njit(cache=True, nogil=True)
def draw_antecedents(product, uniforms, t, targets, antecedents):
    """Draw antecedents[t, k] ~ p(z_{t-1} | z_t = k, y_1..t-1), in proportion to a(j) P_jk.

    It is the first j at which the sum over 0..j exceeds u_t times the sum over all. One uniform
    number serves all k, of which only one is used.

    Parameters
    ----------
    product : (rows, row, sums, matrices, g, matrix)
        sums[row] = rows[row] @ P as by ``multiply_flat``, both of shape (4, C), where rows[row] is
        proportional to a = p(z_{t-1} | y_1..t-1), and P is matrices[g], of shape (G, L, L), or
        ``matrix``, (L, C), where g is -1.
    uniforms : ndarray of shape (T,)
        In [0, 1).
    t : int
    targets : ndarray of shape (1, C)
        Overwritten.
    antecedents : ndarray of shape (T, C), int16
        Row t is overwritten; what stands where a sum is 0 means nothing.
    """
    rows, row, sums, matrices, g, matrix = product
    P = matrices[g] if g >= 0 else matrix
    scale_to(sums, row, uniforms[t], targets, 0)
    count_below(rows, row, P, targets, t, antecedents)
