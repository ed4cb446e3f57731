"""Plain NumPy twins of the kernels, and what the statistical tests share."""

import itertools

import numpy as np
from scipy import special, stats

SMALLEST_P_VALUE = 1e-4  # of a test with a fixed seed
LARGEST_Z = 4.5


def random_rows(rng, n_rows, n_states, concentration=1.0):
    return rng.dirichlet(np.full(n_states, concentration), size=n_rows)


def sequence_starts(lengths):
    return np.cumsum(lengths) - lengths


def forward_filter(log_likelihoods, initial, transition, lengths):
    """Filtered probabilities and log marginal likelihoods, all in log space."""
    with np.errstate(divide="ignore"):
        log_initial, log_transition = np.log(initial), np.log(transition)
    starts = sequence_starts(lengths)
    log_filtered = np.empty_like(log_likelihoods)
    log_marginal = np.zeros(len(lengths))
    for n, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        predicted = log_initial
        for t in range(start, start + length):
            if t > start:
                predicted = np.logaddexp.reduce(log_filtered[t - 1][:, None] + log_transition)
            joint = predicted + log_likelihoods[t]
            normaliser = np.logaddexp.reduce(joint)
            log_filtered[t] = joint - normaliser
            log_marginal[n] += normaliser
    return np.exp(log_filtered), log_marginal


def all_paths(n_states, length):
    return np.array(list(itertools.product(range(n_states), repeat=length)))


def log_joint_of_paths(paths, log_likelihoods, initial, transition):
    """log p(z, y) of each path of one sequence."""
    out = np.log(initial)[paths[:, 0]]
    out = out + np.log(transition)[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return out + log_likelihoods[np.arange(paths.shape[1]), paths].sum(axis=1)


def path_counts(states, lengths, n_states):
    counts = np.zeros((n_states + 1, n_states), int)
    for start, length in zip(sequence_starts(lengths), lengths, strict=True):
        path = states[start : start + length]
        counts[0, path[0]] += 1
        np.add.at(counts, (path[:-1] + 1, path[1:]), 1)
    return counts


def table_distribution(customers, concentration):
    """P(tables = m), m = 0..n: the convolution of Bernoulli(a / (a + i)), i < n."""
    pmf = np.zeros(customers + 1)
    pmf[0] = 1.0
    for i in range(customers):
        p = 1.0 if i == 0 else concentration / (concentration + i)
        pmf[1 : i + 2] = pmf[1 : i + 2] * (1.0 - p) + pmf[: i + 1] * p
        pmf[0] *= 1.0 - p
    return pmf


def log_rising(x, n):
    """log Gamma(x + n) - log Gamma(x) as the sum of the logarithms, for a number x."""
    return np.sum(np.log(np.longdouble(x) + np.arange(n, dtype=np.longdouble)))


def log_persistence_marginal(phi, eta, persistences, departures):
    rho1, rho2 = phi * eta**-3.0, (1.0 - phi) * eta**-3.0
    return sum(
        special.betaln(rho1 + W, rho2 + n) - special.betaln(rho1, rho2)
        for W, n in zip(persistences, departures, strict=True)
    )


def log_dirichlet_multinomial(counts, concentration):
    """Log-probability of a sequence of draws with these counts, along the last axis."""
    total = concentration.sum(axis=-1)
    return (
        special.gammaln(total)
        - special.gammaln(total + counts.sum(axis=-1))
        + (special.gammaln(concentration + counts) - special.gammaln(concentration)).sum(axis=-1)
    )


def chi_square_p_value(observed, probabilities, smallest_expected=10.0):
    """p-value of counts against probabilities, cells of small expectation pooled."""
    observed, probabilities = np.ravel(observed), np.ravel(probabilities)
    assert np.all(observed[probabilities == 0.0] == 0)
    expected = probabilities * observed.sum()
    rare = expected < smallest_expected
    pooled_observed = np.append(observed[~rare], observed[rare].sum())
    pooled_expected = np.append(expected[~rare], expected[rare].sum())
    if pooled_expected[-1] < smallest_expected:
        # Too rare to be a cell of its own: added to the rarest of the others.
        i = np.argmin(pooled_expected[:-1])
        pooled_observed[i] += pooled_observed[-1]
        pooled_expected[i] += pooled_expected[-1]
        pooled_observed, pooled_expected = pooled_observed[:-1], pooled_expected[:-1]
    if len(pooled_observed) == 1:
        return 1.0
    pooled_expected *= pooled_observed.sum() / pooled_expected.sum()
    return stats.chisquare(pooled_observed, pooled_expected).pvalue


def assert_frequencies(observed, probabilities):
    assert chi_square_p_value(observed, probabilities) > SMALLEST_P_VALUE


def assert_distribution(sample, cdf):
    """Kolmogorov-Smirnov test of independent draws."""
    assert stats.kstest(sample, cdf).pvalue > SMALLEST_P_VALUE


def monte_carlo_error(chain):
    """Standard error of a chain's mean, by Geyer's initial monotone positive sequence."""
    chain = np.asarray(chain, float)
    n = len(chain)
    x = chain - chain.mean()
    spectrum = np.abs(np.fft.rfft(x, 2 * n)) ** 2
    autocovariance = np.fft.irfft(spectrum)[:n] / n
    if autocovariance[0] == 0.0:
        return 0.0
    pairs = autocovariance[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    pairs = pairs[: negative[0]] if negative.size else pairs
    pairs = np.minimum.accumulate(pairs)
    variance = 2.0 * pairs.sum() - autocovariance[0]
    return np.sqrt(max(variance, autocovariance[0] / n) / n)


def assert_chain_density(chain, log_density, low, high, levels=(0.05, 0.25, 0.5, 0.75, 0.95)):
    """Compare a chain of positive numbers with a density, known up to a constant, on (low, high).

    The density is normalised on a grid of log x; the chain's mean of log x and its distribution
    function at the quantiles are compared in units of their Monte-Carlo errors.
    """
    t = np.linspace(np.log(low), np.log(high), 4001)
    log_mass = np.array([log_density(x) for x in np.exp(t)]) + t
    mass = np.exp(log_mass - log_mass.max())
    assert max(mass[0], mass[-1]) < 1e-6  # the interval holds the density
    mass /= mass.sum()
    cdf = np.cumsum(mass) - 0.5 * mass
    log_chain = np.log(chain)
    z = [(log_chain.mean() - mass @ t) / monte_carlo_error(log_chain)]
    for level in levels:
        below = log_chain <= np.interp(level, cdf, t)
        z.append((below.mean() - level) / monte_carlo_error(below))
    assert np.max(np.abs(z)) < LARGEST_Z, z
