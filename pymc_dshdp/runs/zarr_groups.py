"""Groups of a store: created from what they will hold, read as datasets."""

import re
from urllib.parse import unquote

import numpy as np
import pandas as pd
import xarray as xr

__all__ = [
    "NUMERIC",
    "arrays_of",
    "create_array",
    "create_group",
    "in_a_folder",
    "is_drawn",
    "named_as_in_a_result",
    "read_group",
    "storable",
    "values_of",
]

NUMERIC = "biufcmM"
"""Kinds of dtype that are stored as they are; the rest are labels, stored as strings."""

SEPARATOR = "."
"""Between the numbers of a chunk in the name of its file."""

PYMC_NAMES = {
    "model_logp": "lp",
    "mean_tree_accept": "acceptance_rate",
    "depth": "tree_depth",
    "tree_size": "n_steps",
}
"""Statistics that PyMC renames in a result."""


def in_a_folder(name):
    """Name of a variable or dimension as that of a folder on any system.

    ``rats::z`` of a named model is ``rats%3A%3Az``, which ``urllib.parse.unquote`` undoes.
    """
    return re.sub(r'[%:/\\<>"|?*]', lambda found: f"%{ord(found[0]):02X}", name)


def create_array(group, name, shape, dtype, chunks, dims):
    """Create an array of numbers whose chunks are files of its directory, with checksums."""
    from zarr.codecs import ZstdCodec

    dtype = np.dtype(dtype)
    return group.create_array(
        in_a_folder(name),
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(n, 1) for n in chunks),
        compressors=ZstdCodec(level=1, checksum=True),
        fill_value=np.nan if dtype.kind in "fc" else None,
        chunk_key_encoding={"name": "default", "separator": SEPARATOR},
        dimension_names=[in_a_folder(dim) for dim in dims],
    )


def create_group(root, name, fields, sizes, chunk, coords, dims):
    """Create a group with its arrays and their coordinates.

    Parameters
    ----------
    root : zarr.Group
    name : str
    fields : dict
        Names of the arrays to (dtype, shape), without chains and draws.
    sizes, chunk : tuple of int
        Chains and draws of the arrays and of a chunk; empty for data.
    coords, dims : dict
        Of the model.
    """
    group = root.create_group(name)
    labelled = {}
    for variable, (dtype, shape) in fields.items():
        own = dims.get(variable) or [None] * len(shape)
        own = [dim or f"{variable}_dim_{i}" for i, dim in enumerate(own)]
        labelled |= dict(zip(own, shape, strict=True))
        every = [*("chain", "draw")[: len(sizes)], *own]
        create_array(group, variable, (*sizes, *shape), dtype, (*chunk, *shape), every)
    for dim, size in labelled.items():
        values = storable(coords.get(dim, np.arange(size)))
        if values.dtype.kind in NUMERIC:
            array = create_array(group, dim, values.shape, values.dtype, values.shape, [dim])
        else:
            dim = in_a_folder(dim)
            array = group.create_array(dim, shape=values.shape, dtype=str, dimension_names=[dim])
        array[...] = values
    return group


def storable(values):
    """Values as an array that can be stored, labels of any kind as strings."""
    if getattr(values, "dtype", np.dtype(object)).kind not in NUMERIC:
        values = pd.Index(values).to_numpy()
    values = np.asarray(values)
    return values if values.dtype.kind in NUMERIC else values.astype(str)


def arrays_of(group):
    """Arrays of a group, (name, array), in the order of their names."""
    return sorted(
        ((unquote(folder), array) for folder, array in group.arrays()), key=lambda found: found[0]
    )


def values_of(store, array, which):
    """Read a part of an array, labels as strings; an error names it where it is damaged."""
    try:
        values = array[which]
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the store {store!r} is damaged: {array.path!r} cannot be read, {error}"
        ) from error
    return values if values.dtype.kind in NUMERIC else np.array(values.tolist(), dtype=str)


def is_drawn(array):
    """Whether an array has chains and draws."""
    return array.metadata.dimension_names[:2] == ("chain", "draw")


def read_group(store, group, draws=None):
    """Return a group as a dataset, its first ``draws`` draws or all.

    Raises
    ------
    ValueError
        Naming an array that is damaged.
    """
    variables, coords = {}, {}
    for name, array in arrays_of(group):
        dims = tuple(unquote(dim) for dim in array.metadata.dimension_names)
        into = coords if dims == (name,) else variables
        which = (slice(None), slice(draws)) if is_drawn(array) else ...
        into[name] = dims, values_of(store, array, which)
    data = xr.Dataset(variables, coords)
    numbers = {dim: np.arange(data.sizes[dim]) for dim in ("chain", "draw") if dim in data.dims}
    return data.assign_coords(numbers)


def named_as_in_a_result(stats):
    """Rename ``sampler_i__name`` to name, stacking a statistic that several steps have."""
    found = {}
    for name, variable in stats.items():
        plain = name.split("__", 1)[1]
        found.setdefault(PYMC_NAMES.get(plain, plain), []).append(variable)
    return xr.Dataset(
        {
            name: same[0] if len(same) == 1 else xr.concat(same, dim=f"{name}_dim_0")
            for name, same in found.items()
            if name != "tune"
        }
    ).transpose("chain", "draw", ...)
