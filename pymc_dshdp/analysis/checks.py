"""Whether the chains of a hidden Markov model have converged."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from rich.text import Text

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import chain_message, match_states
from pymc_dshdp.analysis.invariant import diagnostics, label_invariant
from pymc_dshdp.analysis.report import Report, rounded, table
from pymc_dshdp.analysis.result import element_labels, find_hidden, state_labels

__all__ = ["Check", "check"]

LARGEST_R_HAT = 1.01
LEAST_ESS_PER_CHAIN = 100
LARGEST_TRUNCATED = 0.01
IN_USE = 0.95  # share of draws that occupy a state whose parameters are compared
ELEMENTS = 300  # of state parameters compared, evenly spaced where there are more


@dataclass(frozen=True, repr=False)
class Check(Report):
    """What ``check`` found; it prints it.

    Attributes
    ----------
    problems : list of str
        What is wrong and what to do about it; empty if nothing is.
    notes : list of str
        What could not be checked, and why.
    diagnostics : pandas.DataFrame
        ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail`` of the quantities that do not
        depend on the numbering of the states, among them ``distance_to_consensus``: the share of
        time points at which a draw differs from the consensus of all draws.
    aligned : pandas.DataFrame
        The same of kappa and the emission parameters after alignment, for the states that 95% of
        the draws occupy; of the chains that agree on the segmentation.
    chain_distance : pandas.DataFrame
        Expected share of time points labelled differently by draws of two chains, after matching
        their labels; within a chain on the diagonal.
    truncated : float
        Share of the draws that occupy all states.
    divergences : int
    """

    problems: list
    notes: list
    diagnostics: pd.DataFrame
    aligned: pd.DataFrame
    chain_distance: pd.DataFrame
    truncated: float
    divergences: int

    @property
    def ok(self):
        """Whether no problem was found."""
        return not self.problems

    def __rich_console__(self, console, options):
        if self.ok:
            yield Text("No problem found.", style="bold green")
        for i, problem in enumerate(self.problems, 1):
            yield Text(f"{i}. {problem}.", style="red")
        for note in self.notes:
            yield Text(f"Note: {note}.")
        yield Text()
        yield from table(rounded(self.diagnostics), "What does not depend on the numbering")
        if len(self.aligned):
            worst = self.aligned.sort_values("r_hat", ascending=False).head(5)
            title = "State parameters after alignment, the largest R-hat"
            yield from table(rounded(worst), title)
        distances = self.chain_distance.map("{:.3f}".format)
        distances.index.name = "chain"
        title = "Share of time points labelled differently by two draws of these chains"
        yield from table(distances, title)


def check(idata, *, states=None):
    """Check convergence by what does not depend on the numbering of the states.

    Looks at R-hat and the effective sample size of the label-invariant quantities, at the
    distances between the chains' segmentations, at R-hat of kappa and the emission parameters
    after alignment where chains agree, at the truncation, and at divergences of NUTS. PyMC's own
    check compares ``z[t]`` and ``theta[k]`` under the numbering as sampled, and always warns.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``, aligned or not.
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    Check
        Print it; ``.ok`` and ``.problems`` say whether something is wrong, and what to do.

    Raises
    ------
    ValueError
        If the state variable or its dimension cannot be found.

    Notes
    -----
    R-hat above 1.01 and effective sample sizes below 100 per chain are reported (Vehtari et al.
    2021), as are more than 1% of draws with all states in use.
    """
    hidden = find_hidden(idata, states)
    chains, draws = hidden.z.shape[:2]
    matching = match_states(idata, [hidden])
    invariant = label_invariant(idata, states=hidden.name)
    invariant["distance_to_consensus"] = (("chain", "draw"), matching.distance)
    found = diagnostics(invariant)
    truncated = float((matching.sizes > 0).all(axis=-1).mean())
    stats = group(idata, "sample_stats") if "sample_stats" in idata else {}
    divergences = int(stats["diverging"].sum()) if "diverging" in stats else 0
    aligned, notes = _aligned_parameters(idata, hidden, matching)
    if chains == 1:
        notes.insert(0, "one chain cannot show whether others agree; sample at least 4")
    names = hidden.z["chain"].values
    distances = pd.DataFrame(matching.chains.distances, index=names, columns=names)
    problems = [
        *_invariant_problems(found, invariant, chains, draws),
        *_segmentation_problems(matching.chains, names),
        *_aligned_problems(aligned),
    ]
    if truncated > LARGEST_TRUNCATED:
        problems.append(
            f"{truncated:.1%} of the draws occupy all {hidden.n_states} states, so that the "
            f"truncation decides the result: raise n_states, to {2 * hidden.n_states} say"
        )
    if divergences:
        problems.append(
            f"NUTS diverged in {divergences} draws: raise target_accept, to 0.95 say, or write the "
            "emission parameters in a form that is easier to sample"
        )
    return Check(problems, notes, found, aligned, distances, truncated, divergences)


def _invariant_problems(found, invariant, chains, draws):
    problems = []
    apart = found.index[found["r_hat"] > LARGEST_R_HAT]
    if len(apart):
        listed = ", ".join(f"{name} {found.loc[name, 'r_hat']:.3f}" for name in apart)
        message = f"R-hat is above {LARGEST_R_HAT} for {listed}: run longer chains"
        if "log_marginal_likelihood" in apart:
            means = invariant["log_marginal_likelihood"].mean("draw")
            levels = ", ".join(
                f"{c}: {x:.1f}" for c, x in zip(means["chain"].values, means.values, strict=True)
            )
            message += (
                f". The chains' mean log marginal likelihoods are {levels}; a chain far below the "
                "others is held in a poorer segmentation: give it more tuning, or start it from "
                "initvals"
            )
        problems.append(message)
    least = LEAST_ESS_PER_CHAIN * chains
    varying = found[found["sd"] > 0]
    few = varying.index[(varying[["ess_bulk", "ess_tail"]].min(axis=1) < least)]
    if len(few):
        listed = ", ".join(
            f"{name} {varying.loc[name, ['ess_bulk', 'ess_tail']].min():.0f}" for name in few
        )
        problems.append(
            f"the effective sample size of {chains} x {draws} draws is below {least} for {listed}: "
            "run longer chains"
        )
    return problems


def _segmentation_problems(chains, names):
    message = chain_message(chains, names)
    if message is None:
        return []
    return [
        f"{message}. Do not average over all of them: compare their log marginal likelihoods, and "
        "give them more tuning or starting paths by initvals"
    ]


def _aligned_parameters(idata, hidden, matching):
    """Diagnostics of kappa and the emission parameters of the states that stay in use."""
    notes = []
    groups = matching.chains.groups
    agreeing = np.flatnonzero(groups == np.bincount(groups).argmax())
    empty = pd.DataFrame(columns=["mean", "sd", "r_hat", "ess_bulk", "ess_tail"], dtype=float)
    if len(agreeing) < 2:
        if len(groups) > 1:
            notes.append("no two chains agree, so that state parameters cannot be compared")
        return empty, notes
    if len(agreeing) < len(groups):
        kept = ", ".join(map(str, hidden.z["chain"].values[agreeing]))
        notes.append(f"state parameters are compared over the chains {kept} that agree")
    in_use = (matching.sizes[agreeing] > 0).mean(axis=(0, 1)) >= IN_USE
    kept = np.flatnonzero(in_use)
    before = matching.label_before[agreeing][:, :, kept]
    posterior = group(idata, "posterior")
    labels = state_labels(posterior, hidden)
    out = {}
    for name, variable in posterior.items():
        ours = str(name).endswith(("_beta", "_pi_init", "_pi_bar"))
        if ours or not {"chain", "draw", hidden.dim} <= set(variable.dims):
            continue
        if variable.dtype.kind not in "fiub":
            continue
        variable = variable.transpose("chain", "draw", hidden.dim, ...)
        values = variable.values[agreeing]
        values = values.reshape(*values.shape[:3], -1)
        elements = element_labels(variable, variable.dims[3:])
        for k, state in enumerate(kept):
            own = np.take_along_axis(values, before[:, :, k, None, None], axis=2)[:, :, 0]
            for e, element in enumerate(elements):
                where = f"{labels[state]}, {element}" if element else f"{labels[state]}"
                out[f"{name}[{where}]"] = own[:, :, e]
    names = list(out)
    if len(names) > ELEMENTS:
        notes.append(f"{ELEMENTS} of the {len(names)} elements of state parameters are compared")
        names = [names[(i * len(names)) // ELEMENTS] for i in range(ELEMENTS)]
    if not names:
        return empty, notes
    arrays = {name: (("chain", "draw"), out[name].astype(float)) for name in names}
    return diagnostics(xr.Dataset(arrays)), notes


def _aligned_problems(aligned):
    apart = aligned[aligned["r_hat"] > LARGEST_R_HAT].sort_values("r_hat", ascending=False)
    if not len(apart):
        return []
    listed = ", ".join(f"{name} {x:.3f}" for name, x in apart["r_hat"].head(3).items())
    more = f" and {len(apart) - 3} more" if len(apart) > 3 else ""
    return [
        f"after alignment R-hat is above {LARGEST_R_HAT} for {listed}{more}, although the chains "
        "agree on the segmentation: run longer chains"
    ]
