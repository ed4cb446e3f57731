"""Self-persistence as a logistic regression on covariates, declared and found again in a graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot

from pymc_dshdp.graph.walks import depends_on_random_variables, evaluate, has_op, role_of
from pymc_dshdp.typing import Tensor

__all__ = ["COEFFICIENTS", "LogisticPersistence", "design_and_coefficients"]

COEFFICIENTS = "kappa_coef"  # the role of their variable
INTERCEPT = (2.0, 2.0)  # mean and standard deviation: kappa from 0.1 to 0.998
SLOPE = (0.0, 1.0)


class LogisticPersistence:
    r"""Self-persistence that follows covariates, whose coefficients are drawn without NUTS.

    Given to ``DSHDP`` or ``FixedTransitions`` as ``kappa``, it declares a regression for each
    state,

    .. math:: \kappa_{tj} = \mathrm{logit}^{-1}(x_t' c_j), \qquad c_{jp} \sim N(m_{jp}, s_{jp}^2),

    with :math:`x_t` in force from t - 1 to t. ``GridRhoStep`` draws its coefficients: given z the
    :math:`w_t` are drawn (1: stay by self-persistence, 0: draw from the row); those of the times
    with :math:`z_{t-1} = j` are a logistic regression on :math:`x_t`, whose coefficients are
    proposed from a Student t about the mode, as ``ConjugateStep`` does in a likelihood; where state
    j has at most 100 such times for each coefficient, after a draw given Polya-Gamma variables
    (Polson, Scott & Windle 2013).

    Parameters
    ----------
    X : array, pm.Data or tensor of shape (T, P), or (n_sequences, T, P) for a batch
        Covariates: data, or any function of data. Row t is in force from t - 1 to t; rows at
        sequence starts are not used. Standardise them, for the default prior. To read other data,
        and for ``forecast``, hold them in ``pm.Data``, or compute them from it.
    mu, sigma : number, array or tensor, optional
        Mean m and standard deviation s of the coefficients: a number, one for each column (p,), or
        (L, p), where p = P + 1 with the intercept first. Random variables are sampled by NUTS.
        Default Normal(2, 2) for the intercept, Normal(0, 1) for the others.
    intercept : bool
        Whether a column of ones comes before those of X. Without one, kappa is 1/2 where all
        covariates are 0.
    dims : str or tuple of str, optional
        (state,) or (state, covariate) of the coefficients. The first is that of the prior; the
        second a coordinate of p labels, by default ``name_covariate``: "intercept" and the labels
        of X, where it is ``pm.Data`` that has some, or else the numbers of its columns.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.

    Notes
    -----
    The coefficients are the variable ``name_kappa_coef`` of shape (L, p); the mean of kappa over
    time is ``name_kappa_mean``. The density is that of ``kappa=pm.math.sigmoid(...)`` with the same
    coefficients, which NUTS can sample too: ``pm.sample(step=[pm.NUTS([coef])])``.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dshdp as dshdp
    >>> with pm.Model(coords={"state": range(3)}) as model:
    ...     x = pm.Data("x", np.linspace(-1.0, 1.0, 40)[:, None])
    ...     kappa = dshdp.LogisticPersistence(x, dims="state")
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state", kappa=kappa), length=40)
    >>> model["hmm_kappa_coef"].eval().shape
    (3, 2)
    """

    def __init__(
        self,
        X: ArrayLike | Tensor,
        *,
        mu: ArrayLike | Tensor | None = None,
        sigma: ArrayLike | Tensor | None = None,
        intercept: bool = True,
        dims: str | Sequence[str] | None = None,
    ) -> None:
        if not isinstance(intercept, (bool, np.bool_)):
            raise TypeError(f"intercept must be True or False, received {intercept!r}")
        self.X, self.intercept = _checked_covariates(X), bool(intercept)
        now = evaluate([self.X])[0]
        if not np.isfinite(now).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(now))[0])
            raise ValueError(f"X must be finite, received {now[at]} at position {at}")
        self._shape, self.n_coefficients = now.shape, now.shape[-1] + self.intercept
        defaults = ((INTERCEPT,) if self.intercept else ()) + (SLOPE,) * now.shape[-1]
        self.mu, self.sigma = (
            np.array(default) if given is None else self._checked_parameter(what, given)
            for what, given, default in zip(
                ("mu", "sigma"), (mu, sigma), zip(*defaults, strict=True), strict=True
            )
        )
        self.dims = (dims,) if isinstance(dims, str) else tuple(dims or ())
        if len(self.dims) > 2 or not all(isinstance(dim, str) for dim in self.dims):
            raise ValueError(f"dims must be (state,) or (state, covariate), received {dims!r}")

    def __repr__(self):
        return f"LogisticPersistence(X of shape {self._shape}, intercept={self.intercept})"

    def _checked_parameter(self, what, given):
        """Check a mean or standard deviation; shapes of tensors as far as they are known."""
        p = self.n_coefficients
        if isinstance(given, Variable):
            shape = given.type.shape
        else:
            given = np.asarray(given, dtype="float64")
            shape = given.shape
            if not np.isfinite(given).all() or (what == "sigma" and np.any(given <= 0.0)):
                wanted = "positive and finite" if what == "sigma" else "finite"
                raise ValueError(f"{what} must be {wanted}, received {given}")
        if len(shape) > 2 or (shape and shape[-1] not in (None, p)):
            columns = f"{p} columns, the intercept and X's {p - 1}" if self.intercept else f"{p}"
            raise ValueError(
                f"{what} must be a number, or have shape ({p},) or (n_states, {p}) for {columns}; "
                f"received shape {shape}"
            )
        return given

    def checked_for(self, prior) -> "LogisticPersistence":
        """Raise if the coefficients cannot be those of a prior, or else return this."""
        where, p = f"{prior.name}: kappa=LogisticPersistence", self.n_coefficients
        if prior.groups is not None:
            raise ValueError(
                f"{where} is for a prior without groups, whose kappa may vary with time; leave "
                f"groups={prior.groups!r} out, or give the groups a column of X each"
            )
        if self.dims and self.dims[0] != prior.dims[0]:
            raise ValueError(
                f"{where} has dims={self.dims!r}, but the states of the prior have the dimension "
                f"{prior.dims[0]!r}; leave dims out, or begin them with it"
            )
        if len(self.dims) == 2:
            labels = prior.model.coords.get(self.dims[1])
            if labels is None or len(labels) != p:
                found = "none of the model" if labels is None else f"one of {len(labels)} labels"
                raise ValueError(
                    f"{where} needs for dims[1]={self.dims[1]!r} a coordinate of {p} labels, "
                    f"{'the intercept first, ' if self.intercept else ''}and it is {found}"
                )
        for what, given in (("mu", self.mu), ("sigma", self.sigma)):
            shape = given.type.shape if isinstance(given, Variable) else given.shape
            if len(shape) == 2 and shape[0] not in (None, 1, prior.n_states):
                raise ValueError(
                    f"{where} has {what} of shape {shape} for {prior.n_states} states; give it the "
                    f"shape {(prior.n_states, p)}"
                )
        return self

    def declared_in(self, prior) -> tuple[Any, Any]:
        """Declare the coefficients as part of a prior: (kappa, coefficients)."""
        dim = self.dims[1] if len(self.dims) == 2 else prior.prefixed("covariate")
        if dim not in prior.model.coords:
            prior.model.add_coord(dim, self._labels(prior.model))
        coefficients = pm.Normal(
            prior.prefixed(COEFFICIENTS), self.mu, self.sigma, dims=(prior.dims[0], dim)
        )
        design = pt.as_tensor(self.X).astype("floatX")
        if self.intercept:
            design = pt.concatenate([pt.ones_like(design[..., :1]), design], axis=-1)
        return pt.sigmoid(pt.matmul(design, coefficients.T)), coefficients

    def _labels(self, model):
        labels = [str(i) for i in range(self._shape[-1])]
        named = model.named_vars.get(getattr(self.X, "name", None)) is self.X
        dim = (model.named_vars_to_dims.get(self.X.name) or (None,))[-1] if named else None
        if model.coords.get(dim) is not None:
            labels = [str(label) for label in model.coords[dim]]
        return ["intercept", *labels] if self.intercept else labels


def _checked_covariates(X):
    """Covariates as they are kept: an array of floats, or a tensor of data alone."""
    if not isinstance(X, Variable):
        X = np.asarray(X, dtype="float64")
    elif depends_on_random_variables([X]):
        raise ValueError(
            f"X must be data, or a function of data, received {X}, which depends on random "
            "variables; write kappa=pm.math.sigmoid(...) yourself, which NUTS samples"
        )
    shape = X.type.shape if isinstance(X, Variable) else X.shape
    if len(shape) not in (2, 3):
        raise ValueError(
            "X must have shape (T, P), or (n_sequences, T, P) for a batch, received "
            f"{len(shape)} dimensions; a single covariate is x[:, None]"
        )
    return X if isinstance(X, Variable) else pt.constant(X, dtype="floatX")


def design_and_coefficients(model, kappa):
    """Find the covariates and free coefficients of a kappa that ``LogisticPersistence`` declared.

    Returns
    -------
    (design, coefficients) or None
        Graph of x of shape (T, p) or (N, T, p), and the random variable of shape (L, p).
    """
    if not (has_op(kappa, Elemwise) and isinstance(kappa.owner.op.scalar_op, Sigmoid)):
        return None
    logit = kappa.owner.inputs[0]
    if not (has_op(logit, Blockwise) and isinstance(logit.owner.op.core_op, Dot)):
        return None
    design, transposed = logit.owner.inputs
    found = [
        v
        for v in ancestors([transposed], blockers=model.basic_RVs)
        if role_of(v) == COEFFICIENTS and v in model.free_RVs
    ]
    if len(found) != 1 or depends_on_random_variables([design]):
        return None
    return design, found[0]
