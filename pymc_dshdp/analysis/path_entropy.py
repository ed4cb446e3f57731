"""How many paths a mode has: the entropy of the path given the parameters."""

import numpy as np

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import PosteriorDraws, thinned
from pymc_dshdp.analysis.result import hidden_variables
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.kernels.decoding import filter_with_scores

__all__ = ["statistics_with_entropy"]

DRAWS = 25  # of each chain


def statistics_with_entropy(idata, model):
    """Return the statistics of some draws of each chain, with ``path_entropy`` among them.

    It is -log p(z | y, theta, P) = log p(y | theta, P) - log p(y, z | theta, P) at the draw, summed
    over all states variables. As z is a draw given theta and P, its mean is that of H(z | y, theta,
    P); it varies against ``log_joint``, so that their sum is known better than either. For models
    whose ``log_joint`` is finite: their rows are the same at all times.

    Raises
    ------
    ValueError
        If the posterior lacks variables that the likelihood depends on.
    """
    thin = max(1, group(idata, "posterior").sizes["draw"] // DRAWS)
    posterior, total = thinned(idata, thin), 0.0
    for name in hidden_variables(idata):
        draws = PosteriorDraws(idata, model, states=name, thin=thin, latent=True)
        paths = posterior[name].values
        entropy = np.empty(draws.draws_shape)
        for index, blocks in draws:
            whole, entropy[index] = np.ravel(paths[index]).astype(np.int64), 0.0
            for times, (table, start, transitions, lengths) in blocks:
                path, P = whole[times], transitions.matrices
                counts = empty_counts(draws.n_states, len(P))
                path_counts(path, lengths, transitions.indices, counts)
                taken, rows = counts > 0, np.vstack([start, P.reshape(-1, draws.n_states)])
                joint = (counts[taken] * np.log(rows[taken])).sum()
                joint += table[np.arange(path.size), path].sum()
                scores = filter_with_scores(table, start, transitions, lengths)[1]
                entropy[index] += scores.sum() - joint
        total = total + entropy
    stats = group(idata, "sample_stats").isel(draw=slice(None, None, thin))
    return stats.assign(path_entropy=(("chain", "draw"), total))
