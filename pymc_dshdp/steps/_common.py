"""What the steps share: the model and priors they serve, and the paths of a prior in a point."""

import sys

import numpy as np
from pymc.model import Model, modelcontext

from pymc_dshdp.graph.path import initial_states, known_states, observed_path, path_lengths
from pymc_dshdp.graph.walks import depends_on_random_variables, role_of
from pymc_dshdp.kernels.cache import telling_of_compilation
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.transitions.record import is_recorded, record_in
from pymc_dshdp.transitions.update import TransitionReader

FRAMES = 8


def model_of(rv):
    """Find the model of a variable that PyMC asks a step's ``competence`` about, or None.

    PyMC does not pass it. It is the local variable ``model`` of a calling function (PyMC's
    ``assign_step_methods``, whether or not ``pm.sample`` is called inside ``with model:``, and for
    clones of models too), or else the model context.
    """
    frame = sys._getframe(2)
    for _ in range(FRAMES):
        if frame is None:
            break
        model = frame.f_locals.get("model")
        if isinstance(model, Model) and rv in model.basic_RVs:
            return model
        frame = frame.f_back
    try:
        model = modelcontext(None)
    except TypeError:
        return None
    return model if rv in model.basic_RVs else None


def select_priors(model, priors, vars, step):
    """Find the priors that the given value variables belong to.

    Raises
    ------
    ValueError
        Naming a variable that belongs to no prior with hidden states, or states left out.
    """
    owner = {}
    for prior in priors:
        members = [
            *prior.states,
            *prior.transition_variables(model),
            *prior.persistence_variables(model),
        ]
        owner.update({model.rvs_to_values[rv]: prior for rv in members})
    selected = []
    for var in vars:
        if var not in owner:
            _refuse_cut_off(model, priors, model.values_to_rvs.get(var), step)
            raise ValueError(
                f"{step}: {var.name!r} is not a HiddenStates variable, nor part of a prior that "
                "has hidden states; pass the variable that HiddenStates returned, as in "
                f"{step}([z])"
            )
        if owner[var] not in selected:
            selected.append(owner[var])
    return selected


def _refuse_cut_off(model, priors, rv, step):
    """Raise if a variable is part of a prior, but what leads from it to the states is fixed."""
    if rv is None or role_of(rv) is None:
        return
    name = rv.tag.dshdp[0]
    parts = [
        node
        for prior in priors
        if getattr(prior.pi_bar.tag, "dshdp", ("",))[0] == name
        for node in (prior.beta, prior.kappa)
        if node is not None and node not in model.free_RVs
    ]
    fixed = [p.name for p in parts if p.name and not depends_on_random_variables([p])]
    raise ValueError(
        f"{step}: {rv.name!r} is part of the prior {name!r}, but no hidden states "
        f"depend on it: {' and '.join(map(repr, fixed)) or 'what leads to them'} has been fixed by "
        f"pm.do or pm.observe. Fix {rv.name!r} too, or leave it out by prune_vars=True of pm.do"
    )


def rehearse(method, step, start, **attributes):
    """Run an iteration of a new step, by its class's own method ``step``, and forget it.

    What numba has to compile is compiled here, before the chains begin and once for all of them.
    The attributes hold for this iteration only, and its random numbers are its own.
    """
    kept = dict(vars(step))
    vars(step).update(attributes, rng=np.random.default_rng(0))
    try:
        with telling_of_compilation():
            method(step, start)
    finally:
        vars(step).update(kept)


def chain_number(rng, alone):
    """Find which chain a step's generator belongs to, among those that ``pm.sample`` spawned.

    PyMC spawns a generator for each chain, and of that one for each step of several. Where it was
    not spawned, 0.
    """
    sequence = getattr(rng.bit_generator, "seed_seq", None)
    key = getattr(sequence, "spawn_key", ())
    needed = 1 if alone else 2
    return int(key[-needed]) if len(key) >= needed else 0


def _record_lengths(model, z, lengths):
    """Bring what the result says of the lengths up to date, where these follow ``pm.set_data``."""
    if not is_recorded(model, z):
        return
    name = record_in(model, z).lengths
    if not np.array_equal(model[name].get_value(borrow=True), lengths):
        model.set_data(name, lengths)


class PathReader:
    """The hidden paths of one prior: values, lengths and pooled counts.

    Attributes
    ----------
    values, lengths, known, initial : list
        One entry per free states variable.
    observed : list of (path, lengths)
        Paths that are data.
    groups : list of ndarray of shape (T,), or (0,)
        Which group leads to each time of each states variable, the free ones first; empty without
        groups.
    """

    def __init__(self, model, prior, start):
        self.n_states = prior.n_states
        self.values = [model.rvs_to_values[z] for z in prior.states]
        self.lengths = [path_lengths(model, z, start) for z in prior.states]
        for z, lengths in zip(prior.states, self.lengths, strict=True):
            _record_lengths(model, z, lengths)
        self.known = [
            known_states(z, start[value.name].shape)
            for z, value in zip(prior.states, self.values, strict=True)
        ]
        self.initial = [
            initial_states(model, z, start[value.name].shape)
            for z, value in zip(prior.states, self.values, strict=True)
        ]
        self.observed = [observed_path(model, z) for z in prior.observed]
        for z, (path, _) in zip(prior.observed, self.observed, strict=True):
            self._check(z.name, path, known_states(z, path.shape))
        self.groups, self._n_groups = self._read_groups(model, prior, start), prior.n_groups
        first = len(self.values)
        self._observed_counts = self._counts(self.observed, self.groups[first:])

    def _read_groups(self, model, prior, start):
        shapes = [start[value.name].shape for value in self.values]
        shapes += [path.shape for path, _ in self.observed]
        if not prior.grouped:
            return [NO_INDEX for _ in shapes]
        reader = TransitionReader(model, prior)
        return [reader.along(start, shape, prior.n_groups, i) for i, shape in enumerate(shapes)]

    def paths(self, point):
        """(path, lengths) of all states variables, the free ones first."""
        free = [point[value.name] for value in self.values]
        return [*zip(free, self.lengths, strict=True), *self.observed]

    def check(self, point):
        """Raise if a path has a state that does not exist or is known to be another.

        Both can only come from the starting point (``initvals``, say) or from data.
        """
        for value, known in zip(self.values, self.known, strict=True):
            self._check(value.name, point[value.name], known)

    def _check(self, name, path, known):
        low, high = path.min(), path.max()
        if low < 0 or high >= self.n_states:
            raise ValueError(
                f"{name!r} has state {low if low < 0 else high}, but its states are 0 to "
                f"{self.n_states - 1}; number the states of initvals, or of the path observed, "
                "from 0"
            )
        if known is not None:
            wrong = np.flatnonzero((known >= 0) & (known != np.ravel(path)))
            if wrong.size:
                raise ValueError(
                    f"{name!r} has state {np.ravel(path)[wrong[0]]} at position {wrong[0]}, where "
                    f"it is known to be {known[wrong[0]]}; give a path that agrees with known"
                )

    def counts(self, point):
        """Count starts and transitions, pooled over the prior's states; shape (1 + G L, L)."""
        self.check(point)
        return self._observed_counts + self.free_counts(point)

    def free_counts(self, point):
        """Count the starts and transitions of paths that are not data."""
        n = len(self.values)
        return self._counts(self.paths(point)[:n], self.groups[:n])

    def _counts(self, paths, groups):
        counts = empty_counts(self.n_states, self._n_groups)
        for (path, lengths), index in zip(paths, groups, strict=True):
            path_counts(np.ravel(path), lengths, index, counts)
        return counts
