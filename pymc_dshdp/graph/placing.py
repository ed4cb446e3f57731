"""Which element of a log-density belongs to which time point: proved from its graph.

The value of the states is followed through the graph (see ``dependence.py``). An element has a
time if it is a function of the state at that time alone, whatever the other variables are: every
way from the states to it passes indices that constants and data determine. So lags, masks,
permutations and (trial, time) layouts need no special case, and a coupling of times is refused
even where no value at hand shows it.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.ops import TypeCastingOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, explicit_graph_inputs, graph_inputs, io_toposort
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.shape import Shape, Shape_i

from pymc_dshdp._compat import inline_ofg_node
from pymc_dshdp.graph.dependence import INDEXING, SEVERAL, index_entries, shape_inputs, times_of
from pymc_dshdp.graph.formulas import formula
from pymc_dshdp.graph.parameter_checks import is_sum, on_states, without_checks

__all__ = ["Check", "Dependence", "Placed", "SeveralTimes", "inlined", "lowered", "place"]

IN_PYTHON = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")


class SeveralTimes(Exception):
    """Something in a log-density depends on the states at several times; the text says what."""


class Check(NamedTuple):
    """Conditions on parameters, such as sigma > 0, that depend on the states.

    ``graph`` is their truth, ``times`` of shape (E,) the time of each; ``whole`` is whether the
    log-density is -inf where one of them does not hold.
    """

    graph: Variable
    times: np.ndarray
    whole: bool


class Placed(NamedTuple):
    """A log-density whose elements have times.

    Attributes
    ----------
    graph : TensorVariable
        Equal to the log-density, or to its elements before a sum, where the checks hold.
    times : ndarray of shape (E,), int32
        Of each element; -1 where it does not depend on the states.
    checks : list of Check
    data : dict
        Values of the shared variables that determine the times.
    asked : dict
        Values of the graphs of these variables that do.
    """

    graph: Variable
    times: np.ndarray
    checks: list
    data: dict
    asked: dict

    def without_graphs(self):
        """Return what is needed once the graphs are compiled."""
        checks = [check._replace(graph=None) for check in self.checks]
        return self._replace(graph=None, checks=checks, asked={})


def place(graph, z, shape, start):
    """Find the time of each element of a log-density.

    Parameters
    ----------
    graph : TensorVariable
        In value variables.
    z : TensorVariable
        Value variable of the states.
    shape : tuple of int
        Of the states.
    start : dict
        Values of the other value variables, for their shapes.

    Returns
    -------
    Placed

    Raises
    ------
    SeveralTimes
        If that of an element cannot be shown to be one.
    """
    graph = lowered(graph)
    while True:
        try:
            return _placed(graph, z, shape, start)
        except SeveralTimes:
            if not is_sum(graph):  # of the log-density only the sum of all elements matters
                raise
            [graph] = graph.owner.inputs


def _placed(graph, z, shape, start):
    graph, conditions = without_checks(graph, z)
    graphs = inlined([graph, *(c for c, _ in conditions)])
    walk = Dependence(graphs, z, shape, start)
    times = walk.run()
    for v, t in zip(graphs, times, strict=True):
        if (t == SEVERAL).any():
            raise SeveralTimes(walk.fault(v))
    first, *rest = (t.ravel() for t in times)
    checks = [Check(c, t, whole) for (c, whole), t in zip(conditions, rest, strict=True)]
    return Placed(graph, first, checks, walk.data, walk.asked)


# -- the graph that is followed -----------------------------------------------------------------


def lowered(graph):
    """Write what is in labelled dimensions (``pymc.dims``) with ordinary Ops."""
    if any(hasattr(v.type, "dims") for v in ancestors([graph])):
        [graph] = _rewritten([graph], include=("lower_xtensor",))
        if isinstance(graph.owner.op, TypeCastingOp):
            [graph] = graph.owner.inputs
    return graph


@node_rewriter([OpFromGraph])
def _inline(fgraph, node):
    return inline_ofg_node(node)


def inlined(graphs):
    """Graphs in which every Op that is a graph itself is written out."""
    while any(isinstance(v.owner.op, OpFromGraph) for v in ancestors(graphs) if v.owner):
        graphs = _rewritten(graphs, include=(), custom_rewrite=dfs_rewriter(_inline))
    return graphs


def _rewritten(graphs, **rewrites):
    """Rewrite graphs of the same inputs."""
    fgraph = FunctionGraph(outputs=graphs, clone=True, copy_inputs=False)
    rewrite_graph(fgraph, **rewrites)
    strangers = set(explicit_graph_inputs(fgraph.outputs)) - set(explicit_graph_inputs(graphs))
    if strangers:
        raise RuntimeError(f"rewriting a log-density has changed its inputs: {strangers}")
    return fgraph.outputs


# -- following it -------------------------------------------------------------------------------


class Dependence:
    """The times of every variable of graphs, from z on.

    Parameters
    ----------
    graphs : list of Variable
    z, shape, start
        See ``place``.
    labels : ndarray of int, optional
        Of that shape, from 0: what each element of z stands for, where that is not its own time.
        Elements of one label are followed as one.

    Attributes
    ----------
    T : int
        Number of labels.
    data : dict
        Values of the shared variables behind what was asked for.
    asked : dict
        Values of what was asked for, where they depend on shared variables.

    Raises
    ------
    SeveralTimes
        If a shape depends on the states, or shapes of what depends on them on what is sampled.
    """

    def __init__(self, graphs, z, shape, start, labels=None):
        if labels is None:
            labels = np.arange(int(np.prod(shape))).reshape(shape)
        self.T = int(labels.max(initial=-1)) + 1
        self.data, self.asked = {}, {}
        self._z, self._graphs, self._start, self._layout = z, graphs, start, shape
        self._times = {z: labels.astype("int32")}
        self._nodes = list(io_toposort([z], graphs))
        self._timed = on_states(graphs, z)
        self._sampled = {}
        self._trace_sampled()
        self._faults = []
        self._shapes = {}

    # -- what the rules ask for ---------------------------------------------------------------

    def times(self, v):
        """Return the times of the elements of a variable."""
        if v in self._times:
            return self._times[v]
        return np.broadcast_to(np.int32(-1), self.shape(v))

    def timed(self, v):
        """Whether a variable depends on the states."""
        return v in self._timed

    def fixed(self, v):
        """Whether constants and data determine the value of a variable."""
        return v not in self._timed and v not in self._sampled

    def value(self, v):
        """Value of a variable that is fixed."""
        if not self.fixed(v):
            raise SeveralTimes(f"{formula(v)} is not fixed by constants and data")
        if isinstance(v, Constant):
            return v.data
        data = {s: s.get_value() for s in graph_inputs([v]) if isinstance(s, SharedVariable)}
        found = data[v] if v in data else self._evaluated([v])[0]
        if data:
            self.data |= data
            self.asked[v] = found
        return found

    def shape(self, v):
        """Shape of a variable."""
        if v in self._times:
            return self._times[v].shape
        static = getattr(v.type, "shape", ())
        if None not in static:
            return static
        if v not in self._shapes:
            self._find_shapes([v])
        return self._shapes[v]

    # -- the walk -----------------------------------------------------------------------------

    def run(self):
        """Return the times of the graphs."""
        nodes = [n for n in self._nodes if self._timed.intersection(n.outputs)]
        unknown = [v for n in nodes for v in n.inputs if v not in self._timed]
        self._find_shapes([v for v in unknown if None in getattr(v.type, "shape", ())])
        uses = Counter(v for node in nodes for v in node.inputs) + Counter(self._graphs)
        for node in nodes:
            for v, times in zip(node.outputs, times_of(node.op, node, self), strict=True):
                self._times[v] = times
                if (times == SEVERAL).any() and not self._known_fault(node):
                    self._faults.append(v)
            for v in node.inputs:
                uses[v] -= 1
                if not uses[v]:
                    self._times.pop(v, None)
        return [self.times(v) for v in self._graphs]

    def _known_fault(self, node):
        return any((self.times(v) == SEVERAL).any() for v in node.inputs if v in self._times)

    def fault(self, graph):
        """Say what ties the states at several times together in a graph."""
        behind = set(ancestors([graph]))
        [culprit, *_] = [v for v in self._faults if v in behind]
        text = f"{formula(culprit)} depends on the states at more than one time"
        node = culprit.owner
        if isinstance(node.op, INDEXING) and node.inputs[0] in self._timed:
            entries = index_entries(node.op, node.inputs[1:])
            for entry in (e for e in entries if isinstance(e, Variable)):
                if entry in self._sampled:
                    who = self._sampled[entry]
                    return f"{text}: which of them it reads is set by {who!r}, which is sampled"
                if entry in self._timed:
                    return f"{text}: an index into them depends on the states itself"
        return text

    def _trace_sampled(self):
        """Find what depends on values that are sampled, and refuse shapes that do."""
        loose = {}
        for v in explicit_graph_inputs(self._graphs):
            if v is not self._z:
                self._sampled[v] = v.name
        for node in self._nodes:
            read = [v for v in node.inputs if v in self._sampled]
            from_shape = isinstance(node.op, Shape | Shape_i)
            if from_shape:
                read = [v for v in node.inputs if v in loose]
            if read or isinstance(node.op, RNGConsumerOp):
                name = self._sampled[read[0]] if read else str(node.op)
                self._sampled.update(dict.fromkeys(node.outputs, name))
            if from_shape:
                continue
            moving = [v for v in node.inputs if v in loose]
            moving += [v for v in shape_inputs(node) if not self.fixed(v)]
            if not moving:
                continue
            for v in node.outputs:
                if None not in getattr(v.type, "shape", ()):
                    continue
                if v in self._timed or any(u in self._timed for u in moving):
                    who = [repr(self._sampled[u]) for u in moving if u not in self._timed]
                    raise SeveralTimes(
                        f"the shape of {formula(v)} depends on {(who or ['the states'])[0]}"
                    )
                loose[v] = True

    # -- evaluation ---------------------------------------------------------------------------

    def _find_shapes(self, variables):
        variables = list(dict.fromkeys(variables))
        if variables:
            graphs = [(v.values if hasattr(v.type, "dims") else v).shape for v in variables]
            for v, shape in zip(variables, self._evaluated(graphs), strict=True):
                self._shapes[v] = tuple(int(n) for n in shape)

    def _evaluated(self, graphs):
        graphs = [pt.as_tensor(g) if not hasattr(g, "type") else g for g in graphs]
        inputs = list(explicit_graph_inputs(graphs))
        values = [
            np.zeros(self._layout, v.dtype) if v is self._z else self._start[v.name] for v in inputs
        ]
        function = pytensor.function(inputs, graphs, mode=IN_PYTHON, on_unused_input="ignore")
        return function(*values)
