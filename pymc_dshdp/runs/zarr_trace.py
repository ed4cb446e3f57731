"""Draws on disk as they are made, with all that is needed to go on from the last of them."""

import os
from types import SimpleNamespace

import numpy as np
from pymc.backends.arviz import (
    coords_and_dims_for_inferencedata,
    find_constants,
    find_observations,
)
from pymc.model import modelcontext
from pymc.step_methods.compound import (
    StatsBijection,
    flatten_steps,
    get_stats_dtypes_shapes_from_steps,
)

from pymc_dshdp._compat import TraceOfStore, make_result
from pymc_dshdp.graph.path import storage_dtypes
from pymc_dshdp.runs.chains import positive, trace_variables
from pymc_dshdp.runs.state_summary import longest_chains
from pymc_dshdp.runs.zarr_chain import (
    STATE,
    WARMUP,
    Recorder,
    last_position,
    write_chunk,
)
from pymc_dshdp.runs.zarr_groups import (
    NUMERIC,
    arrays_of,
    create_array,
    create_group,
    in_a_folder,
    is_drawn,
    named_as_in_a_result,
    read_group,
    storable,
    values_of,
)

__all__ = ["ZarrTrace"]

DRAWS = ("posterior", "sample_stats")
WRITTEN_BY = "pymc_dshdp.ZarrTrace"


def _zarr():
    try:
        import zarr
        from zarr.codecs import ZstdCodec  # noqa: F401, not in zarr 2
    except ImportError:
        raise ImportError(
            "ZarrTrace needs zarr 3.1 or newer; pip install 'pymc-dshdp[zarr]'"
        ) from None
    return zarr


