"""On PyMC 5.28 the samplers' statistics are among the slow tests.

The samplers and the random numbers that they draw are the same on both versions, and so are the
draws: published scores of Geweke's test agree to the last digit (``docs/calibration``). What
differs between the versions is tested everywhere else.
"""

from pathlib import Path

import pytest

from pymc_dshdp._compat import PYMC_6

STATISTICS = {
    "test_calibration",
    "test_direct_assignment_agreement",
    "test_direct_assignment_priors",
    "test_direct_assignment_stationary",
    "test_geweke",
    "test_geweke_kernels",
    "test_mutations",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        path = Path(item.path)
        if not PYMC_6 and path.parent == Path(__file__).parent and path.stem in STATISTICS:
            item.add_marker(pytest.mark.slow)
