"""The table of refusals in docs/data.md: each row is what happens."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_dshdp as dshdp

PAGE = Path(__file__).parents[1] / "docs" / "data.md"
PRIORS = ("DSHDP", "StickyHDP", "HDP", "FixedTransitions")
STEPS = ("GridRhoStep", "DSBlockGibbs", "WeakLimitFFBS")


def rows():
    table = PAGE.read_text().split("## What is refused")[1]
    found = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.+?) \|$", table, re.MULTILINE)
    assert len(found) >= 20
    return found


@pytest.mark.parametrize(("name", "arguments", "message"), rows())
def test_row(name, arguments, message):
    function = getattr(dshdp, name)
    names = {"f": function, "np": np, "pm": pm}
    with pm.Model():
        if name in PRIORS:
            states = "" if "n_states" in arguments else "n_states=3, "
            call = f"f('hmm', {states}{arguments})"
        elif name == "HiddenStates" or name in STEPS:
            names["prior"] = dshdp.DSHDP("hmm", n_states=3)
            call = f"f('z', prior, {arguments})"
            if name in STEPS:
                names["z"] = dshdp.HiddenStates("z", names["prior"], length=4)
                call = f"f([z], {arguments})"
        else:
            call = f"f({arguments})"
        with pytest.raises((ValueError, TypeError), match=re.escape(message)):
            eval(call, names)
