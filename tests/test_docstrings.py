"""Every public name has an example in its docstring, which runs as it is written.

Examples go on from ``np``, ``pm``, ``dshdp``, and the ``model``, ``idata`` and ``aligned`` of the
site's first page. Only the numbers of draws and chains are smaller.
"""

import doctest
import inspect

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from test_documentation_blocks import shortly  # noqa: F401

import pymc_dshdp as dshdp

PUBLIC = {name: getattr(dshdp, name) for name in dshdp.__all__ if name != "datasets"}
PUBLIC |= {f"datasets.{name}": getattr(dshdp.datasets, name) for name in dshdp.datasets.__all__}
QUICK = ("align", "segments")


@pytest.fixture
def names(shortly):  # noqa: F811
    """What the examples go on from."""
    years, counts = dshdp.datasets.earthquakes()
    with pm.Model(coords={"state": np.arange(10), "year": years}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), dims="year")
        rate = pm.Gamma("rate", alpha=2.0, beta=0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
        idata = pm.sample()
    given = {"np": np, "pm": pm, "dshdp": dshdp, "years": years, "counts": counts}
    return given | {"model": model, "idata": idata, "aligned": dshdp.align(idata)}


def examples(value):
    return doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    """Fails if one has none, or if its example does not use it."""
    assert "Examples\n--------\n" in inspect.getdoc(PUBLIC[name])
    code = "".join(example.source for example in examples(PUBLIC[name]))
    assert f"dshdp.{name}" in code or name == "datasets.Series"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PUBLIC]
)
def test_examples(name, names):
    """Fails at the first line that does not run, or does not give what is written below it."""
    for example in examples(PUBLIC[name]):
        try:
            given = eval(example.source, names)
        except SyntaxError:
            exec(example.source, names)
            given = None
        if example.want:
            assert repr(given) == example.want.strip(), example.source
        elif given is not None:
            raise AssertionError(f"{example.source} gives {given!r}, which is not written")
    plt.close("all")
