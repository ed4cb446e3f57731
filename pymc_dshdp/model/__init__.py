"""What a user declares in a ``pm.Model``: priors on transitions, hidden states, matrix priors."""
