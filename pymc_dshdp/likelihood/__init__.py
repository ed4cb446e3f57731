"""The likelihood as a table of log-densities at each state, by families or by the graph."""
