"""Draws on disk as they are made, with all that is needed to go on from the last of them."""

import os
import pickle
import zlib

import numpy as np
import pandas as pd
import xarray as xr
from pymc.backends import zarr as backend
from pymc.model import modelcontext
from pymc.step_methods.compound import StatsBijection

from pymc_dshdp._compat import make_result
from pymc_dshdp.graph.path import storage_dtypes
from pymc_dshdp.runs.chains import Position, positive, trace_variables
from pymc_dshdp.runs.state_summary import longest_chains

__all__ = ["ZarrTrace"]

WARMUP = "warmup_"
DRAWS = ("posterior", "sample_stats")
PYMC_NAMES = {
    "model_logp": "lp",
    "mean_tree_accept": "acceptance_rate",
    "depth": "tree_depth",
    "tree_size": "n_steps",
}
"""Statistics that PyMC renames in a result."""


class _Chain(backend.ZarrChain):
    """Recorder of one chain; runs in the process of the chain.

    Warm-up and posterior draws go to groups of their own, and each flush writes, as one file,
    the position of the chain: its last point, the sampling state and the number of iterations.
    The position before it stays in a second file, to go on from where the last one is damaged.
    """

    def __init__(self, store, tune, **kwargs):
        super().__init__(store=store, **kwargs)
        zarr = _zarr()
        self._root = zarr.open_group(store, mode="a")
        self._tune = tune
        self._point = None

    def go_on(self, draws, chain, done):
        """Record up to ``draws`` draws after tuning, the first ``done`` iterations being there."""
        self.draw_idx = done
        last = _last_position(self._root.store, chain)
        self._copy = 0 if last is None else 1 - last[1]
        self.setup(draws=self._tune + draws, chain=chain, sampler_vars=None)

    def setup(self, draws, chain, sampler_vars):
        super().setup(draws, chain, sampler_vars)
        self.draws_until_flush = self._room()

    def _room(self):
        end = self._tune if self.draw_idx < self._tune else self.total_draws
        return min(self.draws_per_chunk, end - self.draw_idx)

    def buffer(self, group, var_name, value):
        if not isinstance(value, (str, type(None))) and np.asarray(value).dtype != object:
            super().buffer(group, var_name, value)

    def record(self, draw, stats, *, in_warmup):
        self._point = draw
        return super().record(draw, stats, in_warmup=in_warmup)

    def flush(self):
        warm = self.draw_idx < self._tune
        start = self.draw_idx - (0 if warm else self._tune)
        where = self.chain, slice(start, start + self.draws_until_flush)
        for name, buffer in self._buffers.items():
            group = self._root[f"{WARMUP}{name}" if warm else name]
            for variable, values in buffer.items():
                if variable in group:
                    group[variable].set_orthogonal_selection(where, np.stack(values))
        self.draw_idx += self.draws_until_flush
        position = Position(self._point, self.draw_idx, state=self._step_method.sampling_state)
        self._root.store[_position_key(self.chain, self._copy)] = _sealed(pickle.dumps(position))
        self._copy = 1 - self._copy
        self._sampling_state.draw_idx.set_coordinate_selection(self.chain, self.draw_idx)
        self.clear_buffers()
        self.draws_until_flush = self._room()

    def record_sampling_state(self, step=None):
        """Leave the position as the last flush wrote it, together with its draws."""


def _position_key(chain, copy):
    return f"_sampling_state/position.{chain}.{copy}"


def _sealed(content):
    """Bytes with their checksum before them."""
    return zlib.crc32(content).to_bytes(4) + content


def _last_position(store, chain):
    """(position, number of the copy) of a chain from its last whole copy; None where it has none.

    Raises
    ------
    ValueError
        If there are copies, but none is whole.
    """
    keys = {copy: _position_key(chain, copy) for copy in (0, 1)}
    copies = {copy: store[key] for copy, key in keys.items() if key in store}
    whole = [
        (pickle.loads(content[4:]), copy)
        for copy, content in copies.items()
        if content == _sealed(content[4:])
    ]
    if copies and not whole:
        raise ValueError(
            f"the store {store.path!r} is damaged: where chain {chain} stood cannot be read. Its "
            f"draws are there: continue_sampling goes on from the result of "
            f"ZarrTrace.open({store.path!r}).to_inferencedata()"
        )
    return max(whole, key=lambda one: one[0].done, default=None)


def _zarr():
    try:
        import zarr
        from zarr.storage import DirectoryStore  # noqa: F401, not in zarr 3
    except ImportError:
        raise ImportError(
            "ZarrTrace needs zarr 2, which PyMC's storage is written for; "
            "pip install 'pymc-dshdp[zarr]'"
        ) from None
    return zarr


