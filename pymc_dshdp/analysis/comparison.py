"""Compare models by how well they predict data that they have not seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import logsumexp

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.typing import Result

__all__ = ["compare_held_out", "units"]

BLOCKS = 20
ELEMENTS = 2**20  # log predictive densities held at a time


def compare_held_out(
    models: dict[str, tuple[Result, pm.Model]],
    *,
    observed: dict[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    r"""Rank models by their log predictive density of held-out data.

    ``held_out`` is :math:`\sum_n \log \frac1S \sum_s p(y_n \mid \theta^{(s)})` over sequences n:
    the density of each sequence as a whole, each draw gaining weight as it predicts well.
    ``one_step`` is :math:`\sum_t \log \frac1S \sum_s p(y_t \mid y_{1..t-1}, \theta^{(s)})`, which
    keeps the posterior of the training data throughout and depends on no single lucky draw.

    Standard errors are those of a sum over units: the sequences where there are at least 20,
    else blocks of time, 20 or more in all, each within a sequence. A unit's contribution to
    ``held_out`` is the sum of its increments in time. Differences are paired, unit by unit.

    Parameters
    ----------
    models : dict
        ``{name: (idata, model)}`` as for ``held_out_log_likelihood``: models declared again on
        the held-out data, or with ``observed`` the models of the training data.
    observed, lengths, states, thin
        As for ``held_out_log_likelihood``; the same for all models.

    Returns
    -------
    pandas.DataFrame
        One row per model, the best ``held_out`` first: ``rank``, ``held_out``, its ``se``, its
        difference to the best ``diff`` (0 for the best) and the standard error of that ``dse``;
        ``one_step``, ``one_step_se``, ``one_step_diff`` (to the same model) and
        ``one_step_dse``; ``ess``, the smallest effective number of draws behind a sequence's
        ``held_out``: near 1 it rests on one draw, so trust ``one_step``.

    Raises
    ------
    ValueError, TypeError
        Naming the model, if it is scored on the data it was trained on or if models are scored
        on other data than the rest.

    Examples
    --------
    >>> later = {"counts": [14, 18, 22, 15]}
    >>> table = dshdp.compare_held_out({"disentangled": (idata, model)}, observed=later)
    """
    if not isinstance(models, dict) or len(models) < 1:
        raise TypeError(f"models must be a dict {{name: (idata, model)}}, received {models!r}")
    scores: dict[str, tuple] = {}
    layout: Any = None
    for name, pair in models.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"models[{name!r}] must be a pair (idata, model), received {type(pair).__name__}"
            )
        idata, model = pair
        if isinstance(idata, pm.Model):
            raise TypeError(f"models[{name!r}] must have the result first, (idata, model)")
        draws = PosteriorDraws(idata, model, observed, lengths, states, thin)
        _refuse_training_data(name, draws.observed_values(), idata)
        if layout is not None and not np.array_equal(layout, draws.lengths):
            raise ValueError(
                f"models[{name!r}] is scored on sequences of lengths {draws.lengths.tolist()}, the "
                f"first one on {layout.tolist()}; score all on the same data"
            )
        layout = draws.lengths
        scores[name] = _scores(draws)
    starts = units(layout)
    sizes = np.diff(np.r_[starts, layout.sum()])
    order = sorted(scores, key=lambda name: -scores[name][0].sum())
    best = scores[order[0]]
    rows = []
    for rank, name in enumerate(order):
        held_out, one_step, ess = scores[name]
        row = [rank]
        for values, reference in ((held_out, best[0]), (one_step, best[1])):
            with np.errstate(invalid="ignore"):
                difference = values - reference
            row += [values.sum(), _error(values, starts, sizes)]
            row += [difference.sum(), _error(difference, starts, sizes)]
        rows.append([*row, ess])
    columns = ["rank", "held_out", "se", "diff", "dse"]
    columns += ["one_step", "one_step_se", "one_step_diff", "one_step_dse", "ess"]
    return pd.DataFrame(rows, index=order, columns=columns)


def _scores(draws):
    """(held-out increments (T,), one-step scores (T,), smallest effective number of draws).

    With W_t = sum_s p(y_1..t | theta_s), W_0 = S, the increments log W_t - log W_t-1 add up to
    log(W_T / S) over a sequence.
    """
    T, n = int(draws.lengths.sum()), int(np.prod(draws.draws_shape))
    one_step, weight = np.full(T, -np.inf), np.full(T, -np.inf)
    squares = np.full(draws.lengths.size, -np.inf)
    stops = np.cumsum(draws.lengths)
    parts = [slice(b - m, b) for b, m in zip(stops, draws.lengths, strict=True)]
    for block in _blocks(draws, max(1, ELEMENTS // T)):
        one_step = np.logaddexp(one_step, logsumexp(block, axis=0))
        for s, part in enumerate(parts):
            total = np.cumsum(block[:, part], axis=1)
            weight[part] = np.logaddexp(weight[part], logsumexp(total, axis=0))
            squares[s] = np.logaddexp(squares[s], logsumexp(2.0 * total[:, -1]))
    one_step -= np.log(n)
    held_out, ess = np.empty(T), []
    for part, square in zip(parts, squares, strict=True):
        last = weight[part][-1]
        if np.isneginf(last):
            held_out[part], one_step[part] = -np.inf, -np.inf
            ess.append(0.0)
            continue
        held_out[part] = np.diff(np.r_[np.log(n), weight[part]])
        ess.append(np.exp(2.0 * last - square))
    return held_out, one_step, min(ess)


def _blocks(draws, size):
    """Log predictive densities of some draws at a time, (at most size, T)."""
    rows = []
    for _, blocks in draws:
        rows.append(draws.log_predictive(blocks))
        if len(rows) == size:
            yield np.array(rows)
            rows = []
    if rows:
        yield np.array(rows)


def units(lengths):
    """First times of the units: sequences, or blocks of about equal length within them."""
    stops = np.cumsum(lengths)
    if lengths.size >= BLOCKS:
        return stops - lengths
    starts = []
    for stop, length in zip(stops, lengths, strict=True):
        blocks = min(length, int(np.ceil(BLOCKS * length / stops[-1])))
        starts.append(stop - length + np.arange(blocks) * length // blocks)
    return np.concatenate(starts)


def _error(values, starts, sizes):
    """Estimate the standard error of the sum of values from units that each give a share."""
    total = values.sum()
    if starts.size < 2 or not np.isfinite(total):
        return np.nan
    n = starts.size
    excess = np.add.reduceat(values, starts) - total * sizes / sizes.sum()
    return float(np.sqrt(n / (n - 1) * np.sum(excess**2)))


def _refuse_training_data(name, data, idata):
    trained = group(idata, "observed_data") if "observed_data" in idata else {}
    for variable, values in data.items():
        if variable in trained and np.array_equal(values, trained[variable].values):
            raise ValueError(
                f"models[{name!r}] would be scored on {variable!r} as it was in training, which "
                "says little about prediction; hold data out and pass them as observed={...}, or "
                "models declared on them"
            )
