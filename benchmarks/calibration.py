"""Run the calibration suite and write its tables, its picture and their page.

``python -m benchmarks.calibration`` runs every combination of ``tests/statistical/combinations.py``
under Geweke's test, and those of its ``CALIBRATED`` under simulation-based calibration, and
writes into ``docs/calibration``. Results are kept as each combination finishes; those that are
there already, for this PyMC, seed and length, are passed over, so that a run can be resumed.
"""

import argparse
import csv
import datetime
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "statistical")]

import combinations  # noqa: E402
import harness  # noqa: E402
import matplotlib  # noqa: E402
import mutations  # noqa: E402
import numba  # noqa: E402
import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402

import pymc_dshdp  # noqa: E402

OUT = ROOT / "docs" / "calibration"
FIELDS = {
    "runs": ["kind", "combination", "pymc", "length", "seed", "seconds", "date", "python", "numpy",
             "numba", "pymc_dshdp"],
    "geweke": ["pymc", "combination", "statistic", "prior_mean", "chain_mean", "z"],
    "mutations": ["pymc", "name", "what", "test", "draws"],
    "sbc": ["pymc", "combination", "statistic", "chi_square_p", "ecdf_p", "ranks"],
}  # fmt: skip
DRAWS = harness.RANKED_DRAWS


def run(kind, combination, length, seed):
    """Run one combination: (rows, seconds)."""
    start = time.process_time()
    setup = harness.Setup(combination, harness.seed_of(kind, combination, seed))
    found = {"pymc": pm.__version__, "combination": combination.name}
    if kind == "geweke":
        rows = [
            found | {"statistic": s, "prior_mean": f"{a:.6g}", "chain_mean": f"{b:.6g}",
                     "z": f"{z:.3f}"}
            for s, (a, b, z) in harness.geweke(setup, length).items()
        ]  # fmt: skip
        return rows, time.process_time() - start
    rng = np.random.default_rng(seed)
    band = harness.EcdfBand(length)
    rows = []
    for statistic, ranks in harness.calibrate(setup, length).items():
        u = harness.unit_ranks(rng, ranks, DRAWS)
        row = {
            "statistic": statistic,
            "chi_square_p": f"{harness.chi_square(ranks, DRAWS):.4g}",
            "ecdf_p": f"{band.p_value(u):.4g}",
            "ranks": " ".join(map(str, ranks)),
        }
        rows.append(found | row)
    return rows, time.process_time() - start


def read(out, table):
    """Rows of a table, none if it is not there."""
    path = out / f"{table}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(out, table, rows):
    """Add rows to a table."""
    path = out / f"{table}.csv"
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS[table], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def keep(out, kind, combination, length, seed, rows, seconds):
    """Keep the results of one combination; the entry in ``runs`` comes last and makes it count."""
    append(out, kind, rows)
    entry = {
        "kind": kind,
        "combination": combination.name,
        "pymc": pm.__version__,
        "length": length,
        "seed": seed,
        "seconds": f"{seconds:.0f}",
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "pymc_dshdp": pymc_dshdp.__version__,
    }
    append(out, "runs", [entry])
    worst = max(abs(float(r["z"])) for r in rows) if kind == "geweke" else None
    if worst is None:
        worst = min(min(float(r["chi_square_p"]), float(r["ecdf_p"])) for r in rows)
    label = "largest |z|" if kind == "geweke" else "smallest p"
    print(f"{kind:7} {combination.name:60} {label} {worst:.3g}  {seconds:.0f} s", flush=True)


def drop_unfinished(out):
    """Leave out rows of combinations without an entry in ``runs`` (a run that was cut off)."""
    done = {(r["kind"], r["pymc"], r["combination"]) for r in read(out, "runs")}
    for kind in ("geweke", "sbc"):
        rows = read(out, kind)
        kept = [r for r in rows if (kind, r["pymc"], r["combination"]) in done]
        if len(kept) < len(rows):
            (out / f"{kind}.csv").unlink()
            append(out, kind, kept)


def pending(out, plan, seed):
    """Find the runs of the plan that have no entry yet."""
    done = {
        (r["kind"], r["combination"], int(r["length"]), int(r["seed"]))
        for r in read(out, "runs")
        if r["pymc"] == pm.__version__
    }
    return [(k, c, n) for k, c, n in plan if (k, c.name, n, seed) not in done]


