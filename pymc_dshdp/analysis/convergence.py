"""Whether chains are too short or at different levels, by R-hat and effective sample sizes."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

__all__ = ["WANTED_ESS", "Verdict", "judge"]

WANTED_ESS = 100  # per chain
LEAST_ESS = 50  # per chain: estimates of 400 scatter by 15%, the least of dozens is at 250
FALSE_ALARMS = 0.01  # of all runs that are long enough
APART = 1.1
TELLING_ESS = 25  # per chain, of a chain that knows its own level


class Verdict(NamedTuple):
    """What R-hat and effective sample sizes say of some quantities.

    Attributes
    ----------
    apart : list of str
        Quantities whose levels differ between chains, each of which is well known, by more than
        the chains' own autocorrelation explains, the worst first: more draws alone will not mend
        them.
    short : list of str
        Quantities for which the chains are too short, the worst first.
    more : int
        Draws that they want in addition, in each chain, at the rate so far.
    largest_r_hat, least_ess : float
        What R-hat may be, and an effective sample size should be.
    """

    apart: list
    short: list
    more: int
    largest_r_hat: float
    least_ess: int


def largest_r_hat(chains, quantities, ess=None):
    r"""R-hat that a run in equilibrium exceeds for none of its quantities in 99 of 100 runs.

    Split in halves, m = 2 chains, each of an effective size E / m: under equilibrium
    :math:`(m - 1)(\hat R^2 - 1) E / m` is about :math:`\chi^2_{m-1}`, so that a run of the wanted
    effective size, 100 per chain, is expected at :math:`\hat R^2 - 1 = 1 / 50`, and the largest of
    many quantities well above. Two R-hats are looked at for each (of ranks, and of ranks folded).
    """
    m = 2 * chains
    ess = WANTED_ESS * chains if ess is None else ess
    quantile = chdtri(m - 1, FALSE_ALARMS / (2 * max(quantities, 1)))
    return np.sqrt(1.0 + quantile * m / ((m - 1) * ess))


def judge(table, draws, quantities):
    """Tell quantities whose chains are apart from those whose chains are short.

    Parameters
    ----------
    table : pandas.DataFrame
        As of ``invariant.diagnostics``.
    draws : xarray.Dataset
        The quantities, (chain, draw).
    quantities : int
        How many are looked at in all; the more, the larger R-hat may be by chance.

    Returns
    -------
    Verdict
    """
    if table.empty:
        return Verdict([], [], 0, np.inf, 0)
    chains, n_draws = draws.sizes["chain"], draws.sizes["draw"]
    limit = largest_r_hat(chains, quantities)
    varying = table[table["sd"] > 0]
    far = varying["r_hat"][varying["r_hat"] > APART].sort_values(ascending=False)
    sizes = {name: _within_chains(draws[name]) for name in far.index}
    apart = [
        name
        for name, size in sizes.items()
        if size >= TELLING_ESS * chains and far[name] > largest_r_hat(chains, quantities, size)
    ]
    rest = varying.drop(index=apart)
    least = rest[["ess_bulk", "ess_tail"]].min(axis=1)
    by_ess = WANTED_ESS * chains / least
    by_r_hat = (rest["r_hat"] ** 2 - 1.0) / (limit**2 - 1.0)
    # R-hat of half chains that are constant is infinite but for rounding, and knows no rate: the
    # effective sizes do.
    by_r_hat[[name for name in rest.index if _constant_by_halves(draws[name])]] = 0.0
    wanted = np.maximum(by_ess.fillna(0.0), by_r_hat.fillna(0.0))
    wanted = wanted[(least < LEAST_ESS * chains) | (rest["r_hat"] > limit)]
    wanted = wanted.sort_values(ascending=False)
    more = 0 if wanted.empty else _rounded_up(n_draws * (wanted.iloc[0] - 1.0))
    return Verdict(apart, list(wanted.index), more, float(limit), LEAST_ESS * chains)


def _constant_by_halves(draws):
    """Whether each half of each chain has one value only."""
    values = draws.transpose("chain", "draw").values
    half = values.shape[1] // 2
    return all(np.all(part == part[:, :1]) for part in (values[:, :half], values[:, -half:]))


def _within_chains(draws):
    """Effective sample size as each chain by itself tells it; infinite where all are constant."""
    import arviz as az  # here, as with matplotlib it takes seconds, which a run does not need

    sizes = [
        float(az.ess(draws.isel(chain=[c]).to_dataset(name="x"), method="bulk")["x"])
        for c in range(draws.sizes["chain"])
        if float(draws.isel(chain=c).std()) > 0
    ]
    return sum(sizes) if sizes else np.inf


def _rounded_up(n):
    """Round up to two digits."""
    unit = 10 ** max(0, int(np.floor(np.log10(max(n, 1.0)))) - 1)
    return int(np.ceil(n / unit)) * unit
