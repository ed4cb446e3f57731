"""Functions that declare inverse-Wishart priors and switching autoregressions in a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.distributions._common import core
from pymc_dshdp.distributions.matrices import (
    InverseWishart,
    MatrixNormal,
    ScaledNormal,
    declare_dims,
)
from pymc_dshdp.distributions.path import path_parameters
from pymc_dshdp.emissions.autoregression import SwitchingVARDist
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.typing import Scalar, Tensor

__all__ = ["MatrixNormalInverseWishart", "NormalInverseWishart", "SwitchingVAR"]


def _empirical_covariance(name, data):
    data = np.asarray(data, dtype="float64")
    rows = data.reshape(-1, data.shape[-1])
    if data.ndim < 2 or not np.isfinite(rows).all():
        raise ValueError(
            f"{name}: data must be finite, of shape (T, d) or (n_sequences, T, d), received shape "
            f"{data.shape}"
        )
    covariance = np.atleast_2d(np.cov(rows.T, bias=True))
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0.0).tolist()
        why = f"channels {constant} are constant" if constant else "channels are collinear"
        raise ValueError(
            f"{name}: the covariance of the data is singular ({why}), so it cannot scale the "
            "prior; give S0, a positive definite matrix"
        )
    return rows.mean(axis=0), covariance


def _scale_matrix(name, S0, covariance):
    if S0 is None:
        if covariance is None:
            raise ValueError(f"{name}: give S0, or data to scale the prior by")
        return 0.75 * covariance
    return _positive_definite(name, "S0", S0)


def _positive_definite(name, label, matrix):
    if isinstance(matrix, Variable):
        return matrix
    matrix = np.asarray(matrix, dtype="float64")
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    if not square or np.any(np.linalg.eigvalsh(matrix) <= 0.0):
        raise ValueError(f"{name}: {label} must be a positive definite matrix, received {matrix!r}")
    return matrix


def _above(name, label, number, bound):
    """Check that a number, if it is one, exceeds the bound."""
    if isinstance(number, Variable):
        return number
    if np.ndim(number) != 0 or not bound < number < np.inf:
        raise ValueError(
            f"{name}: {label} must be finite and greater than {bound}, received {number!r}"
        )
    return number


def _check_shape(name, label, value, *allowed):
    """Check that a value whose shape is known has one of the shapes."""
    given = value.type.shape if isinstance(value, Variable) else np.shape(value)
    fits = any(
        len(given) == len(shape)
        and all(n == m or None in (n, m) for n, m in zip(given, shape, strict=True))
        for shape in allowed
    )
    if not fits:
        shapes = " or ".join(map(str, allowed))
        raise ValueError(f"{name}: {label} must have shape {shapes}, received {given}")


def NormalInverseWishart(
    name: str,
    *,
    data: np.ndarray | None = None,
    mu0: ArrayLike | Tensor | None = None,
    k0: Scalar | None = None,
    S0: ArrayLike | Tensor | None = None,
    n0: Scalar | None = None,
    n_states: int | None = None,
    dims: str | Sequence[str] | None = None,
) -> tuple[TensorVariable, TensorVariable]:
    r"""Means and covariances of all states with a conjugate prior.

    .. math::

       \Sigma_k \sim \mathrm{IW}(S_0, n_0), \qquad \mu_k \mid \Sigma_k \sim N(\mu_0, \Sigma_k/k_0)

    Use them as ``pm.MvNormal("y", mu[z], Sigma[z], observed=Y)``.

    Parameters
    ----------
    name : str
        The variables are ``name_mu`` and ``name_Sigma``.
    data : ndarray of shape (T, d), optional
        To set what is not given: mu0 is their mean and S0 is 0.75 times their covariance.
    mu0 : array or tensor of shape (d,), optional
        Default 0 without data.
    k0 : number or tensor, optional
        How many observations the prior on the mean is worth. Default 0.1.
    S0 : array or tensor of shape (d, d), optional
    n0 : number or tensor, optional
        Default d + 2, so that E Sigma = S0.
    n_states : int, optional
    dims : str or tuple of str, optional
        (state,) or (state, channel), instead of ``n_states``.

    Returns
    -------
    mu : TensorVariable of shape (L, d)
    Sigma : TensorVariable of shape (L, d, d)

    Raises
    ------
    ValueError
        If S0 is missing, the covariance that should set it is singular, or a parameter is outside
        its domain or has another shape.

    Examples
    --------
    >>> Y = np.random.default_rng(1).normal(size=(100, 2))
    >>> with pm.Model(coords={"state": range(10), "channel": ["x", "y"]}):
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), length=100)
    ...     mu, Sigma = dshdp.NormalInverseWishart("n", data=Y, dims=("state", "channel"))
    ...     y = pm.MvNormal("y", mu[z], Sigma[z], observed=Y)
    >>> mu.eval().shape, Sigma.eval().shape
    ((10, 2), (10, 2, 2))
    """
    name = pm.modelcontext(None).name_for(name)
    mean, covariance = (None, None) if data is None else _empirical_covariance(name, data)
    S0 = _scale_matrix(name, S0, covariance)
    d = _length(name, "S0", S0)
    mean = np.zeros(d) if mean is None else mean
    state, channel, to = declare_dims(name, n_states, dims, d, {})
    n0 = d + 2.0 if n0 is None else _above(name, "n0", n0, d - 1)
    k0 = 0.1 if k0 is None else _above(name, "k0", k0, 0)
    mu0 = mean if mu0 is None else mu0
    _check_shape(name, "mu0", mu0, (), (d,), (len(pm.modelcontext(None).coords[state]), d))
    Sigma = InverseWishart(f"{name}_Sigma", S0, n0, dims=(state, channel, to))
    mu = ScaledNormal(
        f"{name}_mu",
        mu0,
        Sigma,
        k0,
        dims=(state, channel),
    )
    return mu, Sigma


def MatrixNormalInverseWishart(
    name: str,
    *,
    data: np.ndarray | None = None,
    lags: int = 1,
    intercept: bool = False,
    M0: ArrayLike | Tensor | None = None,
    V0: ArrayLike | Tensor | None = None,
    S0: ArrayLike | Tensor | None = None,
    n0: Scalar | None = None,
    n_states: int | None = None,
    dims: str | Sequence[str] | None = None,
) -> tuple[TensorVariable, TensorVariable]:
    r"""Autoregression coefficients and noise covariances of all states with a conjugate prior.

    .. math::

       \Sigma_k \sim \mathrm{IW}(S_0, n_0), \qquad
       A_k \mid \Sigma_k \sim \mathrm{MN}(M_0, \Sigma_k, V_0)

    Use them in ``SwitchingVAR``. The defaults are those of Zhou, Gao & Paninski (2020) for
    behavioural video: M0 = 0, V0 = I, n0 = d + 2 and, with ``data``, S0 = 0.75 times their
    covariance.

    Parameters
    ----------
    name : str
        The variables are ``name_A`` and ``name_Sigma``.
    data : ndarray of shape (T, d), optional
        To set S0.
    lags : int
        Sets the number of columns of A, p = lags x d, plus 1 with ``intercept``.
    intercept : bool
        Whether the last column of A is an intercept.
    M0 : array or tensor of shape (d, p), optional
    V0 : array or tensor of shape (p, p), optional
        Covariance over columns.
    S0 : array or tensor of shape (d, d), optional
    n0 : number or tensor, optional
    n_states : int, optional
    dims : str or tuple of str, optional
        (state,) or (state, channel), instead of ``n_states``.

    Returns
    -------
    A : TensorVariable of shape (L, d, p)
    Sigma : TensorVariable of shape (L, d, d)

    Raises
    ------
    ValueError
        If S0 is missing, or the covariance that should set it is singular.

    Examples
    --------
    >>> Y = np.random.default_rng(1).normal(size=(100, 2))
    >>> with pm.Model(coords={"state": range(10), "channel": ["x", "y"]}):
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), length=100)
    ...     A, Sigma = dshdp.MatrixNormalInverseWishart(
    ...         "ar", data=Y, lags=2, intercept=True, dims=("state", "channel")
    ...     )
    ...     y = dshdp.SwitchingVAR("y", A, Sigma, z, observed=Y, lags=2, intercept=True)
    >>> A.eval().shape, Sigma.eval().shape  # two lags of two channels and an intercept
    ((10, 2, 5), (10, 2, 2))
    """
    name = pm.modelcontext(None).name_for(name)
    lags = _checked_lags(name, lags)
    covariance = None if data is None else _empirical_covariance(name, data)[1]
    S0 = _scale_matrix(name, S0, covariance)
    d = _length(name, "S0", S0)
    p = lags * d + bool(intercept)
    M0 = np.zeros((d, p)) if M0 is None else M0
    V0 = np.eye(p) if V0 is None else _positive_definite(name, "V0", V0)
    _check_shape(name, "M0", M0, (d, p))
    _check_shape(name, "V0", V0, (p, p))
    regressor = f"{name}_regressor"
    state, channel, to = declare_dims(name, n_states, dims, d, {regressor: p})
    n0 = d + 2.0 if n0 is None else _above(name, "n0", n0, d - 1)
    Sigma = InverseWishart(f"{name}_Sigma", S0, n0, dims=(state, channel, to))
    A = MatrixNormal(f"{name}_A", M0, Sigma, V0, dims=(state, channel, regressor))
    return A, Sigma


def SwitchingVAR(
    name: str,
    A: TensorVariable,
    Sigma: TensorVariable,
    z: TensorVariable,
    *,
    observed: Any = None,
    lags: int = 1,
    intercept: bool = False,
    initial: Any = None,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    r"""Vector autoregression that switches with the hidden states.

    .. math::

       y_t \sim N\Big(\sum_{l=1}^{\mathrm{lags}} A_{z_t, l} \, y_{t-l} + b_{z_t},
       \Sigma_{z_t}\Big)

    The first ``lags`` rows of each sequence have no predecessors: they are given (``initial``),
    have log-density 0, and say nothing about the states.

    Parameters
    ----------
    name : str
    A : tensor of shape (L, d, p)
        Coefficients, the latest lag first; p = lags x d, plus a last column b with ``intercept``.
    Sigma : tensor of shape (L, d, d)
        Noise covariances.
    z : HiddenStates variable
        Of shape (T,), which may be several sequences end to end, or (n_sequences, T).
    observed : array or pm.Data of shape (T, d) or (n_sequences, T, d), optional
        Missing values as NaN or masked. A missing y_t enters the densities of the times after it
        too, so that it cannot be summed out time by time: the states are drawn given its imputed
        value ``name_unobserved``, which PyMC samples (exact, but slower than for other
        likelihoods).
    lags : int
    intercept : bool
    initial : array of shape (n_sequences, lags, d), optional
        First rows of each sequence. Default: those of ``observed``, else 0.
    dims : tuple of str, optional

    Returns
    -------
    TensorVariable
        Its log-density has one element per time point.

    Raises
    ------
    ValueError
        Naming the argument whose shape does not fit.

    Examples
    --------
    >>> Y = np.random.default_rng(1).normal(size=(100, 2))
    >>> with pm.Model(coords={"state": range(10), "channel": ["x", "y"]}):
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), length=100)
    ...     A, Sigma = dshdp.MatrixNormalInverseWishart(
    ...         "ar", data=Y, lags=2, intercept=True, dims=("state", "channel")
    ...     )
    ...     y = dshdp.SwitchingVAR("y", A, Sigma, z, observed=Y, lags=2, intercept=True)
    """
    lags = _checked_lags(name, lags)
    A, Sigma, z = (pt.as_tensor_variable(v) for v in (A, Sigma, z))
    d = _length(name, "Sigma", Sigma)
    p = lags * d + bool(intercept)
    if A.type.ndim != 3 or A.type.shape[1:] != (d, p):
        raise ValueError(
            f"{name}: A must have shape (n_states, {d}, {p}) for lags={lags}, "
            f"intercept={bool(intercept)} and {d} channels; received {A.type.shape}"
        )
    _check_shape(name, "Sigma", Sigma, (A.type.shape[0], d, d))
    if not np.issubdtype(z.type.dtype, np.integer):
        raise TypeError(f"{name}: z must be hidden states, integers, received {z.type}")
    if observed is not None:
        _check_shape(name, "observed", observed, (*z.type.shape, d))
    observed = _masked_where_nan(observed)
    if has_op(z, HiddenPathRV):
        lengths = core(path_parameters(z).lengths, 1)
    else:
        lengths = pt.stack([z.shape[-1]])
    if initial is None:
        initial = _first_rows(name, observed, z, lengths, lags, d)
    else:
        sequences = z.type.shape[0] if z.type.ndim == 2 else lengths.type.shape[0]
        _check_shape(name, "initial", initial, (sequences, lags, d))
    initial = pt.as_tensor_variable(initial, dtype="floatX")
    if z.type.ndim == 2 and initial.type.ndim == 3:
        initial = initial[:, None]
    return SwitchingVARDist(name, A[z], Sigma[z], initial, lengths, observed=observed, dims=dims)


def _masked_where_nan(observed):
    """Mask the NaN of an array, as PyMC does those of other data; no mask if there are none."""
    if observed is None or isinstance(observed, Variable):
        return observed
    masked = np.ma.masked_invalid(np.ma.asarray(observed, dtype="float64"))
    return masked if masked.mask.any() else masked.data


def _first_rows(name, observed, z, lengths, lags, d):
    if observed is None:
        shape = (z.shape[0], 1, lags, d) if z.type.ndim == 2 else (lengths.shape[0], lags, d)
        return pt.zeros(shape)
    gaps = isinstance(observed, np.ma.MaskedArray)
    data = np.ma.filled(observed, np.nan) if gaps else observed
    if z.type.ndim == 2:
        rows = data[:, :lags]
    else:
        starts = pt.cumsum(lengths) - lengths
        # A sequence may be shorter than the lags: repeat its last row, which is never used.
        within = pt.minimum(np.arange(lags)[None, :], lengths[:, None] - 1)
        rows = pt.as_tensor_variable(data)[starts[:, None] + within]
    if gaps and np.isnan(pt.as_tensor_variable(rows).eval()).any():
        raise ValueError(
            f"{name}: observed has missing values in the first {lags} rows of a sequence, which "
            "are given; fill them in, start the sequence later, or give initial"
        )
    return rows


def _checked_lags(name, lags):
    if isinstance(lags, bool) or not isinstance(lags, (int, np.integer)) or lags < 1:
        raise ValueError(f"{name}: lags must be an integer of at least 1, received {lags!r}")
    return int(lags)


def _length(name, label, matrix):
    shape = matrix.type.shape if isinstance(matrix, Variable) else np.shape(matrix)
    if not shape or shape[-1] is None:
        raise ValueError(f"{name}: the shape of {label} must be known, received {shape}")
    return int(shape[-1])
