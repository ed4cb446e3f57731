"""Groups of chains that found different segmentations, and which of them to believe."""

import numpy as np
import pandas as pd

from pymc_dshdp.analysis.invariant import statistic

__all__ = ["advice", "starts", "table_of_modes"]

TOO_CLOSE = 3.0  # nats


def table_of_modes(stats, matching, names):
    """Tabulate the groups of chains, those that are alike together.

    Parameters
    ----------
    stats : xarray.Dataset or dict
        The group ``sample_stats``, or nothing.
    matching : Matching
    names : ndarray of shape (chains,)
        Coordinate of the chains.

    Returns
    -------
    pandas.DataFrame
        A row for each group, the largest first: ``chains``, a list; ``share`` of all chains;
        ``states``, the mean number that a draw occupies; with the statistic ``log_joint`` also
        ``log_joint``, its mean, or ``evidence``, the mean of log_joint + path_entropy, and its
        Monte Carlo error, ``error``.
    """
    import arviz as az  # see analysis/convergence.py

    groups = matching.chains.groups
    occupied = (matching.sizes > 0).sum(axis=-1)
    joint = statistic(stats, "log_joint")
    entropy = statistic(stats, "path_entropy")
    rows = []
    for g in range(groups.max() + 1):
        own = np.flatnonzero(groups == g)
        row = {
            "chains": names[own].tolist(),
            "share": len(own) / len(groups),
            "states": occupied[own].mean(),
        }
        if joint is not None:
            level = joint if entropy is None else joint + entropy
            level = level.isel(chain=own).to_dataset(name="level")
            row["log_joint" if entropy is None else "evidence"] = float(level["level"].mean())
            with np.errstate(all="ignore"):
                row["error"] = float(level["level"].std() / np.sqrt(az.ess(level)["level"]))
        rows.append(row)
    table = pd.DataFrame(rows).sort_values("share", ascending=False, kind="stable")
    return table.reset_index(drop=True)


def advice(modes):
    """Say in one line which group of chains to believe."""
    n_chains = round(len(modes["chains"][0]) / modes["share"][0])
    level = next((column for column in ("evidence", "log_joint") if column in modes), None)
    if level is None:
        return (
            "do not average over them; nothing here ranks them (log_marginal_likelihood does not: "
            "it rises with the number of states), so give them more tuning, or starts of their own "
            "by initvals of pm.sample, or one by initial_states= of HiddenStates"
        )
    ranked = modes.sort_values(level, ascending=False)
    best, others = ranked.iloc[0], ranked.iloc[1:]
    below = best[level] - others[level]
    unclear = below <= TOO_CLOSE + 2.0 * (best["error"] + others["error"].fillna(np.inf))
    by = "log_joint + path_entropy" if level == "evidence" else "log_joint"
    if unclear.any():
        alike = [best["chains"], *others["chains"][unclear]]
        nats = below[unclear].max()
        return (
            f"their mean {by} does not tell {_listed(alike)} apart (within {nats:.0f} nats): none "
            "is to be preferred; run longer chains, from more starts"
        )
    n = len(best["chains"])
    rest = ", ".join(
        f"{_listed([chains])} {nats:.0f} nats below"
        for chains, nats in zip(others["chains"], below, strict=True)
    )
    if level == "log_joint":
        return (
            f"by their mean log_joint {_listed([best['chains']])} lies highest, {rest}, but the "
            "entropy of their paths may outweigh that: check(idata, model=model) adds it"
        )
    return (
        f"believe {n} of {n_chains} chains, {_listed([best['chains']])}: by their mean {by} the "
        f"others are {rest}"
    )


def starts(stats, matching, names):
    """Say in a line how the chains were started, and whether plain starts led to the same place.

    Parameters
    ----------
    stats, matching, names
        As of ``table_of_modes``.

    Returns
    -------
    list of str
        Empty where nothing is known of it, or no chain had pilots.
    """
    if "piloted" not in stats or len(names) == 1:
        return []
    piloted = np.asarray(stats["piloted"])[:, -1].astype(bool)
    if not piloted.any():
        return []
    said = f"{_listed([names[piloted].tolist()])} were started from the best of many pilots"
    if piloted.all():
        return [f"chains {said}, none plainly"]
    groups = matching.chains.groups
    plain = names[~piloted].tolist()
    alike = np.isin(groups[~piloted], groups[piloted])
    there = "reached" if alike.all() else "did not reach"
    return [f"chains {said}; {_listed([plain])}, started plainly, {there} the same segmentation"]


def _listed(groups):
    return " and ".join(f"[{', '.join(map(str, chains))}]" for chains in groups)
