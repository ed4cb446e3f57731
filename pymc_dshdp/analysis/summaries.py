"""What a result says, in tables."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.text import Text

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.invariant import diagnostics, label_invariant
from pymc_dshdp.analysis.report import Report, interval, rounded, table
from pymc_dshdp.analysis.result import (
    element_labels,
    find_prior,
    state_labels,
)
from pymc_dshdp.kernels.segmentations import count_visits, occupancies
from pymc_dshdp.typing import Result

__all__ = ["Summary", "quantiles_over", "summary", "transitions_frame"]

PRINTED_STATES = 12
PRINTED_COLUMNS = 10
PRINTED_PARAMETERS = 8


@dataclass(frozen=True, repr=False)
class Summary(Report):
    """Tables of a result; it prints them, and holds each as a DataFrame.

    States are numbered as by ``align``; what is said of a state is over the draws that occupy it.
    ``lower`` and ``upper`` bound the central interval of probability ``prob``.

    Of a prior with groups, what differs between them is in ``groups`` and not in ``states``, and
    what is said of a state in a group is over the draws in which the group occupies it.

    Attributes
    ----------
    occupied : pandas.DataFrame
        Posterior ``probability`` of each number of occupied states.
    active : pandas.DataFrame
        Posterior ``probability`` of each number of active states, occupied or not, of a mixture of
        finite mixtures; empty where the prior is no such.
    states : pandas.DataFrame
        A row for each state that some draw occupies: ``in_use``, the share of draws that occupy
        it; ``occupancy``, its share of all time points over all draws, and its interval;
        ``self_persistence`` (kappa), ``stay`` (P_jj), ``expected_dwell`` (1 / (1 - P_jj)) and
        ``observed_dwell`` (mean length of its runs; one ends with its sequence), each the
        posterior median with ``_lower`` and ``_upper``.
    groups : pandas.DataFrame
        The columns of ``states`` for each group and state, by (group, state): shares are of the
        time points of the group. Empty without groups.
    transitions : pandas.DataFrame
        ``mean``, ``lower`` and ``upper`` of the transition probabilities between the main states,
        by (from, to), or (group, from, to).
    parameters : pandas.DataFrame
        ``mean``, ``sd``, ``lower`` and ``upper`` of the other variables with the state dimension,
        for the main states, by (variable, state, ...).
    diagnostics : pandas.DataFrame
        ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail`` of the quantities that do not
        depend on the numbering of the states.
    main : list
        The main states: occupied in at least half of the draws.
    n_states : int
        L.
    is_truncation : bool
        Whether L is a truncation, and not the number of states itself.
    truncated : float
        Share of draws that occupy all L states.
    prob : float
    shape : tuple
        Numbers of chains, draws, sequences and time points.
    """

    occupied: pd.DataFrame
    active: pd.DataFrame
    states: pd.DataFrame
    groups: pd.DataFrame
    transitions: pd.DataFrame
    parameters: pd.DataFrame
    diagnostics: pd.DataFrame
    main: list
    n_states: int
    is_truncation: bool
    truncated: float
    prob: float
    shape: tuple

    @property
    def transition_matrix(self):
        """Posterior mean of P between the main states, a square DataFrame; by group, if any."""
        matrix = self.transitions["mean"].unstack("to")[self.main]
        return matrix.loc[self.transitions.index.droplevel("to").unique()]

    def __rich_console__(self, console, options):
        chains, draws, sequences, times = self.shape
        yield Text(
            f"{times:,} time points in {sequences:,} sequence{'s' * (sequences > 1)}; {chains} "
            f"chain{'s' * (chains > 1)} of {draws:,} draws; intervals of probability "
            f"{self.prob:g}\n"
        )
        for counts, title in ((self.occupied, "Occupied states"), (self.active, "Active states")):
            share = counts["probability"]
            share = share[share >= 0.005]
            if share.empty:
                continue
            bars = pd.DataFrame({"probability": [f"{p:.2f} {'#' * round(40 * p)}" for p in share]})
            yield from table(bars.set_index(share.index), title, options, justify="left")
        if self.is_truncation:
            advice = "; raise n_states" if self.truncated > 0.01 else ""
            yield Text(
                f"{self.truncated:.1%} of the draws occupy all {self.n_states} states of the "
                f"truncation{advice}\n"
            )
        yield from table(self._states_table(), "Main states, numbered by occupancy", options)
        more = len(self.main) - PRINTED_STATES
        rest = self.states.drop(index=self.main)
        if more > 0:
            yield Text(f"{more} more main state{'s are' if more > 1 else ' is'} in .states\n")
        if len(rest):
            one = len(rest) == 1
            yield Text(
                f"{len(rest)} further state{' is' if one else 's are each'} occupied in fewer than "
                f"half of the draws; {'it holds' if one else 'together they hold'} "
                f"{rest['occupancy'].sum():.1%} of the time\n"
            )
        unprinted = [name for name in self._names() if name not in self._printed_names()]
        if unprinted:
            yield Text(f"{', '.join(unprinted)}: see .parameters\n")
        yield from self._groups_tables(options)
        shown = self.main[:PRINTED_COLUMNS]
        which = "" if len(shown) == len(self.main) else f" of the first {len(shown)} states"
        for title, matrix in each_group(self.transition_matrix, f"Transition matrix{which}"):
            matrix = matrix.loc[shown, shown].map("{:.3f}".format)
            matrix.index.name = "from \\ to"
            yield from table(matrix, f"{title}, posterior mean", options)
        yield from table(
            rounded(self.diagnostics), "What does not depend on the numbering", options
        )

    def _groups_tables(self, options):
        """Give the main states of all groups beside each other."""
        titles = {"occupancy": "% of time", "expected_dwell": "Expected dwell"}
        for name, title in titles.items():
            columns = {}
            for label in [] if self.groups.empty else self.groups.index.unique("group"):
                part = self.groups.loc[label].reindex(self.main[:PRINTED_STATES])
                scale = 100.0 if name == "occupancy" else 1.0
                columns[label] = interval(
                    *(scale * part[f"{name}{end}"] for end in ("", "_lower", "_upper"))
                )
            if columns:
                shown = pd.DataFrame(columns, pd.Index(self.main[:PRINTED_STATES], name="state"))
                yield from table(shown, f"{title}, by group", options)

    def _names(self):
        """Names of the state parameters."""
        return list(dict.fromkeys(self.parameters.index.get_level_values("variable")))

    def _printed_names(self):
        """Names of those that have one number for each state, up to a number of them."""
        element = self.parameters.index.get_level_values("element")
        scalars = self.parameters.index.get_level_values("variable")[element == ""]
        return list(dict.fromkeys(scalars))[:PRINTED_PARAMETERS]

    def _states_table(self):
        shown = self.states.loc[self.main[:PRINTED_STATES]]
        names = {
            "self_persistence": "kappa",
            "expected_dwell": "expected dwell",
            "observed_dwell": "observed dwell",
        }
        bounds = 100 * shown["occupancy_lower"], 100 * shown["occupancy_upper"]
        columns = {
            "in use": [f"{p:.0%}" for p in shown["in_use"]],
            "% of time": interval(100 * shown["occupancy"], *bounds),
        }
        for name, title in names.items():
            if name in shown:
                bounds = shown[f"{name}_lower"], shown[f"{name}_upper"]
                columns[title] = interval(shown[name], *bounds)
        for name in self._printed_names():
            part = self.parameters.loc[name].droplevel("element").reindex(shown.index)
            columns[name] = interval(part["mean"], part["lower"], part["upper"])
        return pd.DataFrame(columns, shown.index)


def summary(idata: Result, *, states: str | None = None, prob: float | None = None) -> Summary:
    """Summarise a result: how many states, what each is, how long it lasts, what follows it.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    states : str, optional
        The hidden-state variable, where there are several.
    prob : float, optional
        Probability of the central intervals. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.

    Returns
    -------
    Summary
        Print it; its tables are DataFrames.

    Raises
    ------
    ValueError
        If the state variable, its dimension or its transition prior cannot be found, or if
        ``prob`` is not in (0, 1).

    Examples
    --------
    >>> table = dshdp.summary(aligned, prob=0.9)
    >>> dwell = table.states["expected_dwell"]
    """
    prob, level = central_levels(prob)
    idata, hidden = aligned(idata, states)
    prior = find_prior(idata, hidden)
    posterior = group(idata, "posterior")
    paths = hidden.paths()
    sizes, _ = occupancies(paths, hidden.n_states)
    visits = count_visits(paths, hidden.lengths, hidden.n_states)
    occupied = sizes > 0
    coordinate = state_labels(posterior, hidden)
    main = np.flatnonzero(occupied.mean(axis=0) >= 0.5)
    ever = np.flatnonzero(occupied.any(axis=0))
    whole = None if prior.groups else prior
    parts = [of_group(hidden, prior, g) for g in range(len(prior.group_labels))]
    labels = coordinate[ever]
    of_states = _states_frame(whole, sizes, visits, ever, labels, level)
    by_state = [_states_frame(p, n, v, ever, labels, level) for p, n, v in parts if prior.groups]
    numbers = hidden.record.own("n_active") & set(posterior)
    active = [posterior[name].values.ravel() for name in numbers]
    return Summary(
        occupied=_shares_of_numbers(occupied.sum(axis=1)),
        active=_shares_of_numbers(np.concatenate([np.empty(0, int), *active])),
        states=of_states,
        groups=by_group(prior, by_state) if prior.groups else of_states.iloc[:0],
        transitions=by_group(
            prior,
            [
                transitions_frame(p, sizes > 0, main, coordinate[main], level)
                for p, sizes, _ in parts
            ],
        ),
        parameters=_parameters_frame(posterior, hidden, prior, occupied, main, coordinate, level),
        diagnostics=diagnostics(label_invariant(idata, states=hidden.name)),
        main=coordinate[main].tolist(),
        n_states=hidden.n_states,
        is_truncation=hidden.truncated,
        truncated=float(occupied.all(axis=1).mean()),
        prob=prob,
        shape=(*hidden.z.shape[:2], len(hidden.lengths), paths.shape[1]),
    )


def of_group(hidden, prior, g):
    """Find the transitions of a group, and the times and visits of its states in each draw."""
    paths, lengths = hidden.of_group(g)
    sizes, _ = occupancies(paths, hidden.n_states)
    return prior.of_group(g), sizes, count_visits(paths, lengths, hidden.n_states)


def by_group(prior, frames):
    """Put frames of the groups under each other; without groups the one as it is."""
    if prior.groups is None:
        return frames[0]
    return pd.concat(frames, keys=prior.group_labels, names=["group"])


def each_group(frame, title):
    """Yield (title, frame) of each group of a frame of ``by_group``."""
    if "group" not in frame.index.names:
        yield title, frame
        return
    for label in frame.index.unique("group"):
        yield f"{title} of {label}", frame.loc[label]


def _shares_of_numbers(numbers):
    """Tabulate the share of each number that occurs."""
    found, counts = np.unique(numbers, return_counts=True)
    share = counts / max(1, len(numbers))
    return pd.DataFrame({"probability": share}, index=pd.Index(found, name="states"))


def central_levels(prob):
    """Probability of a central interval, by default ArviZ's, and its two quantile levels."""
    if prob is None:
        import arviz as az  # see analysis/convergence.py

        prob = az.rcParams["stats.ci_prob"]
    if not 0 < prob < 1:
        raise ValueError(f"prob must be in (0, 1), received {prob!r}")
    return prob, np.array([(1 - prob) / 2, (1 + prob) / 2])


