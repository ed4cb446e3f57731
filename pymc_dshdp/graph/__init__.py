"""Reading a ``pm.Model``: walks through its graph, the variables of priors, compiled readers."""