class ZarrTrace(backend.ZarrTrace):
    """Draws stored on disk while the chains run.

    PyMC's ``ZarrTrace``, made safe to interrupt and complete enough to continue::

        trace = dshdp.ZarrTrace("run.zarr")
        idata = pm.sample(trace=trace)                                # killed? then:
        idata = dshdp.continue_sampling("run.zarr", model=model, draws=0)   # finishes it

    Beside the draws it keeps, for each chain, the last complete point, the state of the
    steps and of their generators, so a run continues bit for bit whatever ``var_names`` stored.
    A run that was killed keeps all but the last ``draws_per_chunk - 1`` draws of each chain;
    ``ZarrTrace.open("run.zarr").to_inferencedata()`` reads them.

    Parameters
    ----------
    path : str or path
        Directory to create.
    draws_per_chunk : int
        Draws written at once. Each write makes one file per variable.

    Raises
    ------
    FileExistsError
        If the directory exists: PyMC's class overwrites it.
    ImportError
        Without zarr 2.

    Notes
    -----
    The state is stored by ``pickle``, and reading a pickle runs what it says: open only stores
    that you trust.
    """

    def __init__(self, path: str | os.PathLike[str], *, draws_per_chunk: int = 10) -> None:
        chunk = positive("draws_per_chunk", draws_per_chunk)
        zarr = _zarr()
        if os.path.exists(path):
            raise FileExistsError(
                f"{os.fspath(path)!r} exists; continue the run in it with "
                "pymc_dshdp.continue_sampling, or choose another path"
            )
        super().__init__(store=zarr.DirectoryStore(path), draws_per_chunk=chunk)

    @classmethod
    def open(cls, path):
        """Open the store of an earlier run.

        Raises
        ------
        FileNotFoundError
            If there is no such run.
        ValueError
            If it was killed before its chains began.
        """
        zarr = _zarr()
        where = os.fspath(path)
        if not os.path.exists(os.path.join(where, "_sampling_state", "draw_idx")):
            raise FileNotFoundError(f"{where!r} is not the store of a run begun with ZarrTrace")
        trace = cls.__new__(cls)
        trace.synchronizer = None
        trace.compressor = zarr.storage.default_compressor
        trace.root = zarr.open_group(zarr.DirectoryStore(where), mode="a")
        try:
            trace.draws_per_chunk = int(trace.root["_sampling_state"].attrs["draws_per_chunk"])
        except KeyError:
            raise ValueError(
                f"the store {where!r} is not complete: its run was killed before the chains "
                "began; remove it and begin again"
            ) from None
        trace.include_transformed = False
        trace._is_base_setup = False
        return trace

    # -- writing --------------------------------------------------------------------------------

    @property
    def coords(self):
        """Coordinates of the model, as arrays that can be stored."""
        return self._coords

    @coords.setter
    def coords(self, coords):
        self._coords = {name: _storable(values) for name, values in coords.items()}

    def init_trace(self, chains, draws, tune, step, model=None, vars=None, test_point=None):
        """Create the groups; called by ``pm.sample``."""
        model = modelcontext(model)
        self._tune = tune
        self._storage_dtypes = storage_dtypes(model)
        super().init_trace(chains, draws, tune, step, model, vars, test_point)
        self.root["_sampling_state"].attrs["draws_per_chunk"] = self.draws_per_chunk
        self._recorders(model, step, self.vars, test_point)
        for chain, recorder in enumerate(self.straces):
            recorder.go_on(draws, chain, 0)

    def _recorders(self, model, step, variables, test_point):
        self.straces = [
            _Chain(
                self.root.store,
                self.tuning_steps,
                model=model,
                vars=variables,
                test_point=test_point,
                stats_bijection=StatsBijection(step.stats_dtypes),
                draws_per_chunk=self.draws_per_chunk,
                fn=self.fn,
            )
            for _ in range(self.n_chains)
        ]

    def init_group_with_empty(
        self, group, var_dtype_and_shape, chains, draws, extra_var_attrs=None
    ):
        """Create the arrays of a group, and those of its warm-up."""
        plain = {
            name: (self._storage_dtypes.get(name, dtype), shape)
            for name, (dtype, shape) in var_dtype_and_shape.items()
            if np.dtype(dtype) != object
        }
        create = super().init_group_with_empty
        if self._tune:
            warmup = self.root.create_group(f"{WARMUP}{group.basename}", overwrite=True)
            create(warmup, plain, chains, self._tune, extra_var_attrs)
        return create(group, plain, chains, draws - self._tune, extra_var_attrs)

    def init_sampling_state_group(self, tune, chains):
        """Create the group of what is not draws."""
        super().init_sampling_state_group(tune, chains)
        state = self.root["_sampling_state"]
        del state["sampling_state"]
        # One chunk an entry: written without reading, which numcodecs may refuse for pickles.
        warnings = state["global_warnings"]
        state.empty(
            name="global_warnings",
            shape=(0,),
            chunks=(1,),
            dtype="object",
            object_codec=warnings.filters[0],
            overwrite=True,
        )

    def split_warmup_groups(self):
        """Leave the groups alone: they are apart from the start."""

    # -- going on -------------------------------------------------------------------------------

    @property
    def n_chains(self):
        """Number of chains."""
        return len(self.root["_sampling_state"]["draw_idx"])

    @property
    def planned_draws(self):
        """Number of draws after tuning that each chain has room for."""
        return len(self.root["posterior"]["draw"])

    def positions(self):
        """Where each chain stands; None where nothing of it is stored."""
        found = [_last_position(self.root.store, chain) for chain in range(self.n_chains)]
        return [None if one is None else one[0] for one in found]

    def prepare_to_go_on(self, model, step, draws, positions, point):
        """Make room for ``draws`` more draws, and recorders that begin where the chains stand."""
        planned = self.planned_draws + draws
        for name in DRAWS:
            for array in self.root[name].values():
                if array.attrs["_ARRAY_DIMENSIONS"][:2] == ["chain", "draw"]:
                    array.resize(array.shape[0], planned, *array.shape[2:])
        for name in reversed(DRAWS):  # the posterior last: it says how many are planned
            number = self.root[name]["draw"]
            number.resize(planned)
            number[...] = np.arange(planned)
        variables = trace_variables(model, self.stored_variables())
        self.fn = model.compile_fn(
            variables, inputs=model.value_vars, on_unused_input="ignore", point_fn=False
        )
        self._recorders(model, step, variables, point)
        for chain, (recorder, position) in enumerate(zip(self.straces, positions, strict=True)):
            recorder.go_on(planned, chain, position.done)
            recorder.link_stepper(step)

    def stored_variables(self):
        """Names of the variables stored."""
        group = self.root["posterior"]
        return [name for name, a in group.arrays() if name not in a.attrs["_ARRAY_DIMENSIONS"]]

    # -- reading --------------------------------------------------------------------------------

    def to_inferencedata(self, save_warmup=False):
        """Read the store into memory.

        Parameters
        ----------
        save_warmup : bool
            Whether to read the tuning draws too.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            As ``pm.sample`` returns without a ``ZarrTrace``. Of a run that was interrupted,
            the chains whose common part has the most draws.
        """
        done = np.asarray(self.root["_sampling_state"]["draw_idx"])
        lengths = dict(enumerate(np.maximum(done - self.tuning_steps, 0).tolist()))
        chains = longest_chains(lengths) or [int(np.argmax(done))]
        draws = min(lengths[c] for c in chains)
        groups = {}
        for name, group in self.root.groups():
            if name.startswith("_") or (name.startswith(WARMUP) and not save_warmup):
                continue
            data = _read(group)
            if name.removeprefix(WARMUP) in DRAWS:
                data = data.isel(chain=chains)
                data = data if name.startswith(WARMUP) else data.isel(draw=slice(draws))
                data = _named_as_in_a_result(data) if name.endswith("sample_stats") else data
                data.attrs["tuning_steps"] = self.tuning_steps
                data.attrs["sampling_time"] = self.sampling_time
            groups[name] = data
        return make_result(groups)


def _storable(values):
    values = pd.Index(values).to_numpy()
    return values.astype(str) if values.dtype == object else values


def _read(group):
    variables = {}
    for name, array in group.arrays():
        try:
            variables[name] = (array.attrs["_ARRAY_DIMENSIONS"], array[...])
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"the store {group.store.path!r} is damaged: {array.path!r} cannot be read, {error}"
            ) from error
    coords = {name: value for name, value in variables.items() if value[0] == [name]}
    return xr.Dataset({k: v for k, v in variables.items() if k not in coords}, coords)


def _named_as_in_a_result(stats):
    """Rename ``sampler_i__name`` to name, stacking a statistic that several steps have."""
    found = {}
    for name, variable in stats.items():
        if name != "in_warmup":
            plain = name.split("__", 1)[1]
            found.setdefault(PYMC_NAMES.get(plain, plain), []).append(variable)
    return xr.Dataset(
        {
            name: same[0] if len(same) == 1 else xr.concat(same, dim=f"{name}_dim_0")
            for name, same in found.items()
            if name != "tune"
        }
    ).transpose("chain", "draw", ...)
