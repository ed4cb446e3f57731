"""Time from a fresh interpreter to the first draw: python -m benchmarks.startup.

Twice in child processes with caches of their own: cold, where every kernel and graph is compiled,
and warm, where numba and PyTensor find what they compiled before.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import only_help, table

ROOT = Path(__file__).parents[1]


def measure():
    """Seconds of the import, of ``pm.sample`` up to its first draw, and of 500 further draws.

    The model of ``examples/quickstart.py``, one chain, the steps that are chosen automatically;
    after the first two the processor time that they took together, of all threads, and at the end
    how many functions numba compiled after the first draw.
    """
    started = time.perf_counter()
    import pymc as pm
    from numba.core import event

    import pymc_dshdp  # noqa: F401

    imported = time.perf_counter()
    sys.path.insert(0, str(ROOT / "examples"))
    from quickstart import declare, earthquakes

    stamps, late = [], []

    class Listener(event.Listener):
        def on_start(self, compiled):
            late.extend([str(compiled.data["dispatcher"])] if stamps else [])

        def on_end(self, compiled):
            pass

    event.register("numba:compile", Listener())
    model = declare(*earthquakes())
    begun = time.perf_counter()
    with model:
        pm.sample(
            500, tune=1, chains=1, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False, compile_kwargs={"mode": "NUMBA"},
            callback=lambda trace, draw: stamps.append(
                (time.perf_counter(), time.process_time(), len(late))
            ),
        )  # fmt: skip
    first, last = stamps[0], stamps[-1]
    return imported - started, first[0] - begun, first[1], last[0] - first[0], last[2]


def in_a_child(caches):
    """Measure in a new interpreter with its caches in a folder."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": f"{caches}/numba",
        "PYTENSOR_FLAGS": f"base_compiledir={caches}/pytensor",
    }
    command = [sys.executable, "-m", "benchmarks.startup", "--here"]
    out = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    return [float(x) for x in out.split()[-5:]]


def main():
    if "--here" in sys.argv:
        print(*measure())
        return
    only_help(__doc__)
    with tempfile.TemporaryDirectory() as caches:
        rows = [(name, *in_a_child(caches)) for name in ("cold", "warm")]
    table(
        "Start-up, seconds",
        [
            (name, f"{a:.1f}", f"{b:.1f}", f"{cpu:.1f}", f"{c:.2f}", int(n))
            for name, a, b, cpu, c, n in rows
        ],
        ("caches", "import", "to first draw", "CPU of both", "500 more draws", "compiled in them"),
    )


if __name__ == "__main__":
    main()
