"""What a result must know about its hidden states, written by the model and kept with the draws.

``HiddenStates`` writes one record for each of its variables as constant data, which go wherever the
draws go: through ``pm.sample`` and its relatives, NetCDF and Zarr, chains resumed or run elsewhere.
Constant data are numbers, so that the record is JSON in bytes. Whatever reads a result reads the
record; nothing is told from how variables are called.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np

__all__ = ["StatesRecord", "is_recorded", "record_in", "records_of"]

MARK = b'{"pymc_dshdp":'
VERSION = 4
_KAPPA = ("constant", "varies")


@dataclass(frozen=True)
class StatesRecord:
    """What is known of a hidden-state variable where it is declared.

    Attributes
    ----------
    states : str
        Its name; this and all names are those of the result, with the prefix of a named model.
    lengths : str
        Constant data that hold the lengths of its sequences.
    known : str or None
        Constant data that hold the known states.
    prior, kind : str
        Name and class of its transition prior.
    dims : tuple of str
        (state, state_to).
    n_states : int
        L.
    weights : str or None
        "weak-limit", "stick-breaking", "finite-mixture", or None where the prior has no weights.
    kappa : {"none", "constant", "varies"}
        Whether the prior has self-persistence, and whether it depends on time.
    variables : dict of str
        Names of the prior's variables by their role: "gamma", "alpha", "kappa", ... Where kappa
        varies, the one of "kappa" is its mean over time; where there are several matrices, "pi_bar"
        is their mean over time, and "matrices" all of them if they are kept.
    tied : bool
        Whether transitions that are forbidden, or constants that are indexed with them, tell the
        states apart, so that a number means the same in every draw.
    groups : str or None
        Dimension of the groups whose transitions differ; "kappa" and "pi_bar" have it then.
    group : str or None
        Constant data that say which group each sequence, or each time, is of, by position.
    labels, numbered, invariant : tuple of str
        Deterministics without the state dimension: those whose entries are numbers of states, those
        that depend on the numbers otherwise, and those that stay as they are if the states are
        numbered otherwise. Written before sampling (``renumbered.py``); no other is told of.
    missing : tuple of str
        Free parts of masked observations, such as ``y_unobserved``; written at the same time.
    unnamed : tuple of str
        Variables that the model indexes with the states along an axis without the state dimension,
        or out of which it makes rows that it does so: a renumbering leaves them as they are.
    """

    states: str
    lengths: str
    known: str | None
    prior: str
    kind: str
    dims: tuple
    n_states: int
    weights: str | None
    kappa: str
    variables: dict
    tied: bool = False
    groups: str | None = None
    group: str | None = None
    labels: tuple = ()
    numbered: tuple = ()
    invariant: tuple = ()
    missing: tuple = ()
    unnamed: tuple = ()

    @classmethod
    def of(cls, z, prior, *, lengths, known, group):
        """Record states just declared, with the constant data of their lengths, labels, groups."""
        variables = prior.recorded_names()
        return cls(
            states=z.name,
            lengths=lengths.name,
            known=None if known is None else known.name,
            prior=prior.name,
            kind=type(prior).__name__,
            dims=prior.dims,
            n_states=prior.n_states,
            weights=prior.weights,
            kappa="none" if "kappa" not in variables else _KAPPA[prior.varies],
            variables=variables,
            tied=prior.tied,
            groups=prior.groups,
            group=None if group is None else group.name,
        )

    def to_bytes(self) -> np.ndarray:
        """Return the record as constant data, an array of uint8."""
        text = json.dumps({"pymc_dshdp": VERSION, **asdict(self)}).encode()
        return np.frombuffer(text, np.uint8).copy()

    def own(self, *roles: str) -> set:
        """Names of the prior's variables in some roles, of all without."""
        return {name for role, name in self.variables.items() if not roles or role in roles}


def records_of(constants) -> dict:
    """Find the records among constant data, by the name of their states.

    Parameters
    ----------
    constants : xarray.Dataset

    Returns
    -------
    dict of StatesRecord
    """
    found = {}
    for data in constants.values():
        record = _read(data)
        if record is not None:
            found[record.states] = record
    return found


def is_recorded(model, z) -> bool:
    """Whether a model has the record of its states: ``pm.do`` with ``prune_vars`` leaves it out."""
    return f"{z.name}_record" in model.named_vars


def record_in(model, z) -> StatesRecord:
    """Read the record of a states variable from its model."""
    data = model.named_vars[f"{z.name}_record"]
    return _parsed(data.name, data.get_value(borrow=True))


def _read(data):
    if data.ndim != 1 or data.dtype.kind not in "iu" or data.size <= len(MARK):
        return None
    if data[: len(MARK)].values.tolist() != list(MARK):
        return None
    return _parsed(data.name, data.values)


def _parsed(name, values):
    fields = json.loads(bytes(values.astype(np.uint8)))
    version = fields.pop("pymc_dshdp")
    if version != VERSION:
        raise ValueError(
            f"{name!r} was written in version {version} of the record of hidden states, and "
            f"this package reads version {VERSION}"
        )
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return StatesRecord(**{**fields, **lists})
