"""Where compiled kernels are kept."""

import subprocess
import sys

CODE = """
import warnings
import numba.core.caching as caching

def read_only(self):
    raise OSError(30, "Read-only file system")

for name, locator in list(vars(caching).items()):
    if isinstance(locator, type) and ("InTreeCache" in name or "UserWideCache" in name):
        locator.ensure_cache_path = read_only
import pymc
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import pymc_dshdp
from pymc_dshdp.kernels.slice import slice_sample
from pymc_dshdp.kernels.counts import occupied_states, empty_counts
print(occupied_states(empty_counts(3)))
print([str(w.message) for w in seen if "NUMBA_CACHE_DIR" in str(w.message)])
"""


def test_no_folder_can_be_written_to(monkeypatch):
    """The package is imported and compiles, and one line says how to keep what it compiled."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    occupied, warned = run.stdout.strip().splitlines()
    assert occupied == "0"
    assert warned.count("NUMBA_CACHE_DIR") == 1
