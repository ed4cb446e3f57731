"""Scores of numbers of states, in a table."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.text import Text

from pymc_dshdp.analysis.report import Report, table

__all__ = ["StateChoice"]

BETTER = {"held_out": ("held-out score", 1), "aic": ("AIC", -1), "bic": ("BIC", -1)}


@dataclass(frozen=True, repr=False)
class StateChoice(Report):
    """Scores of numbers of states; it prints them, and holds them as a DataFrame.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each number of states. ``held_out``, the log predictive density of what was held
        out given the rest, its standard error ``se`` over folds, its difference to the best
        ``diff`` and the standard error of that ``dse``; ``log_likelihood``, the largest that was
        found, the path summed out; ``parameters``, their number p; ``aic``, 2 p - 2
        log_likelihood; ``bic``, p log(n) - 2 log_likelihood; ``ascents``, the share of the ascents
        that came to this maximum. NaN where no ascent came
        to any: the likelihood may have no bound.
    parameters : pandas.DataFrame
        How the p were counted, by variable.
    n : int
        Times at which anything was observed.
    models, results : dict
        By the number of states: the models of all data, and their posteriors.
    """

    table: pd.DataFrame
    parameters: pd.DataFrame
    n: int
    models: dict
    results: dict

    def best(self, by: str = "held_out") -> int:
        """Return the number of states that is best by a column: "held_out", "aic" or "bic"."""
        if by not in BETTER:
            raise ValueError(f"by must be one of {list(BETTER)}, received {by!r}")
        if self.table[by].isna().all():
            raise ValueError(f"by={by!r} is of no number of states known: no maximum was found")
        return int((BETTER[by][1] * self.table[by]).idxmax())

    def __rich_console__(self, console, options):
        found = self.table
        text = pd.DataFrame(
            {
                "held out": _both(found["held_out"], found["se"]),
                "difference": _both(found["diff"], found["dse"]),
                "log lik": _decimals(found["log_likelihood"], 2),
                "p": found["parameters"].astype(str),
                "AIC": _decimals(found["aic"], 1),
                "BIC": _decimals(found["bic"], 1),
                "ascents": [f"{share:.0%}" for share in found["ascents"]],
            },
            found.index,
        )
        yield from table(text, "Scores, with standard errors over folds", options)
        yield from table(self.parameters.astype(str), "Free parameters, p", options)
        best = [
            f"{self.best(by)} by {name}"
            for by, (name, _) in BETTER.items()
            if found[by].notna().any()
        ]
        yield Text(f"n = {self.n} times in BIC. Best: {', '.join(best)}")
        lost = list(found.index[found["log_likelihood"].isna()])
        if lost:
            yield Text(f"No maximum of the likelihood was found for {lost} states")


def _decimals(values, digits):
    return ["-" if np.isnan(x) else f"{x:.{digits}f}" for x in values]


def _both(values, errors):
    return [
        f"{value} ({error})"
        for value, error in zip(_decimals(values, 2), _decimals(errors, 2), strict=True)
    ]
