"""Going on with a run."""

import inspect
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from pymc.sampling.parallel import Draw
from pymc.stats.convergence import log_warning_stats
from pymc.step_methods.compound import flatten_steps

from pymc_dshdp._compat import group, make_result
from pymc_dshdp.graph.walks import core_ndim, support
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.model.context import model_in_context, results_first
from pymc_dshdp.runs.chains import build_steps, iterate, positive, starting_positions
from pymc_dshdp.runs.progress import ChainProgress
from pymc_dshdp.runs.state_summary import StateSummary
from pymc_dshdp.steps.states import HELD_ITERATIONS, StatesStep

__all__ = ["continue_sampling"]

POLL_SECONDS = 0.2
OF_SAMPLE = set(inspect.signature(pm.sample).parameters) - {"kwargs"}


@results_first
def continue_sampling(
    run: Any,
    *,
    model: pm.Model | None = None,
    draws: int = 1000,
    step: Any = None,
    start: Any = None,
    random_seed: Any = None,
    **kwargs: Any,
) -> Any:
    """Go on with a run of ``pm.sample``.

    *From a* ``ZarrTrace`` (or its path), bit for bit: 30 draws and 30 more are the 60 of one run.
    Nothing is tuned again. If the run was interrupted, it is finished first; ``draws=0`` does
    only that. The store grows, so that the continuation can itself be interrupted.

    *From a result*, equal in distribution: each chain starts from its last draw and tunes again,
    with new random numbers; its states are neither held nor taken from the data again.

    Parameters
    ----------
    run : ZarrTrace, str, path, arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        The model of the run. Default: that of the context.
    draws : int
        Draws to add to each chain.
    step : optional
        Steps given to ``pm.sample``; they must be given again.
    start : StateSummary or its result, optional
        Of the run: where to find the last draw of variables that the result does not have.
    random_seed : optional
        From a result, of the new draws. From a store, for chains that had not begun: that of
        the run.
    **kwargs
        From a result, those of ``pm.sample``; ``chains`` can only be what it is, and ``var_names``
        some of the variables that the result has. From a store ``cores``, ``callback`` (chains
        then run one after another), ``progressbar`` and ``compile_kwargs``. From either, options
        of steps as ``pm.sample`` takes them, ``nuts={"target_accept": 0.9}``, say.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The whole run: the earlier draws and the new ones.

    Raises
    ------
    ValueError
        If the run is not one of this model or was sampled by other steps, if free variables
        were not stored, with their names, or if an argument would change what the run has.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(trace=dshdp.ZarrTrace("run.zarr"))
    >>> longer = dshdp.continue_sampling("run.zarr", model=model, draws=1000)
    """
    model = model_in_context(model)
    if isinstance(run, (str, os.PathLike)):
        from pymc_dshdp.runs.zarr_trace import ZarrTrace

        run = ZarrTrace.open(run)
    if hasattr(run, "positions"):
        if start is not None:
            raise ValueError("start is for a result; a ZarrTrace has the last point of each chain")
        draws = positive("draws", draws, least=0)
        return _from_store(model, run, draws, step, random_seed, **kwargs)
    if not hasattr(run, "keys") or "posterior" not in run:
        raise TypeError(
            "run must be a ZarrTrace of pymc_dshdp, its path, or a result of pm.sample with a "
            f"posterior; received {type(run).__name__}"
        )
    draws = positive("draws", draws)
    return _from_result(model, run, draws, step, start, random_seed, **kwargs)


# -- from a result ------------------------------------------------------------------------------