def plant_mutations(out):
    """Plant each defect that has no entry yet; returns how many were not caught."""
    done = {r["name"] for r in read(out, "mutations") if r["pymc"] == pm.__version__}
    missed = 0
    for name, mutation in mutations.MUTATIONS.items():
        if name in done:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            draws, output = mutations.caught(name, scratch)
        if draws is None:
            missed += 1
            print(f"{name} NOT CAUGHT\n{output}", flush=True)
            continue
        print(f"{name}: {draws} draws", flush=True)
        row = {"pymc": pm.__version__, "name": name, "what": mutation.what}
        append(out, "mutations", [row | {"test": mutation.test, "draws": draws}])
    return missed


def picture(out):
    """Draw the difference of each rank distribution function from uniformity, with its band."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read(out, "sbc")
    names = sorted({r["statistic"] for r in rows})
    columns = 4
    fig, axes = plt.subplots(
        -(-len(names) // columns), columns, figsize=(12, 2.6 * -(-len(names) // columns)),
        sharex=True, sharey=True, layout="constrained", squeeze=False,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for axis, name in zip(axes.flat, names, strict=False):
        # Where the draws of two versions are equal their curves are one.
        ranks = dict.fromkeys(r["ranks"] for r in rows if r["statistic"] == name)
        curves = [np.array(x.split(), int) for x in ranks]
        band = harness.EcdfBand(len(curves[0]))
        axis.fill_between(
            band.points, band.lower - band.points, band.upper - band.points, color="0.85", lw=0
        )
        for ranks in curves:
            u = np.sort(harness.unit_ranks(rng, ranks, DRAWS))
            ecdf = np.searchsorted(u, band.points, side="right") / len(u)
            axis.plot(band.points, ecdf - band.points, lw=0.9, alpha=0.8)
        axis.axhline(0.0, color="0.4", lw=0.6)
        axis.set_title(f"{name} ({len(curves)})", fontsize=9)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    fig.supxlabel("rank of the truth among posterior draws, as a share", fontsize=9)
    fig.supylabel("distribution function minus uniform", fontsize=9)
    fig.savefig(out / "ranks.png", dpi=110)
    plt.close(fig)


def page(out):
    """Write the page that says what was run and what came out."""
    runs, geweke, sbc = (read(out, table) for table in ("runs", "geweke", "sbc"))
    lines = [
        "# Calibration",
        "",
        "What `python -m benchmarks.calibration` found; every number is in the CSV files here, and",
        "only what was run is listed. The combinations and the harness are in `tests/statistical`.",
        "",
        "| test | PyMC | combinations | length of each | seed | dates | Python, NumPy, numba |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, label in (("geweke", "Geweke"), ("sbc", "SBC")):
        for version in sorted({r["pymc"] for r in runs}):
            these = [r for r in runs if r["kind"] == kind and r["pymc"] == version]
            if these:
                unit = "sweeps" if kind == "geweke" else f"replications of {DRAWS} draws"
                values = {key: ", ".join(sorted({r[key] for r in these})) for key in these[0]}
                lines.append(
                    f"| {label} | {version} | {len(these)} | {values['length']} {unit} | "
                    f"{values['seed']} | {values['date']} | {values['python']}, "
                    f"{values['numpy']}, {values['numba']} |"
                )
    lines += [
        "",
        "Seeds are the same on each version of PyMC: where the draws are too, so are the numbers.",
    ]
    if geweke:
        lines += ["", "## Geweke's joint distribution test", ""]
        for version in dict.fromkeys(r["pymc"] for r in geweke):
            z = np.array([float(r["z"]) for r in geweke if r["pymc"] == version])
            lines.append(
                f"PyMC {version}: {z.size} statistics. |z| above 2: {np.mean(np.abs(z) > 2):.1%} "
                f"(4.6% expected of exact normal scores); above 3: {np.sum(np.abs(z) > 3)} "
                f"({0.0027 * z.size:.1f} expected); above 4: {np.sum(np.abs(z) > 4)}. Largest: "
                f"{np.abs(z).max():.2f}.\n"
            )
        lines += [
            "The rule: at most one above 4 and none above 5 in a run.",
            "",
            "| combination (prior/weights/sampler/family/layout) | PyMC | largest \\|z\\| | of |",
            "|---|---|---|---|",
        ]
        for version, name in dict.fromkeys((r["pymc"], r["combination"]) for r in geweke):
            these = [r for r in geweke if (r["pymc"], r["combination"]) == (version, name)]
            worst = max(these, key=lambda r: abs(float(r["z"])))
            lines.append(
                f"| {name} | {version} | {abs(float(worst['z'])):.2f} | {worst['statistic']} |"
            )
    if sbc:
        lines += ["", "## Simulation-based calibration", ""]
        for version in dict.fromkeys(r["pymc"] for r in sbc):
            these = [r for r in sbc if r["pymc"] == version]
            p = {k: np.array([float(r[k]) for r in these]) for k in ("chi_square_p", "ecdf_p")}
            low = {key: np.sum(x < 0.05) for key, x in p.items()}
            lines.append(
                f"PyMC {version}: {len(these)} rank distributions. Below p = 0.05: "
                f"{low['chi_square_p']} by chi-square ({DRAWS + 1} cells) and {low['ecdf_p']} by "
                "the simultaneous band of the distribution function (Säilynoja, Bürkner & Vehtari "
                f"2022), {0.05 * len(these):.1f} expected of each. Smallest: "
                f"{p['chi_square_p'].min():.2g} and {p['ecdf_p'].min():.2g}.\n"
            )
        lines += [
            "![Rank distributions with their bands](ranks.png)",
            "",
            "Grey: 95% simultaneous band. One curve for each combination (their number).",
            "",
            "| combination | PyMC | smallest p, chi-square | smallest p, band |",
            "|---|---|---|---|",
        ]
        for version, name in dict.fromkeys((r["pymc"], r["combination"]) for r in sbc):
            these = [r for r in sbc if (r["pymc"], r["combination"]) == (version, name)]
            least = [min(float(r[key]) for r in these) for key in ("chi_square_p", "ecdf_p")]
            lines.append(f"| {name} | {version} | {least[0]:.3f} | {least[1]:.3f} |")
    planted = read(out, "mutations")
    if planted:
        versions = {}
        for r in planted:
            versions.setdefault((r["what"], r["test"], r["draws"]), []).append(r["pymc"])
        lines += [
            "",
            "## Planted defects",
            "",
            "Each is planted in the source of one module (`tests/statistical/mutations.py`) and "
            "caught by the test named, after so many draws (0: by enumeration).",
            "",
            "| defect | caught by | draws | PyMC |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {what} | `{test}` | {draws} | {', '.join(found)} |"
            for (what, test, draws), found in versions.items()
        ]
    (out / "README.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=10_000, help="of each Geweke chain")
    parser.add_argument("--replications", type=int, default=300, help="of each calibration")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--subset", choices=("all", "ci"), default="all")
    parser.add_argument("--mutations", action="store_true", help="plant the defects instead")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    if options.mutations:
        missed = plant_mutations(out)
        page(out)
        return 1 if missed else 0
    drop_unfinished(out)
    every, calibrated = combinations.EVERY, combinations.CALIBRATED
    if options.subset == "ci":
        every, calibrated = combinations.SUBSET, combinations.SUBSET_CALIBRATED
    # The subset first, so that a run cut short has been everywhere.
    every = sorted(every, key=lambda c: c not in combinations.SUBSET)
    plan = [("geweke", c, options.sweeps) for c in every]
    plan += [("sbc", c, options.replications) for c in calibrated]
    left = pending(out, plan, options.seed)
    print(f"{len(plan) - len(left)} of {len(plan)} runs are there already", flush=True)
    failed = 0
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        jobs = {pool.submit(run, k, c, n, options.seed): (k, c, n) for k, c, n in left}
        for job in as_completed(jobs):
            if job.exception() is None:
                keep(out, *jobs[job], options.seed, *job.result())
            else:
                failed += 1
                kind, combination, _ = jobs[job]
                print(f"{kind} {combination.name} FAILED: {job.exception()!r}", flush=True)
    if read(out, "sbc"):
        picture(out)
    page(out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
