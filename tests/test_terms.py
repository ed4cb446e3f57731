"""Terms of a model's log-density, which are derived once."""

import pymc as pm
from pymc.pytensorf import rewrite_pregrad
from pytensor.printing import debugprint

from pymc_dshdp.graph.terms import log_densities


def text(model, variable):
    return debugprint(log_densities(model, [variable]), file="str")


def test_terms_follow_the_model():
    """Fails if terms are kept although the model has changed since, or are rewritten in place."""
    with pm.Model() as model:
        x = pm.HalfNormal("x")
        y = pm.Normal("y", x)
    before = text(model, y)
    rewrite_pregrad(log_densities(model, [y])[0])
    assert text(model, y) == before
    with model:
        z = pm.Potential("z", 3.0 * x)
        pm.Normal("w", x)
    point = model.initial_point() | {"x_log__": 0.5, "y": 1.0}
    for variables in ([y, z], [x], [*model.free_RVs, z]):
        graphs = [*log_densities(model, variables), *model.logp(vars=variables, sum=False)]
        values = model.compile_fn(graphs, inputs=model.value_vars, on_unused_input="ignore")(point)
        assert values[: len(variables)] == values[len(variables) :]