def _from_result(
    model, run, draws, step, start, random_seed, *, chains=None, var_names=None, **kwargs
):
    posterior = group(run, "posterior")
    stored = [str(name) for name in posterior.data_vars]
    if chains not in (None, posterior.sizes["chain"]):
        raise ValueError(
            f"chains must be {posterior.sizes['chain']}, as the result has, since each goes on "
            f"from its last draw; received {chains!r}"
        )
    unknown = sorted(set(var_names or ()) - set(stored))
    if unknown:
        raise ValueError(
            f"var_names has {unknown}, of which the result has no draws to go on with; it has "
            f"{stored}"
        )
    if "initvals" in kwargs:
        raise ValueError("initvals cannot be given: each chain starts from its last draw")
    options = _step_options(kwargs)
    start = start.to_inferencedata() if isinstance(start, StateSummary) else start
    initvals = _last_draws(model, posterior, None if start is None else group(start, "posterior"))
    with model:
        built = build_steps(
            model,
            model.initial_point(),
            step,
            kwargs.get("compile_kwargs"),
            **options,
        )
    for one in flatten_steps(built):
        if isinstance(one, StatesStep):
            one.held = HELD_ITERATIONS
    new = pm.sample(
        draws,
        model=model,
        step=built,
        chains=len(initvals),
        initvals=initvals,
        random_seed=random_seed,
        var_names=stored if var_names is None else list(var_names),
        **kwargs,
    )
    return _joined(run, new)


def _step_options(kwargs):
    """Take the options of steps out of the keyword arguments of ``pm.sample``."""
    options = {key: kwargs.pop(key) for key in list(kwargs) if key not in OF_SAMPLE}
    if "target_accept" in options:
        accept = options.pop("target_accept")
        if "target_accept" in options.get("nuts", {}):
            raise ValueError("target_accept was given twice, by itself and in nuts")
        options["nuts"] = {**options.get("nuts", {}), "target_accept": accept}
    return options


def _last_draws(model, posterior, kept):
    """Last values of the free variables, one dictionary per chain."""
    missing, values = [], {}
    for rv in model.free_RVs:
        source = next((d for d in (posterior, kept) if d is not None and rv.name in d), None)
        if source is not None:
            values[rv] = _inside(model, rv, source[rv.name].isel(draw=-1).values)
        elif not is_missing_observation(rv):
            missing.append(rv.name)
    if missing:
        raise ValueError(
            f"the result lacks {missing}, free variables of the model, so no chain can go on from "
            "it. Pass start= a StateSummary of the run, or its result, which has a draw of them; "
            "next time sample with them in var_names, or to a ZarrTrace"
        )
    chains = posterior.sizes["chain"]
    for rv, last in values.items():
        expected = rv.type.shape
        if last.shape[0] != chains:
            raise ValueError(
                f"{rv.name!r} has {last.shape[0]} chains in start and {chains} in the result"
            )
        if len(expected) != last.ndim - 1 or any(
            e is not None and e != n for e, n in zip(expected, last.shape[1:], strict=False)
        ):
            raise ValueError(
                f"{rv.name!r} has shape {last.shape[1:]} in the result and {expected} in the "
                "model; continue with the model of the run"
            )
    return [{rv.name: last[c] for rv, last in values.items()} for c in range(chains)]


def _inside(model, rv, values):
    """Values that rounding put on the edge of their support, moved next to it."""
    if model.rvs_to_transforms[rv] is None or core_ndim(rv) > 0:
        return values
    try:
        low, high = support(model, rv)
    except ValueError:  # bounds that are random variables
        return values
    return np.clip(values, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))


def _joined(old, new):
    """One result of two, new draws after old ones."""
    names = [name for name in ("posterior", "sample_stats") if name in old and name in new]
    groups = {}
    for name in names:
        one, two = group(old, name), group(new, name)
        common = [v for v in one.data_vars if v in two]
        two = two.assign_coords(chain=one["chain"])
        whole = xr.concat([one[common], two[common]], "draw", join="override")
        groups[name] = whole.assign_coords(draw=np.arange(whole.sizes["draw"]))
        groups[name].attrs = two.attrs
    for name in ("constant_data", "observed_data"):
        if name in new:
            groups[name] = group(new, name)
    return make_result(groups)


# -- from a store -------------------------------------------------------------------------------


