"""The table of refusals in docs/data.md: each row is what happens."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from results import result

import pymc_dshdp as dshdp

PAGE = Path(__file__).parents[1] / "docs" / "data.md"
PRIORS = ("DSHDP", "StickyHDP", "HDP", "FixedTransitions")
STEPS = ("GridRhoStep", "DSBlockGibbs", "WeakLimitFFBS")


def rows():
    table = PAGE.read_text().split("## What is refused")[1]
    found = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.+?) \|$", table, re.MULTILINE)
    assert len(found) >= 20
    return found


@pytest.fixture(scope="module")
def names():
    """What the rows of the table speak of: models of counts, and a result of one."""
    truth, counts = np.repeat([0, 1, 2], 4), np.arange(12.0)
    model = counts_model(lambda: counts.astype(int))
    counts[1] = 2.5
    return {
        "np": np,
        "pm": pm,
        "model": model,
        "fractional": counts_model(lambda: pm.Data("counts", counts)),
        "z": model["z"],
        "idata": result(truth, 4, chains=2, draws=5),
        "truth": truth,
    }


def counts_model(observed):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=4), length=12)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=4)
        pm.Poisson("y", rate[z], observed=observed())
    return model


def test_every_public_function_is_in_the_table():
    assert {name for name, *_ in rows()} == set(dshdp.__all__) - {"datasets"}


@pytest.mark.parametrize(("name", "arguments", "message"), rows())
def test_row(name, arguments, message, names):
    names = {**names, "f": getattr(dshdp, name)}
    with pm.Model():
        if name in PRIORS:
            states = "" if "n_states" in arguments else "n_states=3, "
            call = f"f('hmm', {states}{arguments})"
        elif name == "HiddenStates" or (name in STEPS and not arguments.startswith("[")):
            names["prior"] = dshdp.DSHDP("hmm", n_states=3)
            call = f"f('z', prior, {arguments})"
            if name in STEPS:
                names["z"] = dshdp.HiddenStates("z", names["prior"], length=4)
                call = f"f([z], {arguments})"
        else:
            call = f"f({arguments})"
        with pytest.raises((ValueError, TypeError, OSError), match=re.escape(message)):
            eval(call, names)
