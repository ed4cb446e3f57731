"""Whether the chains of a hidden Markov model have converged."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from rich.text import Text

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import chain_message
from pymc_dshdp.analysis.convergence import WANTED_ESS, judge
from pymc_dshdp.analysis.invariant import diagnostics, label_invariant
from pymc_dshdp.analysis.modes import advice, starts, table_of_modes
from pymc_dshdp.analysis.numbering import match_states
from pymc_dshdp.analysis.path_entropy import statistics_with_entropy
from pymc_dshdp.analysis.report import Report, rounded, table
from pymc_dshdp.analysis.result import element_labels, find_hidden, state_labels
from pymc_dshdp.likelihood.conditional import reasons
from pymc_dshdp.typing import Result

__all__ = ["Check", "check"]

FARTHER = 1.1  # from the consensus than draws from each other, on average: no more by chance
LARGEST_TRUNCATED = 0.01
IN_USE = 0.95  # share of draws that occupy a state whose parameters are compared
ELEMENTS = 300  # of state parameters compared, evenly spaced where there are more
LISTED = 3
FEWEST = 4  # draws of a chain that ArviZ needs for an effective sample size
MANY = 20  # times the draws there are


@dataclass(frozen=True, repr=False)
class Check(Report):
    """What ``check`` found; it prints it.

    Attributes
    ----------
    problems : list of str
        What is wrong and what to do about it; more draws alone do not mend it.
    short : list of str
        What more draws will mend, and how many.
    more_draws : int
        Number of these draws in each chain; 0 where the chains are long enough.
    notes : list of str
        What could not be checked, or should be known, and why.
    diagnostics : pandas.DataFrame
        ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail`` of the quantities that do not
        depend on the numbering of the states, among them ``distance_to_consensus``: the share of
        time points at which a draw differs from the most frequent labels.
    aligned : pandas.DataFrame
        The same of kappa and the emission parameters after alignment, for the states that 95% of
        the draws occupy; of the chains that agree on the segmentation.
    chain_distance : pandas.DataFrame
        Expected share of time points labelled differently by draws of two chains, after matching
        their labels; within a chain on the diagonal.
    modes : pandas.DataFrame
        A row for each group of chains that found the same segmentation, the largest first:
        ``chains``, ``share`` of the chains, mean number of ``states`` occupied; where the sampler
        statistic ``log_joint`` is there, its mean (``log_joint``; where the model is known that of
        log_joint + path_entropy, ``evidence``) and the Monte Carlo ``error`` of that.
    truncated : float
        Share of the draws that occupy all states.
    divergences : int
    """

    problems: list
    short: list
    more_draws: int
    notes: list
    diagnostics: pd.DataFrame
    aligned: pd.DataFrame
    chain_distance: pd.DataFrame
    modes: pd.DataFrame
    truncated: float
    divergences: int

    @property
    def ok(self):
        """Whether nothing is wrong, and the chains are long enough."""
        return not self.problems and not self.short

    def __rich_console__(self, console, options):
        if self.ok:
            yield Text("No problem found.", style="bold green")
        for i, problem in enumerate(self.problems, 1):
            yield Text(f"Wrong, {i}: {problem}.", style="red")
        for message in self.short:
            yield Text(f"Short: {message}.", style="yellow")
        for note in self.notes:
            yield Text(f"Note: {note}.")
        yield Text()
        title = "What does not depend on the numbering"
        yield from table(rounded(self.diagnostics), title, options)
        if len(self.aligned):
            worst = self.aligned.sort_values("r_hat", ascending=False).head(5)
            title = "State parameters after alignment, the largest R-hat"
            yield from table(rounded(worst), title, options)
        if len(self.modes) > 1:
            modes = self.modes.assign(chains=[", ".join(map(str, c)) for c in self.modes["chains"]])
            modes = modes.set_index("chains")
            modes["share"] = modes["share"].map("{:.0%}".format)
            yield from table(modes, "Groups of chains that found the same segmentation", options)
        distances = self.chain_distance.map("{:.3f}".format)
        distances.index.name = "chain"
        title = "Share of time points labelled differently by two draws of these chains"
        yield from table(distances, title, options)


def check(idata: Result, *, states: str | None = None, model: pm.Model | None = None) -> Check:
    """Check convergence by what does not depend on the numbering of the states.

    Looks at R-hat and the effective sample size of the label-invariant quantities, and of kappa and
    the emission parameters after alignment where chains agree; at the distances between the chains'
    segmentations; at the truncation; and at divergences of NUTS. What is wrong is told apart from
    chains that are short. PyMC's own check compares ``z[t]`` and ``theta[k]`` under the numbering
    as sampled, and always warns.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``, aligned or not.
    states : str, optional
        The hidden-state variable, where there are several.
    model : pymc.Model, optional
        That was sampled; by default the one of the context, if any. Then the notes say which
        emission parameters are left to NUTS, and why; and groups of chains that disagree are
        ranked by the evidence of their modes.

    Returns
    -------
    Check
        Print it; ``.ok``, ``.problems`` and ``.short`` say whether something is wrong, and what to
        do.

    Raises
    ------
    ValueError
        If the state variable or its dimension cannot be found.

    Notes
    -----
    Wanted is an effective sample size of 100 per chain (Vehtari et al. 2021). Chains are short if
    its estimate is below half of that, as the least of many estimates may be by chance alone, or if
    R-hat is above what it exceeds, for any of the quantities, in one run of a hundred that has the
    effective size wanted: 1.04 for four chains and ten quantities. They are apart if R-hat is above
    1.1 and above what the effective sizes of the single chains, at least 25 each, allow. More than
    1% of draws with all states of the truncation in use is wrong.

    Examples
    --------
    >>> checked = dshdp.check(idata, model=model)
    >>> problems, draws = checked.problems, checked.more_draws
    """
    hidden = find_hidden(idata, states)
    names = hidden.z["chain"].values
    matching = match_states(idata, [hidden])
    stats = group(idata, "sample_stats") if "sample_stats" in idata else {}
    modes = table_of_modes(stats, matching, names)
    invariant = label_invariant(idata, states=hidden.name)
    invariant["distance_to_consensus"] = (("chain", "draw"), matching.distance)
    parameters, notes = _aligned_parameters(idata, hidden, matching)
    found, aligned = diagnostics(invariant), diagnostics(parameters)
    quantities = len(found) + len(aligned)
    verdicts = [judge(found, invariant, quantities), judge(aligned, parameters, quantities)]
    problems, short, more = _chain_problems(verdicts, found, aligned, hidden.z.shape[1])
    model = pm.Model.get_context(error_if_none=False) if model is None else model
    if len(modes) > 1:
        if model is not None and "log_joint" in modes and hidden.name in model.named_vars:
            try:
                modes = table_of_modes(statistics_with_entropy(idata, model), matching, names)
            except ValueError as error:
                notes.append(f"the entropy of the paths, which ranks chains, is unknown: {error}")
        problems.insert(0, f"{chain_message(matching.chains, names)}; {advice(modes)}")
    if matching.from_consensus > FARTHER * matching.apart:
        problems.append(
            f"draws differ from the most frequent labels on {matching.from_consensus:.1%} of the "
            f"time points, from each other on {matching.apart:.1%}: no one numbering serves them "
            "all, and state parameters after alignment mix states"
        )
    truncated = float((matching.sizes > 0).all(axis=-1).mean())
    if truncated > LARGEST_TRUNCATED and hidden.truncated:
        problems.append(
            f"{truncated:.1%} of the draws occupy all {hidden.n_states} states, so that the "
            f"truncation decides the result: raise n_states, to {2 * hidden.n_states} say"
        )
    divergences = int(stats["diverging"].sum()) if "diverging" in stats else 0
    if divergences:
        problems.append(
            f"NUTS diverged in {divergences:,} draw{'s' * (divergences > 1)}: raise target_accept, "
            "to 0.95 say, or write the emission parameters in a form that is easier to sample"
        )
    if len(names) == 1:
        notes.insert(0, "one chain cannot show whether others agree; sample at least 4")
    notes += starts(stats, matching, names)
    labels = state_labels(group(idata, "posterior"), hidden)
    notes += _consensus_notes(matching, labels)
    notes += [] if model is None else _notes_on_steps(model, group(idata, "posterior"))
    distances = pd.DataFrame(matching.chains.distances, index=names, columns=names)
    return Check(
        problems, short, more, notes, found, aligned, distances, modes, truncated, divergences
    )


def _chain_problems(verdicts, found, aligned, draws):
    """Say which quantities are at different levels, and how many draws the others want."""
    if draws < FEWEST:
        text = (
            f"chains of fewer than {FEWEST} draws have no effective sample size; these have {draws}"
        )
        return [], [f"{text}: about {WANTED_ESS} more draws in each chain at least"], WANTED_ESS
    problems = []
    short, more = [], max(verdict.more for verdict in verdicts)
    for verdict, numbers, where in zip(
        verdicts, (found, aligned), ("", " after alignment"), strict=True
    ):
        if verdict.apart:
            problems.append(
                f"the chains are at different levels{where}, R-hat "
                f"{_listed(verdict.apart, numbers['r_hat'], '{:.2f}')}: more draws alone will not "
                "bring them together; give them more tuning, or starts of their own by initvals of "
                "pm.sample, or one by initial_states= of HiddenStates"
            )
        if verdict.short:
            least = numbers[["ess_bulk", "ess_tail"]].min(axis=1)
            few = [name for name in verdict.short if least[name] < verdict.least_ess]
            high = [
                name for name in verdict.short if numbers["r_hat"][name] > verdict.largest_r_hat
            ]
            if few:
                short.append(
                    f"the effective sample size{where} is below {verdict.least_ess} for "
                    f"{_listed(few, least, '{:.0f}')}"
                )
            if high:
                short.append(
                    f"R-hat{where} is above {verdict.largest_r_hat:.3f} for "
                    f"{_listed(high, numbers['r_hat'], '{:.3f}')}"
                )
    if short:
        far = ", many times what there is: look for a better start or form of the model first"
        short = [
            f"{'; '.join(short)}: about {more:,} more draws in each chain at this rate"
            f"{far if more > MANY * draws else ''}"
        ]
    return problems, short, more


def _listed(names, values, form):
    listed = ", ".join(f"{name} {form.format(values[name])}" for name in names[:LISTED])
    return f"{listed} and {len(names) - LISTED} more" if len(names) > LISTED else listed


def _notes_on_steps(model, posterior):
    """Say of each emission parameter that no step of ours draws why that is so."""
    return [
        f"{name} is left to PyMC's steps: {reason}"
        for name, reason in reasons(model).items()
        if name in posterior
    ]


def _consensus_notes(matching, labels):
    """Name the states of most draws that are the most frequent label of no time."""
    common = (matching.sizes > 0).mean(axis=(0, 1)) >= 0.5
    missing = np.setdiff1d(np.flatnonzero(common), matching.consensus)
    if not missing.size:
        return []
    share = matching.sizes.mean(axis=(0, 1))[missing].sum() / len(matching.consensus)
    named = ", ".join(str(labels[k]) for k in missing)
    one = missing.size == 1
    return [
        f"the state{'s' * (not one)} {named} {'is' if one else 'are'} the most probable of no time "
        f"point, although most draws have {'it' if one else 'them'} and {share:.0%} of the time is "
        f"spent there: z_consensus has fewer states than the draws; read state_probabilities"
    ]


def _aligned_parameters(idata, hidden, matching):
    """Draws of kappa and the emission parameters of the states that stay in use, and notes."""
    notes = []
    groups = matching.chains.groups
    agreeing = np.flatnonzero(groups == np.bincount(groups).argmax())
    empty = xr.Dataset()
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
    ours = hidden.record.own("active", "beta", "pi_init", "pi_bar", "matrices")
    out = {}
    for name, variable in posterior.items():
        if name in ours or not {"chain", "draw", hidden.dim} <= set(variable.dims):
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
    return xr.Dataset(arrays), notes