def _from_store(
    model,
    trace,
    draws,
    step,
    random_seed,
    *,
    cores=None,
    callback=None,
    progressbar=True,
    compile_kwargs=None,
    **kwargs,
):
    options = _step_options(kwargs)
    if kwargs:
        raise ValueError(
            f"{sorted(kwargs)} cannot be given for a store, whose run goes on as it was begun; "
            "leave them out"
        )
    positions = trace.positions()
    fresh = model.initial_point()
    if any(position is None for position in positions):
        begun = starting_positions(model, len(positions), random_seed)
        positions = [old or new for old, new in zip(positions, begun, strict=True)]
    _check_points(positions, fresh)
    with model:
        built = build_steps(model, positions[0].point, step, compile_kwargs, **options)
    _check_states(built, positions)
    before = built.sampling_state
    trace.prepare_to_go_on(model, built, draws, positions, fresh)
    tune, total = trace.tuning_steps, trace.planned_draws
    left = [c for c, p in enumerate(positions) if p.done < tune + total]
    cores = min(4, os.cpu_count() or 1) if cores is None else positive("cores", cores)
    began = time.time()
    with ChainProgress(len(positions), tune + total, progressbar) as progress:
        for chain, position in enumerate(positions):
            progress.update(chain, position.done)
        if cores == 1 or len(left) < 2 or callback is not None:
            for chain in left:
                built.sampling_state = before
                _run_chain(built, trace, chain, positions[chain], tune, total, callback, progress)
        else:
            _run_in_processes(built, trace, left, positions, tune, total, cores, progress)
    trace.sampling_time = trace.sampling_time + time.time() - began
    return trace.to_inferencedata()


def _check_points(positions, expected):
    for position in positions:
        found = {name: np.shape(value) for name, value in position.point.items()}
        wanted = {name: np.shape(value) for name, value in expected.items()}
        if found != wanted:
            differ = sorted(n for n in found | wanted if found.get(n) != wanted.get(n))
            raise ValueError(
                f"the stored run is one of another model: {differ} differ in name or shape; "
                "continue with the model of the run"
            )


def _check_states(step, positions):
    """Raise if a stored sampling state does not fit the steps."""
    before = step.sampling_state
    for position in positions:
        state = position.state
        if state is None:
            continue
        fits = len(getattr(state, "methods", "1")) == len(getattr(step, "methods", "1"))
        try:
            step.sampling_state = state
        except (AssertionError, ValueError) as error:
            fits = False
            reason = error
        else:
            reason = "the number of steps differs"
        if not fits:
            raise ValueError(
                f"the stored run was sampled by other steps ({reason}); pass step= with those "
                "that pm.sample was given"
            )
    step.sampling_state = before


def _run_chain(step, trace, chain, position, tune, draws, callback=None, progress=None):
    recorder = trace.straces[chain]
    recorder.link_stepper(step)
    for i, point, stats in iterate(step, position, tune, draws):
        recorder.record(point, stats, in_warmup=i < tune)
        log_warning_stats(stats)
        if callback is not None:
            last = i + 1 == tune + draws
            callback(trace=recorder, draw=Draw(chain, last, i, i < tune, stats, point))
        if progress is not None:
            progress.update(chain, i + 1)


_work = None


def _receive(work):
    global _work
    _work = cloudpickle.loads(work) if isinstance(work, bytes) else work


def _run_received(chain):
    step, trace, positions, tune, draws = _work
    _run_chain(step, trace, chain, positions[chain], tune, draws)


def _run_in_processes(step, trace, chains, positions, tune, draws, cores, progress):
    context = multiprocessing.get_context()
    work = step, trace, positions, tune, draws
    if context.get_start_method() != "fork":
        work = cloudpickle.dumps(work)
    with ProcessPoolExecutor(
        min(cores, len(chains)), context, initializer=_receive, initargs=(work,)
    ) as pool:
        waiting = {pool.submit(_run_received, chain) for chain in chains}
        while waiting:
            finished, waiting = wait(waiting, POLL_SECONDS)
            for chain, number in enumerate(trace.iterations()):
                progress.update(chain, int(number))
            for future in finished:
                future.result()
