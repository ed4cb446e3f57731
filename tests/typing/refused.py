"""Calls that a type checker must refuse; run as a script, it asks mypy whether each is.

Every line that ends with ``# refused`` must have an error, and no other line may have one.
"""

import sys
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from pymc_dshdp.typing import Result


def calls(idata: Result) -> None:
    """Right and wrong calls; never made."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=5, alpha=pm.HalfNormal("a", 10.0), phi=0.9)
        dshdp.DSHDP("hmm", n_states="five")  # refused
        dshdp.DSHDP("hmm", n_states=5, weights="sticks")  # refused
        z = dshdp.HiddenStates("z", prior, length=10)
        dshdp.HiddenStates("z", 3, length=10)  # refused
        dshdp.HiddenStates("z", prior, length="x")  # refused
        dshdp.HiddenStates("z", prior, 10)  # refused
        dshdp.WeakLimitFFBS([z], threads="all")  # refused
    dshdp.smooth(idata, model=model, observed={"y": np.zeros(3)})
    dshdp.smooth(model, idata)  # refused
    dshdp.align(idata)["posterior"]
    dshdp.align(idata, states=3)  # refused
    dshdp.summary(idata, prob="90%")  # refused
    dshdp.forecast(idata, model=model, horizon=12)
    dshdp.forecast(idata, model=model, horizon="a year")  # refused
    dshdp.StateSummary(model=model, every="10")  # refused


def main() -> None:
    """Ask mypy."""
    from mypy import api

    here = Path(__file__)
    report, _, _ = api.run(["--config-file", str(here.parents[2] / "pyproject.toml"), str(here)])
    found = {int(line.split(":")[1]) for line in report.splitlines() if here.name in line}
    lines = here.read_text().splitlines()
    wanted = {i for i, line in enumerate(lines, 1) if line.endswith("  # refused")}
    if found != wanted:
        sys.exit(
            f"not refused: lines {sorted(wanted - found)}; refused: {sorted(found - wanted)}\n"
            + report
        )
    print(f"{len(wanted)} wrong calls are refused")


if __name__ == "__main__":
    main()
