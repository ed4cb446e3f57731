"""Random expressions of a path, as PyTensor graphs and as values on all paths in NumPy."""

import itertools
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

LARGEST = 24
SIZES = [(2, 3), (3, 2), (3, 3), (4, 2), (5, 2), (5, 3)]  # T, L


class Node(NamedTuple):
    """An expression: its graph, and its values on every path, of shape (draws, paths, ...)."""

    graph: pt.TensorVariable
    values: np.ndarray

    @property
    def shape(self):
        return self.values.shape[2:]

    @property
    def is_index(self):
        return self.values.dtype.kind == "i"


def each(function, *arrays):
    """Apply a function to the values on every path at every draw."""
    lead = arrays[0].shape[:2]
    flat = [a.reshape(-1, *a.shape[2:]) for a in arrays]
    out = np.stack([function(*parts) for parts in zip(*flat, strict=True)])
    return out.reshape(*lead, *out.shape[1:])


class Composer:
    """Expressions of the states, of what is sampled (``slope``, ``lag``, ``which``) and of data."""

    DRAWS = 3

    def __init__(self, rng):
        self.rng = rng
        self.T, self.L = SIZES[rng.integers(len(SIZES))]
        paths = np.array(list(itertools.product(range(self.L), repeat=self.T)))
        self.z = pt.tensor("z", dtype="int64", shape=(self.T,))
        self.states = self._node(self.z, np.broadcast_to(paths, (self.DRAWS, *paths.shape)))
        self.P = len(paths)
        self.start = {
            "slope": np.array(0.4),
            "lag": np.array(0),
            "which": np.zeros(self.T, int),
        }
        slopes, lags = np.array([0.0, 0.7, -1.3]), np.array([0, 1, self.T - 1])
        which = rng.integers(self.T, size=(self.DRAWS, self.T))
        self.slope = self._sampled(pt.scalar("slope", dtype="float64"), slopes)
        self.lag = self._sampled(pt.scalar("lag", dtype="int64"), lags)
        self.which = self._sampled(pt.tensor("which", dtype="int64", shape=(self.T,)), which)

    def _node(self, graph, values):
        return Node(graph, values)

    def _sampled(self, graph, values):
        values = values[:, None]
        return Node(graph, np.broadcast_to(values, (self.DRAWS, self.P, *values.shape[2:])))

    def _fixed(self, array):
        return Node(pt.constant(array), np.broadcast_to(array, (self.DRAWS, self.P, *array.shape)))

    def _numbers(self, *shape):
        """Numbers among which a zero is not rare."""
        return self.rng.normal(size=shape).round(2) * (self.rng.random(shape) < 0.75)

    # -- one step -------------------------------------------------------------------------------

    def compose(self, steps):
        """Return an expression of so many random steps."""
        nodes = [self.states, self.lookup(self.states)]
        for _ in range(steps):
            x = nodes[self.rng.integers(max(0, len(nodes) - 3), len(nodes))]
            names = self.OF_INDICES if x.is_index else self.OF_NUMBERS
            new = getattr(self, names[self.rng.integers(len(names))])(x, nodes)
            if new is not None and 0 < np.prod(new.shape) <= LARGEST and len(new.shape) < 4:
                nodes.append(new)
        last = nodes[-1]
        return self.lookup(last) if last.is_index else last

    def lookup(self, x, nodes=()):
        """theta[x], theta[:, x] or theta[x, j] of a tensor that does not depend on the states."""
        size = int(x.values.max()) + 1 if x.is_index else 1
        kind = self.rng.integers(4)
        theta = self._numbers(size, *((2,) if kind else ()))
        if kind in (0, 1):
            return Node(pt.constant(theta)[x.graph], theta[x.values])
        if kind == 2:
            graph = pt.constant(theta.T.copy())[:, x.graph]
            return Node(graph, each(lambda i: theta.T[:, i], x.values))
        column = self.rng.integers(2)
        return Node(pt.constant(theta)[x.graph, column], theta[x.values, column])

    def pair(self, x, nodes):
        """delta[x, y] of two index expressions of the same shape."""
        others = [n for n in nodes if n.is_index and n.shape == x.shape]
        y = others[self.rng.integers(len(others))]
        delta = self._numbers(int(x.values.max()) + 1, int(y.values.max()) + 1)
        return Node(pt.constant(delta)[x.graph, y.graph], delta[x.values, y.values])

    def rule(self, x, nodes):
        """Arithmetic on states that gives states."""
        kind = self.rng.integers(3)
        if kind == 0:
            return Node(x.graph // 2, x.values // 2)
        if kind == 1:
            return Node(pt.maximum(x.graph - 1, 0), np.maximum(x.values - 1, 0))
        k = int(self.rng.integers(self.L))
        return Node(pt.eq(x.graph, k).astype("int64"), (x.values == k).astype(int))

    def one_hot(self, x, nodes):
        graph = pt.eq(x.graph[..., None], np.arange(self.L)).astype("float64")
        return Node(graph, (x.values[..., None] == np.arange(self.L)).astype(float))

    def part(self, x, nodes):
        """Slice, reverse, mask or take along the first axis."""
        if not x.shape:
            return None
        n = x.shape[0]
        at = [
            slice(1, None),
            slice(None, -1),
            slice(None, None, -1),
            slice(None, None, 2),
            self.rng.integers(n, size=self.rng.integers(1, n + 2)),
            self.rng.random(n) < 0.6,
            int(self.rng.integers(n)),
        ][self.rng.integers(7)]
        return Node(x.graph[at], x.values[:, :, at])

    def delayed(self, x, nodes):
        """Take along the first axis at a sampled delay, or at sampled places."""
        if not x.shape or x.shape[0] != self.T:
            return None
        if self.rng.random() < 0.5:
            index = pt.clip(np.arange(self.T) - self.lag.graph, 0, self.T - 1)
            at = np.clip(np.arange(self.T) - self.lag.values[..., None], 0, self.T - 1)
        else:
            index, at = self.which.graph, self.which.values
        return Node(x.graph[index], each(lambda a, i: a[i], x.values, at))

    def chosen(self, x, nodes):
        """Choose along the last axis by what is sampled, at fixed places along the first."""
        if len(x.shape) != 2 or x.shape[0] != self.T:
            return None
        index, last = self.which.graph % x.shape[1], self.which.values % x.shape[1]
        rows = np.arange(self.T)
        return Node(x.graph[rows, index], each(lambda a, i: a[rows, i], x.values, last))

    def rearranged(self, x, nodes):
        if len(x.shape) < 2:
            return Node(x.graph[..., None], x.values[..., None])
        kind = self.rng.integers(4)
        if kind == 0:
            return Node(x.graph.T, each(np.transpose, x.values))
        if kind == 1:
            return Node(x.graph.ravel(), each(np.ravel, x.values))
        if kind == 2:
            return Node(
                x.graph.reshape(x.shape[::-1]), each(lambda a: a.reshape(x.shape[::-1]), x.values)
            )
        return Node(pt.diagonal(x.graph), each(np.diagonal, x.values))

    def function(self, x, nodes):
        f = self.rng.integers(4)
        graph = [pt.tanh, pt.abs, lambda a: pt.exp(-(a**2)), lambda a: pt.switch(a > 0, a, 0.1)][f]
        value = [np.tanh, np.abs, lambda a: np.exp(-(a**2)), lambda a: np.where(a > 0, a, 0.1)][f]
        return Node(graph(x.graph), value(x.values))

    def with_data(self, x, nodes):
        """Combine with a covariate, a mask or what is sampled."""
        kind = self.rng.integers(5)
        data = self._fixed(self._numbers(*x.shape))
        if kind == 0:
            return Node(x.graph * data.graph, x.values * data.values)
        if kind == 1:
            return Node(x.graph - data.graph, x.values - data.values)
        if kind == 2:
            return self._scaled(x)
        if kind == 3:
            on = self.rng.random(x.shape) < 0.5
            return Node(pt.switch(on, x.graph, data.graph), np.where(on, x.values, data.values))
        wide = self._numbers(2, *(1 for _ in x.shape))
        return Node(x.graph[None] * wide, x.values[:, :, None] * wide)

    def _scaled(self, x):
        slope = self.slope.values.reshape(self.DRAWS, self.P, *(1 for _ in x.shape))
        return Node(x.graph * self.slope.graph, x.values * slope)

    def together(self, x, nodes):
        """Combine with another expression of the same shape, in one of several ways."""
        others = [n for n in nodes if not n.is_index and n.shape == x.shape]
        y = others[self.rng.integers(len(others))]
        kind = self.rng.integers(6)
        if kind == 0:
            return Node(x.graph + y.graph, x.values + y.values)
        if kind == 1:
            y = self._scaled(y)
            return Node(x.graph - y.graph, x.values - y.values)
        if kind == 2:
            on = self.rng.random(x.shape) < 0.5
            return Node(pt.switch(on, x.graph, y.graph), np.where(on, x.values, y.values))
        if kind == 3:
            return Node(
                pt.switch(self.slope.graph > 0.5, x.graph, y.graph),
                np.where(
                    (self.slope.values > 0.5).reshape(self.DRAWS, self.P, *(1 for _ in x.shape)),
                    x.values,
                    y.values,
                ),
            )
        if kind == 4 or not x.shape:
            return Node(pt.stack([x.graph, y.graph], axis=-1), np.stack([x.values, y.values], -1))
        return Node(
            pt.concatenate([x.graph, y.graph]), np.concatenate([x.values, y.values], axis=2)
        )

    def put(self, x, nodes):
        """Set or add to a part of an expression or of data."""
        if not x.shape:
            return None
        base = self._fixed(self._numbers(*x.shape)) if self.rng.random() < 0.5 else x
        n = x.shape[0]
        at = [slice(1, None), self.rng.permutation(n)[: max(1, n - 1)]][self.rng.integers(2)]
        new = Node(x.graph[::-1][at], x.values[:, :, ::-1][:, :, at])
        values = base.values.copy()
        if self.rng.random() < 0.5:
            values[:, :, at] = new.values
            return Node(pt.set_subtensor(base.graph[at], new.graph), values)
        values[:, :, at] += new.values
        return Node(pt.inc_subtensor(base.graph[at], new.graph), values)

    def reduced(self, x, nodes):
        """Sum, greatest, mixture or running sum along an axis."""
        if not x.shape:
            return None
        axis = int(self.rng.integers(len(x.shape)))
        kind = self.rng.integers(5)
        if kind == 0:
            return Node(x.graph.sum(axis=axis), x.values.sum(axis=axis + 2))
        if kind == 1:
            return Node(x.graph.max(axis=axis), x.values.max(axis=axis + 2))
        if kind == 2:
            mixed = np.log(np.exp(x.values).sum(axis=axis + 2))
            return Node(pt.logsumexp(x.graph, axis=axis), mixed)
        if kind == 3:
            e = np.exp(x.values)
            return Node(
                pt.special.softmax(x.graph, axis=axis), e / e.sum(axis=axis + 2, keepdims=True)
            )
        return Node(pt.cumsum(x.graph, axis=axis), np.cumsum(x.values, axis=axis + 2))

    def product(self, x, nodes):
        """Matrix product with a fixed matrix: numbers, or zeros but for one in each row."""
        if len(x.shape) not in (1, 2):
            return None
        n = x.shape[0]
        m = int(self.rng.integers(1, 4))
        matrix = self._numbers(m, n)
        if self.rng.random() < 0.5:
            matrix = np.eye(n)[self.rng.integers(n, size=m)]
        return Node(pt.dot(matrix, x.graph), each(lambda a: matrix @ a, x.values))

    OF_INDICES = ("lookup", "lookup", "pair", "rule", "one_hot", "part", "part", "delayed")
    OF_NUMBERS = (
        *("part", "part", "rearranged", "rearranged", "function", "with_data", "with_data"),
        *("together", "together", "put", "reduced", "product", "delayed", "chosen"),
    )


def times_of_elements(composer, values):
    """Which times each element of an expression depends on, at some draw: bool of (T, E)."""
    layout = (values.shape[0], *(composer.L,) * composer.T, -1)
    values = values.reshape(layout)
    assert np.isfinite(values).all()
    out = []
    for t in range(composer.T):
        spread = np.ptp(values, axis=t + 1)
        out.append((spread > 1e-9).any(axis=tuple(range(composer.T))))
    return np.array(out)