class ZarrTrace(TraceOfStore):
    """Draws stored on disk while the chains run, safe to interrupt and complete enough to continue.

    ::

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
        If the directory exists.
    ImportError
        Without zarr 3.1 or newer.

    Notes
    -----
    The draws are arrays of numbers in zarr's format 3, with checksums, which other programs can
    read (``xarray.open_zarr("run.zarr", group="posterior", consolidated=False)``). The state is
    stored by ``pickle``, and reading a pickle runs what it says: open only stores that you trust.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(trace=dshdp.ZarrTrace("run.zarr"))
    >>> idata = dshdp.ZarrTrace.open("run.zarr").to_inferencedata()
    """

    def __init__(self, path: str | os.PathLike[str], *, draws_per_chunk: int = 10) -> None:
        self.draws_per_chunk = positive("draws_per_chunk", draws_per_chunk)
        zarr = _zarr()
        self._path = os.path.abspath(path)
        if os.path.exists(self._path):
            raise FileExistsError(
                f"{os.fspath(path)!r} exists; continue the run in it with "
                "pymc_dshdp.continue_sampling, or choose another path"
            )
        self.root = zarr.open_group(
            self._path, mode="w-", zarr_format=3, attributes={"written_by": WRITTEN_BY}
        )

    @classmethod
    def open(cls, path):
        """Open the store of an earlier run.

        Raises
        ------
        FileNotFoundError
            If there is no such run.
        ValueError
            If it was killed before its chains began, or written in zarr's format 2.
        """
        zarr = _zarr()
        where = os.fspath(path)
        if os.path.exists(os.path.join(where, ".zgroup")):
            raise ValueError(
                f"the store {where!r} is in zarr's format 2, of an earlier ZarrTrace; finish it "
                "with the version that wrote it, or begin again in another directory. Its draws "
                f"are read by xarray.open_zarr({where!r}, group='posterior', consolidated=False, "
                "mask_and_scale=False)"
            )
        try:
            root = zarr.open_group(where, mode="r+", zarr_format=3)
        except (FileNotFoundError, NotADirectoryError):
            root = None
        if root is None or root.attrs.get("written_by") != WRITTEN_BY:
            raise FileNotFoundError(f"{where!r} is not the store of a run begun with ZarrTrace")
        trace = cls.__new__(cls)
        trace._path, trace.root = os.path.abspath(where), root
        if not trace._has_begun():
            raise ValueError(
                f"the store {where!r} is not complete: its run was killed before the chains "
                "began; remove it and begin again"
            )
        trace.draws_per_chunk = trace._number("draws_per_chunk")
        return trace

    # -- writing --------------------------------------------------------------------------------

    def init_trace(self, chains, draws, tune, step, model=None, vars=None, test_point=None):
        """Create the groups; called by ``pm.sample``."""
        if STATE in self.root:
            raise ValueError(
                f"the ZarrTrace of {self._path!r} has the draws of an earlier pm.sample; continue "
                "it with pymc_dshdp.continue_sampling, or make another ZarrTrace"
            )
        model = modelcontext(model)
        coords, dims = coords_and_dims_for_inferencedata(model)
        for name, data in (
            ("constant_data", find_constants(model)),
            ("observed_data", find_observations(model)),
        ):
            if data:
                data = {k: storable(v) for k, v in data.items()}
                shapes = {k: (v.dtype, v.shape) for k, v in data.items()}
                group = create_group(self.root, name, shapes, (), (), coords, dims)
                for variable, values in data.items():
                    group[in_a_folder(variable)][...] = values
        variables = trace_variables(model) if vars is None else vars
        point = model.initial_point() if test_point is None else test_point
        fn, values = self._at_a_point(model, variables, point)
        small = storage_dtypes(model)
        layout = {
            "posterior": {k: (small.get(k, v.dtype), v.shape) for k, v in values.items()},
            "sample_stats": _numeric_statistics(step),
        }
        for name, fields in layout.items():
            sizes = [(f"{WARMUP}{name}", tune)] if tune else []
            for prefixed, planned in (*sizes, (name, draws)):
                chunk = (1, self.draws_per_chunk)
                create_group(self.root, prefixed, fields, (chains, planned), chunk, coords, dims)
        state = self.root.create_group(STATE)
        create_array(state, "draw_idx", (chains,), "int64", (1,), ["chain"])
        for name in ("draws", "sampling_time", "tuning_steps", "draws_per_chunk"):
            create_array(state, name, (), "float64" if name == "sampling_time" else "int64", (), [])
        for name, value in (
            ("draws", draws),
            ("sampling_time", 0.0),
            ("tuning_steps", tune),
            ("draws_per_chunk", self.draws_per_chunk),  # the last: then all is there
        ):
            self._set_number(name, value)
        self._recorders(step, fn, list(values))

    def _at_a_point(self, model, variables, point):
        fn = model.compile_fn(
            variables, inputs=model.value_vars, on_unused_input="ignore", point_fn=False
        )
        return fn, {v.name: x for v, x in zip(variables, fn(**point), strict=True)}

    def _recorders(self, step, fn, names):
        fields = {
            (group, name): (array.dtype, array.shape[2:], array.fill_value)
            for group in DRAWS
            for name, array in self._of_draws(group)
        }
        self.straces = [
            Recorder(
                self._path,
                chain=chain,
                tune=self.tuning_steps,
                draws=self.planned_draws,
                chunk=self.draws_per_chunk,
                fields=fields,
                names=names,
                fn=fn,
                bijection=StatsBijection(step.stats_dtypes),
            )
            for chain in range(self.n_chains)
        ]

    def split_warmup_groups(self):
        """Leave the groups alone: they are apart from the start."""

    # -- what pm.sample asks a trace for --------------------------------------------------------

    @property
    def posterior(self):
        """Something whose ``draw`` is as long as the run that was planned."""
        return SimpleNamespace(draw=range(self.planned_draws))

    @property
    def _sampling_state(self):
        return SimpleNamespace(draw_idx=self.iterations(), global_warnings=[])

    # -- going on -------------------------------------------------------------------------------

    def _number(self, name):
        return self.root[STATE][name][()].item()

    def _set_number(self, name, value):
        array = self.root[STATE][name]
        write_chunk(os.path.join(self._path, STATE, name), (), np.asarray(value, array.dtype))

    def _has_begun(self):
        return os.path.exists(os.path.join(self._path, STATE, "draws_per_chunk", "c"))

    @property
    def n_chains(self):
        """Number of chains."""
        return self.root[STATE]["draw_idx"].shape[0]

    @property
    def planned_draws(self):
        """Number of draws after tuning that each chain has room for."""
        return self._number("draws")

    @property
    def tuning_steps(self):
        """Number of tuning iterations."""
        return self._number("tuning_steps")

    @property
    def sampling_time(self):
        """Seconds of sampling."""
        return self._number("sampling_time")

    @sampling_time.setter
    def sampling_time(self, seconds):
        self._set_number("sampling_time", seconds)

    def iterations(self):
        """Count the iterations made by each chain, tuning included."""
        return np.asarray(self.root[STATE]["draw_idx"])

    def positions(self):
        """Where each chain stands; None where nothing of it is stored."""
        found = [last_position(self._path, chain) for chain in range(self.n_chains)]
        return [None if one is None else one[0] for one in found]

    def prepare_to_go_on(self, model, step, draws, positions, point):
        """Make room for ``draws`` more draws, and recorders that begin where the chains stand."""
        planned = self.planned_draws + draws
        for group in DRAWS:
            for _, array in self._of_draws(group):
                array.resize((array.shape[0], planned, *array.shape[2:]))
        self._set_number("draws", planned)
        fn, values = self._at_a_point(model, trace_variables(model, self.stored_variables()), point)
        self._recorders(step, fn, list(values))
        for recorder, position in zip(self.straces, positions, strict=True):
            recorder.go_on(position.done, self._begun_chunk(recorder.chain, position.done))
            recorder.link_stepper(step)

    def _begun_chunk(self, chain, done):
        """Draws of a chain that share a chunk with the next one, by group and name."""
        tune = self.tuning_steps
        prefix, end = (WARMUP, done) if done < tune else ("", done - tune)
        rows = slice(end - end % self.draws_per_chunk, end)
        return {
            (group, name): list(values_of(self._path, array, (chain, rows)))
            for group in DRAWS
            for name, array in self._of_draws(prefix + group)
            if rows.stop > rows.start
        }

    def _of_draws(self, group):
        """Arrays of a group that have chains and draws, by name."""
        return [found for found in arrays_of(self.root[group]) if is_drawn(found[1])]

    def stored_variables(self):
        """Names of the variables stored."""
        return [name for name, _ in self._of_draws("posterior")]

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
        done = self.iterations()
        lengths = dict(enumerate(np.maximum(done - self.tuning_steps, 0).tolist()))
        chains = longest_chains(lengths) or [int(np.argmax(done))]
        draws = min(lengths[c] for c in chains)
        groups = {}
        for name, group in self.root.groups():
            if name == STATE or (name.startswith(WARMUP) and not save_warmup):
                continue
            data = read_group(self._path, group, None if name.startswith(WARMUP) else draws)
            if name.removeprefix(WARMUP) in DRAWS:
                data = data.isel(chain=chains)
                data = named_as_in_a_result(data) if name.endswith("sample_stats") else data
                data.attrs["tuning_steps"] = self.tuning_steps
                data.attrs["sampling_time"] = self.sampling_time
            groups[name] = data
        return make_result(groups)


def _numeric_statistics(step):
    """(dtype, shape) of what the steps report of a draw and a store can hold."""
    reported = get_stats_dtypes_shapes_from_steps(flatten_steps(step))
    return {
        name: (np.dtype(dtype), tuple(shape or ()))
        for name, (dtype, shape) in reported.items()
        if np.dtype(dtype).kind in NUMERIC
    }
