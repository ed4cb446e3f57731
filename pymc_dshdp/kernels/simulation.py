"""Forward simulation of hidden paths."""

from numba import njit

from pymc_dshdp.kernels.messages import choose


@njit(cache=True, nogil=True)
def simulate_path(rng, initial, pi_bar, kappa, lengths, out):
    """Draw z_1 ~ pi_init of each sequence and z_t ~ kappa_j delta_j + (1 - kappa_j) pi_bar_j.

    Parameters
    ----------
    rng : numpy.random.Generator
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (L, L)
    kappa : ndarray of shape (L,)
    lengths : ndarray of shape (N,)
    out : ndarray of shape (T,), integer
        Overwritten.
    """
    t = 0
    for length in lengths:
        state = choose(initial, rng.random())
        out[t] = state
        for i in range(t + 1, t + length):
            if rng.random() >= kappa[state]:
                state = choose(pi_bar[state], rng.random())
            out[i] = state
        t += length
