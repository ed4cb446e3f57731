"""How many states a parametric hidden Markov model should have: scores over their number."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
from pymc.exceptions import ImputationWarning
from rich.progress import track
from scipy.special import logsumexp

from pymc_dshdp.analysis.comparison import units
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.analysis.held_out import held_out_log_likelihood
from pymc_dshdp.analysis.maximum import MarginalLikelihood
from pymc_dshdp.analysis.state_choice import StateChoice
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.likelihood.missing import MissingValues
from pymc_dshdp.transitions.fixed import FixedRows
from pymc_dshdp.transitions.found import find_transitions
from pymc_dshdp.transitions.record import record_in

__all__ = ["choose_states"]

ASCENTS = 10  # of the best draws of so many stretches of the draws
SAME = 0.01  # nats within which two ascents have come to the same maximum


def choose_states(
    build: Callable[[int, Any], pm.Model],
    n_states: Iterable[int],
    data: Any,
    *,
    initial: Literal["estimated", "stationary"] = "estimated",
    folds: int = 5,
    draws: int = 400,
    tune: int = 200,
    chains: int = 2,
    cores: int | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> StateChoice:
    r"""Compare numbers of states of a parametric hidden Markov model, ``FixedTransitions``.

    For each number the model is sampled on all data and, ``folds`` times, with a part of them
    masked: whole sequences where there are at least 20, else blocks of consecutive times (20 or
    more in all), every ``folds``-th in one fold. The held-out score is the sum over folds f of

    .. math::

       \log \frac1S \sum_s p(y_f \mid y_{-f}, \theta_s) = \log \frac1S \sum_s
       \frac{p(y \mid \theta_s)}{p(y_{-f} \mid \theta_s)}, \qquad \theta_s \sim p(\theta \mid
       y_{-f}),

    with the path summed out, ``held_out_log_likelihood`` of both: a fold is told apart from its
    surroundings as missing data are, and everything else is where it was.

    The log-likelihood is its maximum over the parameters, the path summed out. Draws lie below it;
    so from the best draw of each of ten stretches of the draws an ascent (L-BFGS) leads to a local
    maximum, and the best of these is reported. It is that of maximum likelihood, without a prior,
    whose AIC and BIC other packages give.

    Parameters
    ----------
    build : callable
        ``build(n_states, data)`` declares the model with this number of states on these data,
        ``data`` as given here or masked in part, and returns it. Nothing else may change.
    n_states : iterable of int
        The numbers, from 1 on.
    data : array, DataFrame or dict of them by name
        A row for each time of the states, or (n_sequences, T, ...) for a batch. Missing values as
        NaN or masked.
    initial : {"estimated", "stationary"}
        For the maximum alone: whether the initial distribution is a free parameter (depmixS4's
        way, the model's own), or the stationary one of P and costs none (Zucchini & MacDonald's).
    folds : int
    draws, tune, chains, cores
        Of each call of ``pm.sample``, of which there are ``folds`` + 1 for each number of states.
    random_seed : int, optional
        The seed of a fit follows from this, its number of states and its fold alone.
    progressbar : bool

    Returns
    -------
    StateChoice
        Print it; ``.table`` is the DataFrame.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, or what in the model that ``build`` declares cannot be compared:
        transitions other than ``FixedTransitions``, self-persistence kappa, other numbers of
        states than asked for, data that the model does not hold, or likelihoods of which
        masked values cannot be summed out (``SwitchingVAR``).

    Notes
    -----
    Counted as parameters are the elements, in PyMC's unconstrained space, of the variables that the
    density of the data given the states contains: K for ``rate`` of K states, D(D + 1)/2 for each
    covariance, those shared by the states once, hyperparameters above them not at all. Where that
    density depends on fewer numbers than these (``m + tau * raw[z]``, a softmax of as many logits
    as there are categories) the difference is taken off, as ``redundant``: the rank of the
    derivatives of all log-densities counts. Of each row
    of P the possible transitions less one; and of the initial distribution the possible states
    less one, unless it is stationary.

    A likelihood may have no bound (normal observations with a standard deviation for each state);
    what is reported is then a local maximum near the posterior's draws, or NaN.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dshdp as dshdp
    >>> years, counts = dshdp.datasets.earthquakes()
    >>> def build(n_states, counts):
    ...     with pm.Model(coords={"state": np.arange(n_states)}) as model:
    ...         hmm = dshdp.FixedTransitions("hmm", dims="state")
    ...         z = dshdp.HiddenStates("z", hmm, length=len(counts))
    ...         rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
    ...         pm.Poisson("counts", rate[z], observed=counts)
    ...     return model
    >>> short = {"folds": 2, "draws": 20, "tune": 20, "chains": 1, "progressbar": False}
    >>> choice = dshdp.choose_states(build, [1, 2], counts, random_seed=1, **short)
    >>> choice.best("bic")
    2
    """
    numbers = _checked_numbers(n_states)
    if not callable(build):
        raise TypeError(f"build must be a function build(n_states, data), received {build!r}")
    if initial not in ("estimated", "stationary"):
        raise ValueError(f'initial must be "estimated" or "stationary", received {initial!r}')
    for name, value, least in (
        ("folds", folds, 2),
        ("draws", draws, 1),
        ("tune", tune, 0),
        ("chains", chains, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, received {value!r}")
    seed = np.random.SeedSequence(random_seed).entropy
    models = {K: _Declared(build, K, data) for K in numbers}
    fold_of = models[numbers[0]].folds(folds)
    masked = {
        K: [one.held_out(build, fold_of == f) for f in range(folds)] for K, one in models.items()
    }

    def fit(K, model, fold):
        [state] = np.random.SeedSequence(seed, spawn_key=(K, fold + 1)).generate_state(1)
        return pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=int(state),
            model=model,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )

    results, scores, rows, counted = {}, {}, {}, {}
    for K in track(numbers, "States compared", disable=not progressbar):
        one = models[K]
        results[K] = fit(K, one.model, -1)
        scores[K] = np.array(
            [_held_out(fit(K, part, f), one.model, part) for f, part in enumerate(masked[K])]
        )
        rows[K], counted[K] = _maximum(one, results[K], initial)
    frame = _frame(scores, rows, counted, models[numbers[0]].n)
    parameters = pd.DataFrame.from_dict(counted, orient="index").rename_axis("states")
    return StateChoice(
        table=frame,
        parameters=parameters.fillna(0).astype(int),
        n=models[numbers[0]].n,
        models={K: one.model for K, one in models.items()},
        results=results,
    )


class _Declared:
    """The model of all data with K states, and what can be masked of it."""

    def __init__(self, build, K, data):
        self.K, self.data = K, data
        self.model = _built(build, K, data)
        found = [t for t in find_transitions(self.model) if t.states or t.observed]
        where = f"the model that build({K}, data) declares"
        if len(found) != 1 or len(found[0].states) != 1 or found[0].observed:
            raise ValueError(
                f"{where} must have one HiddenStates variable, received "
                f"{[z.name for t in found for z in (*t.states, *t.observed)]}"
            )
        [self.transitions] = found
        [self.z] = self.transitions.states
        record = record_in(self.model, self.z)
        if not isinstance(self.transitions, FixedRows):
            raise ValueError(
                f"{where} has the transitions {record.kind}; numbers of states are compared of "
                "FixedTransitions. A prior that learns the number is compared with them by "
                "compare_held_out"
            )
        if record.kappa != "none":
            raise ValueError(
                f"{where} has a self-persistence kappa, of which the likelihood cannot tell the "
                "diagonal of P; leave it out"
            )
        if self.transitions.n_states != K:
            raise ValueError(
                f"{where} has {self.transitions.n_states} states; make their number what build is "
                "given"
            )
        self._shape = self.model.initial_point()[self.model.rvs_to_values[self.z].name].shape
        self._arrays = {
            name: _as_masked(name, values, self._shape) for name, values in _named(data).items()
        }
        seen = [_per_time(~np.ma.getmaskarray(a), self._shape) for a in self._arrays.values()]
        self.n = int(np.any(seen, axis=0).sum())

    def folds(self, folds):
        """Fold of each time."""
        start = self.model.initial_point()
        starts = units(path_lengths(self.model, self.z, start))
        if len(starts) < folds:
            raise ValueError(
                f"folds must be at most {len(starts)}, the number of sequences or blocks of times "
                f"that there are, received {folds}"
            )
        sizes = np.diff(np.r_[starts, int(np.prod(self._shape))])
        return np.repeat(np.arange(len(starts)) % folds, sizes)

    def held_out(self, build, times):
        """Declare the model with the data of some times masked."""
        masked = {}
        for name, array in self._arrays.items():
            along = times.reshape(*self._shape, *(1,) * (array.ndim - len(self._shape)))
            masked[name] = np.ma.array(
                array.data, mask=np.ma.getmaskarray(array) | np.broadcast_to(along, array.shape)
            )
        model = _built(build, self.K, masked if isinstance(self.data, dict) else masked[""])
        [z] = [z for t in find_transitions(model) for z in t.states]
        summed = {rv.name for rv in MissingValues(model, [z]).rvs}
        new = {rv.name for rv in model.free_RVs} - {
            rv.name for rv in self.model.free_RVs if rv.name not in summed
        }
        if not summed:
            raise ValueError(
                f"nothing of the model that build({self.K}, data) declares on masked data is "
                "missing; pass what build is given as observed=, not the data from elsewhere"
            )
        if new - summed:
            raise ValueError(
                f"{sorted(new - summed)} of the model that build({self.K}, data) declares on "
                "masked data cannot be summed out of the likelihood, so that nothing can be held "
                "out within the data. Compare models on other data by compare_held_out"
            )
        return model


def _checked_numbers(n_states):
    try:
        numbers = list(n_states)
    except TypeError:
        numbers = [None]
    whole = (isinstance(K, (int, np.integer)) and not isinstance(K, bool) for K in numbers)
    if not numbers or not all(whole) or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise ValueError(
            "n_states must be different numbers of states of at least 1, range(1, 9) say; received "
            f"{n_states!r}"
        )
    return [int(K) for K in numbers]


def _built(build, K, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        model = build(K, data)
    if not isinstance(model, pm.Model):
        raise TypeError(
            f"build({K}, data) must return the pymc.Model that it declares, received "
            f"{type(model).__name__}"
        )
    return model


def _named(data):
    return data if isinstance(data, dict) else {"": data}


def _as_masked(name, values, shape):
    array = np.ma.asarray(values)
    where = f"data[{name!r}]" if name else "data"
    if array.shape[: len(shape)] != shape:
        raise ValueError(
            f"{where} must have a row for each time of the states, a shape that begins with "
            f"{shape}; received {array.shape}. What is not along the times belongs into build"
        )
    return np.ma.masked_invalid(array) if array.dtype.kind == "f" else array


def _per_time(elements, shape):
    return elements.reshape(*shape, -1).any(axis=-1).ravel()


def _held_out(idata, model, masked):
    """Log predictive density of what is masked given the rest."""
    whole, rest = (held_out_log_likelihood(idata, model=m)["total"] for m in (model, masked))
    ratio = (whole - rest).values
    return logsumexp(ratio) - np.log(ratio.size)


def _maximum(one, idata, initial):
    """(log-likelihood, share of ascents that came to it), and the parameters counted."""
    likelihood = MarginalLikelihood(
        one.model, one.transitions, PosteriorDraws(idata, one.model), initial
    )
    total = held_out_log_likelihood(idata, model=one.model)["total"].values
    stretches = np.array_split(np.arange(total.size), min(ASCENTS, total.size))
    best = [np.unravel_index(i[total.ravel()[i].argmax()], total.shape) for i in stretches]
    ends = [likelihood.ascend(likelihood.start(*draw)) for draw in best]
    found = np.array([end.log_likelihood for end in ends if end.found])
    if not found.size:
        return (np.nan, 0.0), likelihood.n_parameters
    share = np.sum(found > found.max() - SAME) / len(ends)
    return (found.max(), share), likelihood.n_parameters


def _frame(scores, rows, counted, n):
    by_fold = pd.DataFrame(scores).T
    total = by_fold.sum(axis=1)
    excess = by_fold - by_fold.loc[total.idxmax()]
    folds = by_fold.shape[1]
    p = {K: sum(counts.values()) for K, counts in counted.items()}
    frame = pd.DataFrame(
        {
            "held_out": total,
            "se": np.sqrt(folds) * by_fold.std(axis=1),
            "diff": excess.sum(axis=1),
            "dse": np.sqrt(folds) * excess.std(axis=1),
            "log_likelihood": {K: value for K, (value, _) in rows.items()},
            "parameters": p,
        }
    )
    frame["aic"] = 2.0 * frame["parameters"] - 2.0 * frame["log_likelihood"]
    frame["bic"] = np.log(n) * frame["parameters"] - 2.0 * frame["log_likelihood"]
    frame["ascents"] = pd.Series({K: share for K, (_, share) in rows.items()})
    return frame.rename_axis("states")
