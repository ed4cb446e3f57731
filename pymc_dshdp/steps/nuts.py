"""NUTS on the full conditional of its variables: no gradient of terms that do not move."""

import numpy as np
from pymc.model import modelcontext
from pymc.model.core import ValueGradFunction
from pymc.step_methods import NUTS
from pymc.step_methods.compound import Competence
from pymc.util import get_value_vars_from_user_vars
from pymc.vartypes import continuous_types
from pytensor.graph.traversal import ancestors

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.walks import densities, has_op
from pymc_dshdp.steps._common import model_of

__all__ = ["ConditionalNUTS"]


class ConditionalNUTS(NUTS):
    r"""PyMC's NUTS, evaluating only the terms of the log joint that involve its variables.

    With :math:`x` its variables and :math:`r` the rest, NUTS leaves :math:`p(x \mid r)` invariant,
    and :math:`\log p(x \mid r) = \sum_{i:\, x \in i} \log p_i(x, r) + const`: a term without x,
    such as the path given the transition rows, adds a constant to the energy and nothing to its
    gradient. The draws are those of ``pm.NUTS``; a gradient costs less the more of the model
    belongs to other steps.

    ``pm.sample()`` uses it in place of ``pm.NUTS`` in models that have ``HiddenStates``, with the
    same keyword, ``nuts={"target_accept": 0.9}``. Its function is compiled with PyTensor's numba
    backend unless ``compile_kwargs`` names another mode.

    Parameters
    ----------
    vars : list
        Continuous variables.
    model : pymc.Model, optional
    initial_point : dict, optional
    compile_kwargs : dict, optional
    **kwargs
        As for ``pm.NUTS``.

    Raises
    ------
    ValueError
        If a variable is discrete.

    Notes
    -----
    The statistics ``lp`` and ``energy`` contain these terms only.
    """

    def __init__(
        self, vars, *, model=None, initial_point=None, compile_kwargs=None, dtype=None, **kwargs
    ):
        model = modelcontext(model)
        values = get_value_vars_from_user_vars(vars, model)
        discrete = [v.name for v in values if v.dtype not in continuous_types]
        if discrete:
            raise ValueError(
                f"ConditionalNUTS: {discrete} are discrete and have no gradient; leave them to "
                "other steps"
            )
        start = model.initial_point() if initial_point is None else initial_point
        function = ValueGradFunction(
            [model.logp(vars=_terms_with(model, values))],
            values,
            {v: np.asarray(start[v.name]) for v in model.value_vars if v not in values},
            dtype=dtype,
            model=model,
            initial_point=start,
            ravel_inputs=True,
            on_unused_input="ignore",
            **{"mode": "NUMBA", **(compile_kwargs or {})},
        )
        function.set_extra_values(start)
        function.trust_input = True
        super().__init__(
            values, model=model, initial_point=start, logp_dlogp_func=function, **kwargs
        )

    @staticmethod
    def competence(var, has_grad):
        """Claims what ``pm.NUTS`` would, in models with hidden states."""
        competence = NUTS.competence(var, has_grad)
        if competence == Competence.INCOMPATIBLE:
            return competence
        model = model_of(var)
        if model is None or not any(has_op(rv, HiddenPathRV) for rv in model.free_RVs):
            return Competence.INCOMPATIBLE
        return competence


def _terms_with(model, values):
    """Random variables and potentials whose log-density contains one of the value variables."""
    terms = densities(model)
    graphs = model.logp(vars=terms, sum=False)
    moving = set(values)
    return [
        term for term, graph in zip(terms, graphs, strict=True) if moving & set(ancestors([graph]))
    ]
