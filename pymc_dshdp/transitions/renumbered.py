"""What the record of a result says of the model's other variables, read from the whole model."""

from dataclasses import replace

from pytensor.graph.traversal import ancestors

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.kinds import LABEL, NUMBERED, free
from pymc_dshdp.graph.renumbering import kind_of, rows_without_axis
from pymc_dshdp.graph.splits import split_observation
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.transitions.record import record_in

__all__ = ["record_variables"]

CONSTANTS = "a constant"


def record_variables(model) -> None:
    """Write into the records of a model what a renumbering of the states does to its variables.

    Deterministics with a state dimension are permuted along it, and need no word; nor has a missing
    part of an observation a state dimension, however many entries it has. Variables may be declared
    after the states: the steps that draw the states call this before sampling. States that have
    lost their record, to ``pm.do(prune_vars=True)``, are passed over.
    """
    states = [rv for rv in model.basic_RVs if has_op(rv, HiddenPathRV)]
    states = [z for z in states if f"{z.name}_record" in model.named_vars]
    records = {z: record_in(model, z) for z in states}
    missing = tuple(v.name for v in model.free_RVs if split_observation(model, v) is not None)
    own = set().union(*(record.own() for record in records.values()))
    for dims in {record.dims for record in records.values()}:
        members = [z for z in states if records[z].dims == dims]
        leaves = _leaves(model, members, dims)
        kinds = {
            v.name: kind_of(v, leaves, records[members[0]].n_states)
            for v in model.deterministics
            if v.name not in own and v not in leaves
        }
        unnamed, apart = _unnamed(model, members, leaves, records[members[0]].n_states)
        for z in members:
            record = replace(
                records[z],
                labels=tuple(name for name, kind in kinds.items() if kind == LABEL),
                numbered=tuple(name for name, kind in kinds.items() if kind == NUMBERED),
                invariant=tuple(name for name, kind in kinds.items() if kind.name == "free"),
                missing=missing,
                unnamed=unnamed,
                tied=records[z].tied or apart,
            )
            model[f"{z.name}_record"].set_value(record.to_bytes())


def _unnamed(model, states, leaves, n_states):
    """Names of what a renumbering leaves as it is, although the model indexes it with states.

    Also whether that is constant and tells all states apart.
    """
    inputs = [x for v in model.basic_RVs if v not in states for x in v.owner.inputs]
    found = []
    for x in [*inputs, *model.potentials]:
        if hasattr(x.type, "dtype") and set(states) & set(ancestors([x])):
            found += rows_without_axis(x, leaves, n_states)
    names = {v.name for rows, _ in found for v in rows}
    constant = any(not rows for rows, _ in found)
    return (*sorted(names), *[CONSTANTS] * constant), any(apart for _, apart in found)


def _leaves(model, states, dims):
    """Kinds of all that is drawn, and of what has the state dimension."""
    leaves = {}
    for v in (*model.basic_RVs, *model.deterministics):
        named = model.named_vars_to_dims.get(v.name) or getattr(v.type, "dims", ())
        fixed = v in model.observed_RVs  # and not among the draws, so that it is not permuted
        axes = [] if fixed else [a for a, dim in enumerate(named) if dim in dims]
        if v in states:
            leaves[v] = LABEL
        elif axes or v in model.basic_RVs:
            leaves[v] = free(axes)
    return leaves
