"""Chains on the workers of a dask cluster."""

import time
import uuid
import warnings
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pymc as pm
import xarray as xr
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray
from pymc.stats.convergence import log_warning_stats
from pymc.util import drop_warning_stat

from pymc_dshdp._compat import group, make_result
from pymc_dshdp.graph.path import storage_dtypes
from pymc_dshdp.model.context import model_in_context
from pymc_dshdp.runs.chains import (
    build_steps,
    default_tune,
    iterate,
    positive,
    starting_positions,
    trace_variables,
)
from pymc_dshdp.runs.progress import ChainProgress

__all__ = ["sample_distributed"]

REPORT_SECONDS = 0.5


def sample_distributed(
    draws: int = 1000,
    *,
    client: Any,
    model: pm.Model | None = None,
    tune: int | None = None,
    chains: int = 4,
    random_seed: Any = None,
    step: Any = None,
    initvals: Any = None,
    var_names: Sequence[str] | None = None,
    compile_kwargs: dict[str, Any] | None = None,
    discard_tuned_samples: bool = True,
    progressbar: bool = True,
    **step_kwargs: Any,
) -> Any:
    """Sample one chain per task on a dask cluster.

    The draws are those of ``pm.sample`` with the same arguments and seed on one machine: model,
    steps, generators and starting points are made here, as ``pm.sample`` makes them, and sent. A
    chain whose worker is lost is run again elsewhere, from the same generator, so that losing
    workers changes nothing but the time.

    Parameters
    ----------
    draws : int
    client : distributed.Client
        Connected to workers that have this package, PyMC and PyTensor in the versions used here.
        Give each worker one thread: chains in one process wait for each other.
    model : pymc.Model, optional
        Default: that of the context.
    tune, chains, random_seed, step, initvals, var_names, compile_kwargs
        As in ``pm.sample``.
    discard_tuned_samples, progressbar
        As in ``pm.sample``.
    **step_kwargs
        Options of steps, by their names.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        As ``pm.sample`` returns; convergence is not checked.

    Raises
    ------
    TypeError, ValueError
        Naming the argument and the value received; if the model has no hidden states.

    Examples
    --------
    >>> from distributed import Client
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
    >>> idata = dshdp.sample_distributed(model=model, client=client, chains=8, random_seed=1)
    >>> client.shutdown()
    """
    draws, chains = positive("draws", draws), positive("chains", chains)
    model = model_in_context(model)
    _check(client)
    positions = starting_positions(model, chains, random_seed, initvals)
    with model:
        built = build_steps(model, positions[0].point, step, compile_kwargs, **step_kwargs)
    tune = default_tune(built, tune)
    names = [v.name for v in trace_variables(model, var_names)]
    work = cloudpickle.dumps((model, built, names, tune, draws, discard_tuned_samples))
    topic = f"pymc-dshdp-{uuid.uuid4().hex}"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # data of the model, sent once
        sent = client.submit(bytes, work, pure=False)
        futures = [
            client.submit(_run_chain, sent, chain, cloudpickle.dumps(position), topic, pure=False)
            for chain, position in enumerate(positions)
        ]
    try:
        with ChainProgress(chains, tune + draws, progressbar) as progress:
            _follow(client, futures, topic, progress, tune + draws)
        parts = [future.result() for future in futures]
    finally:
        client.cancel([future for future in futures if not future.done()])
    for _, warned in parts:
        log_warning_stats(warned)
    return _merged([groups for groups, _ in parts])


def _check(client):
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            "sample_distributed needs dask.distributed; pip install 'pymc-dshdp[distributed]'"
        ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(f"client must be a synchronous distributed.Client, received {client!r}")


def _follow(client, futures, topic, progress, total):
    """Show how far the chains are until none is left, or one has failed."""
    from distributed import wait

    client.subscribe_topic(topic, lambda event: progress.update(*event[1]))
    try:
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(list(waiting), return_when="FIRST_COMPLETED")
            for future in finished:
                if future.status != "finished":
                    future.result()  # raises
                progress.update(futures.index(future), total)
    finally:
        client.unsubscribe_topic(topic)


def _run_chain(work, chain, position, topic):
    """Run one chain; in a worker.

    Returns
    -------
    groups : dict of xarray.Dataset
    warned : list of dict
        Statistics that carry a warning.
    """
    from distributed import get_worker

    model, step, names, tune, draws, discard = cloudpickle.loads(work)
    position = cloudpickle.loads(position)  # dask's own arrays may not be aligned
    trace = NDArray(
        model=model, vars=trace_variables(model, names), test_point=model.initial_point()
    )
    trace.var_dtypes |= {k: v for k, v in storage_dtypes(model).items() if k in trace.var_dtypes}
    trace.setup(tune + draws, chain, step.stats_dtypes)
    worker, reported, warned = get_worker(), 0.0, []
    for i, point, stats in iterate(step, position, tune, draws):
        trace.record(point, stats, in_warmup=i < tune)
        warned += [{"warning": s["warning"]} for s in stats if s.get("warning") is not None]
        now = time.monotonic()
        if now - reported > REPORT_SECONDS:
            worker.log_event(topic, (chain, i + 1))
            reported = now
    return _groups(model, trace, tune, draws, discard), warned


def _groups(model, trace, tune, draws, discard):
    kept = MultiTrace([trace[tune:] if discard else trace])
    kept.report._n_tune, kept.report._n_draws = 0 if discard else tune, draws
    result = pm.to_inference_data(kept, model=model, save_warmup=not discard, log_likelihood=False)
    result = drop_warning_stat(result)
    return {str(name).strip("/"): group(result, name) for name in result}


def _merged(parts):
    groups = dict(parts[0])
    for name in groups:
        if name not in ("constant_data", "observed_data"):
            groups[name] = xr.concat([part[name] for part in parts], "chain", join="override")
    return make_result(groups)
