"""Graphs written as formulas, for messages."""

from pytensor.printing import pprint

from pymc_dshdp.graph.dependence import INDEXING, index_entries

__all__ = ["formula"]

LONGEST = 160


class _IndexPrinter:
    """Write an indexed tensor as in Python, in every version of PyTensor."""

    def process(self, variable, state):
        """Return the formula of a variable."""
        tensor, *index = variable.owner.inputs
        entries = index_entries(variable.owner.op, index)
        return f"{_printed(tensor)}[{', '.join(map(_entry, entries))}]"


def _entry(entry):
    if isinstance(entry, slice):
        step = [] if _absent(entry.step) else [entry.step]
        return ":".join("" if _absent(b) else _printed(b) for b in (entry.start, entry.stop, *step))
    return "None" if entry is None else _printed(entry)


def _absent(bound):
    return bound is None or getattr(bound, "data", bound) is None


_printer = pprint.clone()
for _kind in INDEXING:
    _printer.assign(_kind, _IndexPrinter())


def _printed(variable):
    return str(variable) if isinstance(variable, int) else _printer(variable)


def formula(variable):
    """Write a variable as a formula, its middle left out where it is long."""
    text = " ".join(_printed(variable).split())
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text
