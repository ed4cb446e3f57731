"""The log-density of a model, term by term; each graph is derived once."""

from weakref import WeakKeyDictionary

from pytensor.graph.basic import clone_get_equiv

from pymc_dshdp.graph.walks import as_tensor, without_views

__all__ = ["densities", "log_densities"]

# model: (what its log-density is made of, {variable: graph})
_derived: WeakKeyDictionary = WeakKeyDictionary()


def densities(model):
    """Random variables and potentials of a model, each once.

    After ``pm.sample_posterior_predictive``, PyMC 5.28 lists observed variables twice in
    ``model.observed_RVs``.
    """
    return list(dict.fromkeys([*model.basic_RVs, *model.potentials]))


def log_densities(model, variables):
    """Elementwise log-densities of random variables and potentials, in value variables.

    PyMC derives the terms of all variables to return those of one, which is most of the time
    that it takes to make a step. So they are kept until the model changes, and copied, as what
    PyMC compiles it may rewrite in place.

    Parameters
    ----------
    model : pymc.Model
    variables : list of random variables and potentials

    Returns
    -------
    list of TensorVariable
        Of ``pymc.dims`` too. With the log-Jacobian determinants of transforms.
    """
    terms = densities(model)
    made_of = (
        *terms,
        *(model.rvs_to_values.get(v) for v in terms),
        *(model.rvs_to_transforms.get(v) for v in terms),
    )
    known, graphs = _derived.get(model, ((), {}))
    if len(known) != len(made_of) or any(a is not b for a, b in zip(known, made_of, strict=True)):
        derived = map(as_tensor, model.logp(vars=terms, sum=False) if terms else [])
        graphs = dict(zip(terms, without_views(list(derived)), strict=True))
        _derived[model] = made_of, graphs
    asked = [graphs[v] for v in variables]
    copies = clone_get_equiv([], asked, copy_inputs=False, copy_orphans=False)
    return [copies.get(graph, graph) for graph in asked]