def quantiles_over(values, where, q):
    """Take quantiles over the draws selected for each entry: (len(q), ...)."""
    where = np.broadcast_to(where, values.shape)
    out = np.full((len(q), *values.shape[1:]), np.nan)
    for index in np.ndindex(values.shape[1:]):
        chosen = values[(slice(None), *index)][where[(slice(None), *index)]]
        if chosen.size:
            out[(slice(None), *index)] = np.quantile(chosen, q)
    return out


def _states_frame(prior, sizes, visits, ever, labels, level):
    occupied = sizes[:, ever] > 0
    q = np.array([0.5, *level])
    with np.errstate(invalid="ignore"):  # a group may have no times
        occupancy = sizes[:, ever] / sizes.sum(axis=1, keepdims=True)
    columns = {"in_use": occupied.mean(axis=0), "occupancy": occupancy.mean(axis=0)}
    columns["occupancy_lower"], columns["occupancy_upper"] = np.quantile(occupancy, level, axis=0)
    quantities = {}
    if prior is not None:
        rows = prior.pi_bar.values.reshape(len(sizes), *prior.pi_bar.shape[2:])[:, ever]
        rows[:, np.arange(len(ever)), ever] = 0.0
        leave = rows.sum(axis=2)
        if prior.kappa is not None:
            kappa = prior.kappa.values.reshape(sizes.shape)[:, ever]
            leave = (1.0 - kappa) * leave
            quantities["self_persistence"] = kappa
        quantities["stay"] = 1.0 - leave
    with np.errstate(divide="ignore", invalid="ignore"):
        quantities["observed_dwell"] = sizes[:, ever] / visits[:, ever]
    for name, values in quantities.items():
        middle, lower, upper = quantiles_over(values, occupied, q)
        columns |= {name: middle, f"{name}_lower": lower, f"{name}_upper": upper}
        if name == "stay":  # the quantiles of 1 / leave: those of leave, from above
            with np.errstate(divide="ignore"):
                middle, lower, upper = 1.0 / quantiles_over(leave, occupied, 1.0 - q)
            name = "expected_dwell"
            columns |= {name: middle, f"{name}_lower": lower, f"{name}_upper": upper}
    return pd.DataFrame(columns, pd.Index(labels, name="state"))


