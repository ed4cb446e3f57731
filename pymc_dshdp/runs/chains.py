"""Chains as ``pm.sample`` runs them, one at a time: for chains resumed, or run elsewhere."""

from dataclasses import dataclass

import numpy as np
from pymc.initial_point import make_initial_point_fns_per_chain
from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
from pymc.step_methods.compound import CompoundStep, flatten_steps
from pymc.step_methods.state import DataClassState
from pymc.util import (
    RandomGeneratorState,
    get_random_generator,
    get_state_from_generator,
    random_generator_from_state,
)

from pymc_dshdp._compat import begin_chain
from pymc_dshdp.transitions import find_transitions

__all__ = [
    "Position",
    "build_steps",
    "default_tune",
    "iterate",
    "positive",
    "starting_positions",
    "trace_variables",
]

TUNE = 1000


@dataclass
class Position:
    """Where a chain stands.

    Attributes
    ----------
    point : dict
        Value variables by name.
    done : int
        Iterations made, tuning included.
    rng : RandomGeneratorState or None
        Generator of a chain that begins.
    state : DataClassState or None
        Sampling state of the steps of a chain under way.
    """

    point: dict
    done: int = 0
    rng: RandomGeneratorState | None = None
    state: DataClassState | None = None


def positive(name, value, least=1):
    """Check an integer argument."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, received {value!r}")
    return int(value)


def starting_positions(model, chains, random_seed=None, initvals=None):
    """Make the generators and starting points of the chains of ``pm.sample`` with that seed."""
    rngs = get_random_generator(random_seed).spawn(chains)
    seeds = [rng.integers(2**30) for rng in rngs]
    functions = make_initial_point_fns_per_chain(
        model=model, overrides=initvals, jitter_rvs=set(), chains=chains
    )
    return [
        Position(function(seed), rng=get_state_from_generator(rng))
        for function, seed, rng in zip(functions, seeds, rngs, strict=True)
    ]


def build_steps(model, point, step=None, compile_kwargs=None, **step_kwargs):
    """Build the steps that ``pm.sample`` would use, as one.

    Raises
    ------
    ValueError
        If the model has no hidden states.
    """
    if not find_transitions(model):
        raise ValueError("the model has no HiddenStates variable; use pm.sample for it")
    provided, selected = assign_step_methods(model, step)
    built = instantiate_steppers(
        model,
        steps=provided,
        selected_steps=selected,
        step_kwargs=step_kwargs,
        initial_point=point,
        compile_kwargs=compile_kwargs or {},
    )
    return CompoundStep(built) if isinstance(built, list) else built


def default_tune(step, tune):
    """Return the number of tuning iterations that ``pm.sample`` would make."""
    if tune is not None:
        return positive("tune", tune, least=0)
    wanted = [getattr(s, "default_tune_steps", None) for s in flatten_steps(step)]
    return max(TUNE if n is None else n for n in wanted)


def trace_variables(model, var_names=None):
    """Variables to store, in value variables; all unobserved ones by default.

    Raises
    ------
    ValueError
        Naming those that are not in the model.
    """
    found = [v for v in model.unobserved_RVs if var_names is None or v.name in var_names]
    unknown = sorted(set(var_names or ()) - {v.name for v in found})
    if unknown:
        raise ValueError(
            f"var_names has {unknown}, which the model does not have; it has "
            f"{sorted(v.name for v in model.unobserved_RVs)}"
        )
    return model.replace_rvs_by_values(found)


def iterate(step, position, tune, draws):
    """Run one chain to its end from where it stands.

    Parameters
    ----------
    step : BlockedStep or CompoundStep
    position : Position
    tune, draws : int
        Iterations of the whole chain.

    Yields
    ------
    i : int
        Number of the iteration, tuning included.
    point : dict
    stats : list of dict
    """
    if position.state is None:
        begin_chain(step, random_generator_from_state(position.rng), tune, draws)
        step.tune = bool(tune)
        if hasattr(step, "reset_tuning"):
            step.reset_tuning()
        if hasattr(step, "iter_count"):
            step.iter_count = 0
    else:
        step.sampling_state = position.state
    point = position.point
    for i in range(position.done, tune + draws):
        if i == tune:
            step.stop_tuning()
        point, stats = step.step(point)
        yield i, point, stats
