"""How many paths a mode has: the entropy of the path, which with log_joint ranks modes."""

import numpy as np

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import PosteriorDraws, chosen_states, thinned, transitions_of
from pymc_dshdp.analysis.numbering import match_states
from pymc_dshdp.analysis.result import find_hidden, hidden_variables
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.kernels.decoding import filter_with_scores

__all__ = ["statistics_with_entropy"]

DRAWS = 25  # of each chain


def statistics_with_entropy(idata, model):
    r"""Return the statistics of some draws of each chain, with ``path_entropy`` among them.

    It is -log p(z | y, theta, P'), summed over all states variables, where P' and pi_init' are the
    mean of the draws of their chain after matching of the labels. The mean of its sum with
    ``log_joint`` is

        E[log p(y, z) - log p(z | y, theta, P')] = log p(y) + E[log p(z | y) / p(z | y, theta, P')],

    log p(y) of the mode that the chain is in and what a path tells of theta and the deviation of
    its transitions from P'. The draw's own P in the place of P' has been drawn for the transitions
    of its path, rare ones too, and would take off as much as path and P tell of each other: some
    nats for each row of a state that overlaps with others. Each sum varies less than either part.
    For models whose ``log_joint`` is finite: their rows are the same at all times.

    Raises
    ------
    ValueError
        If the posterior lacks variables that the likelihood depends on.
    """
    thin = max(1, group(idata, "posterior").sizes["draw"] // DRAWS)
    posterior, total = thinned(idata, thin), 0.0
    for name in hidden_variables(idata):
        label_before = match_states(idata, [find_hidden(idata, name)]).label_before[:, ::thin]
        means = _mean_transitions(model, name, posterior, label_before)
        draws = PosteriorDraws(idata, model, states=name, thin=thin, latent=True)
        paths = posterior[name].values
        entropy = np.empty(draws.draws_shape)
        for index, blocks in draws:
            number = np.argsort(label_before[index])
            start, P = (x[..., number] for x in means[index[0]])
            P = P[:, number]
            whole, entropy[index] = np.ravel(paths[index]).astype(np.int64), 0.0
            for times, (table, _, transitions, lengths) in blocks:
                path, counts = whole[times], empty_counts(draws.n_states, len(P))
                path_counts(path, lengths, transitions.indices, counts)
                taken, rows = counts > 0, np.vstack([start, P.reshape(-1, draws.n_states)])
                joint = (counts[taken] * np.log(rows[taken])).sum()
                joint += table[np.arange(path.size), path].sum()
                given = start, without_persistence(P, transitions.indices), lengths
                entropy[index] += filter_with_scores(table, *given)[1].sum() - joint
        total = total + entropy
    stats = group(idata, "sample_stats").isel(draw=slice(None, None, thin))
    return stats.assign(path_entropy=(("chain", "draw"), total))


def _mean_transitions(model, name, posterior, label_before):
    """(pi_init', P') of each chain in the new numbering, of shapes (L,) and (G, L, L)."""
    read = transitions_of(model, chosen_states(model, name)[1], posterior)
    means = []
    for chain, labels in enumerate(label_before):
        drawn = [read(chain, draw)() for draw in range(len(labels))]
        start = np.mean([x[b] for (x, _), b in zip(drawn, labels, strict=True)], axis=0)
        renamed = (t.matrices[:, b][..., b] for (_, t), b in zip(drawn, labels, strict=True))
        means.append((start, sum(renamed) / len(labels)))
    return means