def transitions_frame(prior, occupied, main, labels, level):
    """Tabulate transition probabilities between some states, over the draws that occupy the first.

    Parameters
    ----------
    prior : Prior
    occupied : ndarray of shape (S, L)
    main : ndarray of int, shape (K,)
        The states.
    labels : ndarray of shape (K,)
    level : sequence of float
        Probabilities of the lower and of the upper quantile.

    Returns
    -------
    pandas.DataFrame
        ``mean``, ``lower`` and ``upper`` by (from, to).
    """
    P = prior.transition_matrices(main)
    where = np.broadcast_to(occupied[:, main, None], P.shape)
    lower, upper = quantiles_over(P, where, level)
    with np.errstate(invalid="ignore"):  # a group may occupy a state in no draw
        mean = P.sum(axis=0, where=where) / where.sum(axis=0)
    return pd.DataFrame(
        {
            "mean": mean.ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
        },
        pd.MultiIndex.from_product([labels, labels], names=["from", "to"]),
    )


def _parameters_frame(posterior, hidden, prior, occupied, main, coordinate, level):
    rows, keys = [], []
    own = hidden.record.own("active", "beta", "kappa", "pi_init", "pi_bar", "matrices")
    for name, variable in posterior.items():
        if name in own or hidden.dim not in variable.dims:
            continue
        if not {"chain", "draw"} <= set(variable.dims) or variable.dtype.kind not in "fiub":
            continue
        variable = variable.transpose("chain", "draw", hidden.dim, ...)
        elements = element_labels(variable, variable.dims[3:])
        values = variable.values.reshape(len(occupied), hidden.n_states, -1).astype(float)
        for k in main:
            chosen = values[occupied[:, k], k]
            bounds = np.quantile(chosen, level, axis=0)
            for e, element in enumerate(elements):
                x = chosen[:, e]
                rows.append([x.mean(), x.std(), *bounds[:, e]])
                keys.append((str(name), coordinate[k], element))
    index = pd.MultiIndex.from_tuples(keys, names=["variable", "state", "element"])
    return pd.DataFrame(rows, index, columns=["mean", "sd", "lower", "upper"], dtype=float)
