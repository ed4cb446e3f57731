"""Planted defects, and the test that catches each.

``python tests/statistical/mutations.py NAME`` plants one and runs what should catch it until
it is caught, and prints after how many draws that was. A defect is an edit of the
source of one module, made while Python imports it, so that every function that calls the edited
one, compiled or not, sees it. What depends on the module is compiled without numba's cache.
"""

import importlib.abc
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pymc_dshdp"
ENUMERATION = "tests/kernels/test_direct_assignment.py::test_every_conditional_equals_enumeration"
PATHS = "tests/kernels/test_split_merge.py::test_labelled_paths_have_their_probabilities"
ACTIVE = "tests/statistical/test_finite_mixture_stationary.py::" + (
    "test_partitions_and_numbers_have_their_probabilities[ffbs-dynamic-6000]"
)
EXPLICIT = (
    "tests/kernels/test_explicit_split_merge.py::test_labelled_paths_have_their_probabilities"
)
RATIO = "tests/kernels/test_split_merge.py::test_a_state_that_becomes_active_has_its_ratio"
PERSISTENCE = (
    "tests/test_logistic_persistence.py::test_draws_follow_the_enumerated_law[polya-gamma]"
)
KERNELS = "test_geweke_kernels.py"
STEPS = "test_geweke.py"


class Mutation(NamedTuple):
    """A planted defect.

    Attributes
    ----------
    what : str
        In the words of the model.
    module : str
        File within the package.
    edits : tuple of (old, new)
        Each ``old`` occurs once in it.
    test : str
        A test of pytest that must fail, or ``KERNELS`` or ``STEPS`` with a case of it.
    draws : int
        That a test of pytest makes; 0 for enumeration.
    """

    what: str
    module: str
    edits: tuple
    test: str
    draws: int = 0


MUTATIONS = {
    "metric-looks-at-theta": Mutation(
        "the metric of NUTS a function of the parameters that it moves",
        "steps/nuts.py",
        (
            (
                "        self.potential.at(of_blocks, active)\n",
                "        looked = np.exp(-2.0 * point[self.vars[0].name])\n"
                "        of_blocks = [s * looked for s in of_blocks]\n"
                "        self.potential.at(of_blocks, active)\n",
            ),
        ),
        "tests/test_state_metric.py::test_draws_follow_the_exact_posterior",
        4_000,
    ),
    "empty-states-stay": Mutation(
        "parameters of empty states kept, not drawn from their prior",
        "steps/nuts.py",
        (("return self._vacant.draw(point, self.rng), stats", "return point, stats"),),
        "tests/test_state_metric.py::test_draws_follow_the_exact_posterior",
        4_000,
    ),
    "empty-states-before": Mutation(
        "parameters of empty states drawn given the hyperparameter before its move",
        "steps/nuts.py",
        (
            (
                "point, stats = self._trajectory(point, ",
                "point, stats = self._trajectory(self._vacant.draw(point, self.rng), ",
            ),
            ("return self._vacant.draw(point, self.rng), stats", "return point, stats"),
        ),
        "tests/test_state_metric.py::test_draws_follow_the_exact_posterior",
        4_000,
    ),
    "hyperparameters-without-prior": Mutation(
        "hyperparameters moved by the priors of the states' parameters alone",
        "steps/hyperparameters.py",
        (("if nodes & set(found)", "if nodes & set(found) and value not in found"),),
        "tests/test_hyperparameters.py::test_law_given_the_states",
        6000,
    ),
    "scarce-at-once": Mutation(
        "numbers of states of few times sliced each given the others as they were",
        "steps/scarce.py",
        (
            (
                "    for i, scale in SCANS",
                "    first, new = x.copy(), x.copy()\n    for i, scale in SCANS",
            ),
            (
                "        x[i] = slice_sample(",
                "        x[:] = first\n        new[i] = slice_sample(",
            ),
            ("RaveledVars(x, info)", "RaveledVars(new, info)"),
        ),
        "tests/test_state_metric.py::test_states_of_few_times_are_sliced_exactly",
        3_000,
    ),
    "inferred-by-probing": Mutation(
        "who reads a parameter inferred from gradients at some points",
        "steps/vacant.py",
        (
            (
                "uses = _proven_uses(membership, terms, value, start)",
                "uses = membership.uses[value]",
            ),
        ),
        "tests/test_state_metric.py::test_what_no_probe_shows_is_not_summed_out",
    ),
    "number-of-sets": Mutation(
        "the number of active states without K! / (K - K+)!",
        "kernels/finite_mixture.py",
        (
            (
                "        out[number - 1] += math.lgamma(number + 1.0) - "
                "math.lgamma(number - occupied + 1.0)\n",
                "",
            ),
        ),
        ACTIVE,
        6_000,
    ),
    "activation-without-jacobian": Mutation(
        "a split that activates a state without the Jacobian of its share",
        "kernels/pair_density.py",
        (("out += (2.0 * d - c) * log_sum", "out += (2.0 * d - c - 1.0) * log_sum"),),
        RATIO,
    ),
    "activation-without-sets": Mutation(
        "a split that activates a state without the number of active sets",
        "kernels/pair_density.py",
        ((" + math.log((number + 1.0) / (L - number))", ""),),
        RATIO,
    ),
    "emptied-stays-active": Mutation(
        "a merge that leaves the emptied state active, with weight 0",
        "kernels/split_merge.py",
        (("log_beta, split or not is_mixture(prior))", "log_beta, True)"),),
        RATIO,
    ),
    "inactive-weights": Mutation(
        "weights for all states, active or not",
        "kernels/finite_mixture.py",
        (("dirichlet_draw(rng, active * (c + tables), beta)",
          "dirichlet_draw(rng, c + tables, beta)"),),
        ACTIVE,
        6_000,
    ),
    "weights-of-the-number-before": Mutation(
        "the number of active states drawn after the weights, which are kept",
        "transitions/finite_mixture.py",
        (("        return gamma, *kernels.draw_active_weights(rng, tables, gamma, number, static)",
          "        before = np.count_nonzero(self.active(point))\n"
          "        _, beta = kernels.draw_active_weights(rng, tables, gamma, before, static)\n"
          "        return gamma, kernels.draw_active(rng, number, beta > 0.0), beta"),),
        ACTIVE,
        6_000,
    ),
    "static-gamma": Mutation(
        "gamma of a dynamic mixture drawn as if it were static",
        "kernels/finite_mixture.py",
        (("power = number if static else 1.0", "power = float(number)"),),
        f"{STEPS} ds/finite-mixture/ffbs/poisson/ragged",
    ),
    "polya-gamma-shape": Mutation(
        "Polya-Gamma variables of one trial more than there are",
        "likelihood/coefficients.py",
        (("polya_gamma_draws(rng, trials, logit)", "polya_gamma_draws(rng, trials + 1.0, logit)"),),
        f"{STEPS} fixed/given/ffbs/logistic/one",
    ),
    "polya-gamma-half": Mutation(
        "the half of the trials left out of the response of Polya-Gamma variables",
        "likelihood/coefficients.py",
        (("successes - 0.5 * trials", "successes"),),
        PERSISTENCE,
        4_000,
    ),
    "persistence-of-the-state-after": Mutation(
        "self-persistence learnt by the state that a transition leads to",
        "steps/logistic_update.py",
        (("before = np.concatenate([z[t - 1] for", "before = np.concatenate([z[t] for"),),
        PERSISTENCE,
        4_000,
    ),
    "covariate-late": Mutation(
        "self-persistence learnt from the covariate of the time before",
        "steps/logistic_update.py",
        (("x = np.concatenate([x[t] for", "x = np.concatenate([x[t - 1] for"),),
        PERSISTENCE,
        4_000,
    ),
    "stays-are-persistences": Mutation(
        "every stay taken for a self-persistence, none for a draw from the row",
        "kernels/transitions.py",
        (("if states[i] == j and rng.random() < copy_probability(kappa_logit[i, j], pi_bar[j, j]):",
          "if states[i] == j:"),),
        PERSISTENCE,
        4_000,
    ),
    "curve-without-jacobian": Mutation(
        "kappa and the row's own entry along their curve without the Jacobian",
        "kernels/diagonals.py",
        (("total, rho1 - 1.0, rho2, a, b", "total, rho1, rho2, a, b"),),
        "tests/kernels/test_diagonals.py::test_pairs_follow_the_law_along_their_curve",
        20_000,
    ),
    "slopes-without-jacobian": Mutation(
        "slopes that go along the curve of the intercept without their Jacobian",
        "kernels/diagonals.py",
        (("total, -float(P), 0.0", "total, -1.0, 0.0"),),
        "tests/kernels/test_diagonals.py::test_density_along_a_logistic_curve",
    ),
    "feedback-left-out": Mutation(
        "a forecast whose transitions see zeros in the place of what it drew",
        "analysis/times_ahead.py",
        (("held[container].set_value(values.astype(held[container].dtype))", "pass"),),
        "tests/test_recurrence.py::test_forecasts_feed_back_what_they_draw[False]",
        4_000,
    ),
    "feedback-late": Mutation(
        "a forecast whose transitions see the observation of two times before",
        "analysis/times_ahead.py",
        (("            short = max(0,",
          "            self._late, past = past, getattr(self, '_late', past)\n"
          "            short = max(0,"),),
        "tests/test_recurrence.py::test_forecasts_feed_back_what_they_draw[False]",
        4_000,
    ),
    "proposal-density": Mutation(
        "proposals of logistic coefficients accepted by the target alone",
        "likelihood/coefficients.py",
        (("return target + back", "return target"),),
        "tests/emissions/test_regression.py::test_logistic_draws_follow_the_posterior[proposed]",
        1_500,
    ),
    "polya-gamma-tilt": Mutation(
        "Polya-Gamma variables drawn as if all logits were 0",
        "likelihood/coefficients.py",
        (("polya_gamma_draws(rng, trials, logit)", "polya_gamma_draws(rng, trials, 0.0 * logit)"),),
        f"{STEPS} fixed/given/ffbs/logistic/one",
    ),
    "stale-kappa": Mutation(
        "kappa drawn before (phi, eta) and kept",
        "kernels/persistence.py",
        (
            (
                "    accepted = math.log(rng.random()) < proposal",
                "    old_phi, old_concentration = phi, eta**-3.0\n"
                "    accepted = math.log(rng.random()) < proposal",
            ),
            (
                "        proposal.departures,\n        phi * concentration,\n"
                "        (1.0 - phi) * concentration,",
                "        proposal.departures,\n        old_phi * old_concentration,\n"
                "        (1.0 - old_phi) * old_concentration,",
            ),
        ),
        f"{KERNELS} weak-limit midpoints",
    ),
    "no-metropolis": Mutation(
        "the grid's proposal always accepted under refine",
        "kernels/persistence.py",
        (("accepted = math.log(rng.random()) < proposal.log_ratio + log_prior_ratio",
          "accepted = math.log(rng.random()) < 1.0"),),
        "tests/kernels/test_persistence.py::test_refined_draws_follow_the_continuous_density",
        60_000,
    ),
    "rows-before-alpha": Mutation(
        "pi_bar drawn with the old alpha",
        "kernels/transitions.py",
        (
            (
                "    alpha, tables = alpha_and_tables(rng, switches, alpha, beta, prior)\n    if",
                "    new_alpha, tables = alpha_and_tables(rng, switches, alpha, beta, prior)\n"
                "    if",
            ),
            (
                "prior.gamma_shape, prior.gamma_rate)\n    return weights_and_rows("
                "rng, switches, tables, gamma, alpha, sticks_logit)",
                "prior.gamma_shape, prior.gamma_rate)\n    draw = weights_and_rows("
                "rng, switches, tables, gamma, alpha, sticks_logit)\n    return TransitionDraw("
                "draw.gamma, new_alpha, draw.sticks_logit, draw.beta, draw.rows)",
            ),
        ),
        f"{KERNELS} weak-limit refined",
    ),
    "infinite-gamma": Mutation(
        "gamma by the formula of the infinite model in the finite one",
        "kernels/transitions.py",
        (("crt_draw(rng, tables[k], gamma / L)", "min(1, tables[k])"),),
        f"{KERNELS} weak-limit refined",
    ),
    "clipped-dirichlet": Mutation(
        "Dirichlet parameters clipped at 0.01",
        "kernels/random.py",
        (("log_gamma_draw(rng, concentration[k])",
          "log_gamma_draw(rng, max(0.01, concentration[k]))"),),
        "tests/kernels/test_random.py::test_dirichlet_of_tiny_concentrations_is_one_hot",
        40_000,
    ),
    "W-without-kappa": Mutation(
        "W drawn from pi_bar_jj without its factor 1 - kappa_j",
        "kernels/random.py",
        (("sigmoid(-kappa_logit) * own)", "own)"),),
        f"{KERNELS} weak-limit refined",
    ),
    "no-first-time": Mutation(
        "the first time point of each sequence left out of the counts",
        "kernels/counts.py",
        (("counts[0, previous] += 1", "counts[0, previous] += 0"),),
        f"{KERNELS} weak-limit refined",
    ),
    "across-sequences": Mutation(
        "a transition counted across a sequence boundary",
        "kernels/counts.py",
        (("        t += length\n",
          "        t += length\n        if t < states.shape[0]:\n"
          "            counts[previous + 1, states[t]] += 1\n"),),
        f"{KERNELS} weak-limit refined",
    ),
    "crt-off-by-one": Mutation(
        "the i-th customer seated as if there were one more",
        "kernels/tables.py",
        (("if rng.random() * (concentration + i) < concentration:",
          "if rng.random() * (concentration + i + 1) < concentration:"),),
        f"{KERNELS} weak-limit refined",
    ),
    "alpha-without-jacobian": Mutation(
        "the slice on log alpha without its Jacobian",
        "kernels/transitions.py",
        (("return shape * x - rate * alpha", "return (shape - 1.0) * x - rate * alpha"),),
        f"{KERNELS} weak-limit refined",
    ),
    "transposed-P": Mutation(
        "backward samples with P for its transpose",
        "kernels/messages.py",
        (("(row, pi_bar[g]).T", "(row, pi_bar[g])"),),
        f"{KERNELS} weak-limit refined",
    ),
    "index-late": Mutation(
        "the matrix of the time before",
        "kernels/filtering.py",
        (("loaded = index[t]", "loaded = index[t - 1]"),),
        "tests/kernels/test_indexed.py::test_draws_follow_the_enumerated_posterior",
        4000,
    ),
    "antecedents-late": Mutation(
        "the states before each state drawn with the matrix of another time",
        "kernels/antecedents.py",
        (("matrices[g] if g >= 0", "matrices[max(g - 1, 0)] if g >= 0"),),
        "tests/kernels/test_indexed.py::test_states_drawn_ahead_are_those_drawn_after",
        4000,
    ),
    "zero-leaks": Mutation(
        "a little mass on transitions that are impossible",
        "transitions/fixed.py",
        (("self._base + switches", "np.maximum(self._base, 1e-3) + switches"),),
        "tests/test_transitions.py::test_zeros_of_fixed_rows_follow_the_enumerated_law[filter]",
        4000,
    ),
    "stick-beyond": Mutation(
        "a stick drawn with its own tables among those beyond it",
        "kernels/transitions.py",
        (("log_gamma_draw(rng, gamma + beyond)",
          "log_gamma_draw(rng, gamma + beyond + tables[k])"),),
        f"{KERNELS} stick-breaking refined",
    ),
    "group-tables-left-out": Mutation(
        "the weights given the tables of the first group alone",
        "kernels/tables.py",
        (("    for j in range(R):", "    for j in range(min(R, L + 1)):"),),
        "tests/test_groups.py::test_weights_and_rows_learn_from_all_groups",
        6000,
    ),
    "group-counts-exchanged": Mutation(
        "the transitions of a group counted for another",
        "kernels/counts.py",
        (("1 + L * index[i]", "1 + L * (1 - index[i])"),),
        "tests/test_groups.py::test_weights_and_rows_learn_from_all_groups",
        6000,
    ),
    "group-kappa-of-the-first": Mutation(
        "the filter with the self-persistence of the first group for all",
        "kernels/filtering.py",
        (("row = kappa_logit[loaded]", "row = kappa_logit[0]"),),
        "tests/kernels/test_indexed.py::test_draws_follow_the_enumerated_posterior",
        4000,
    ),
    "group-factor-of-another-row": Mutation(
        "the factor of the switches of a row without how many leave it",
        "kernels/alike_rows.py",
        (("leaving[leaves : leaves + stays + 1]", "leaving[: stays + 1]"),),
        "tests/kernels/test_alike_rows.py::test_factors_are_those_of_each_row",
    ),
    "group-split-counts": Mutation(
        "a split whose transitions are all counted for the first group",
        "kernels/pair_density.py",
        (("own = 1 + L * index[t + 1] if grouped else 1", "own = 1"),),
        PATHS,
        25_600,
    ),
    "persistences-as-draws": Mutation(
        "self-persistences counted as draws from the rows",
        "kernels/transitions.py",
        (("] -= persistences[r]", "] -= 0"),),
        f"{KERNELS} weak-limit refined",
    ),
    "sticky-without-kappa": Mutation(
        "(phi, s) of the sticky prior without the factor of the self-persistences",
        "kernels/persistence.py",
        (("out += log_rising(phi * s, persistences[j])", "out += 0.0"),),
        f"{STEPS} sticky/weak-limit/ffbs/mvnormal/one",
    ),
    "forgotten-w": Mutation(
        "one w forgotten when a time point is taken out of the counts",
        "kernels/urns.py",
        (("if neighbours[t] & HAS_NEXT and not persists[t + 1]:",
          "if neighbours[t] & HAS_NEXT and not persists[t + 1] and change > 0.0:"),),
        ENUMERATION,
    ),
    "no-delta": Mutation(
        "delta(j, l) dropped from the case table",
        "kernels/case_table.py",
        (("(masses[row, after] + same))", "masses[row, after])"),),
        ENUMERATION,
    ),
    "plus-one": Mutation(
        "one added to n_jl where w_t = 1 and w_{t+1} = 0, as in the authors' scripts",
        "kernels/case_table.py",
        (("weights[COPY_DRAW] = rows[KAPPA, row] * leave * likelihood",
          "weights[COPY_DRAW] = rows[KAPPA, row] * (leave + rows[OUTFLOW, out]) * likelihood"),),
        ENUMERATION,
    ),
    "group-of-the-time-before": Mutation(
        "the draw of the next state from the row of the group that leads to this one",
        "kernels/case_table.py",
        (("leave = rows[OUTFLOW, out] * masses[out, after]", "leave = enter"),),
        ENUMERATION,
    ),
    "group-keeps-numbers": Mutation(
        "rows of the groups left as they are where states take new numbers along the sticks",
        "steps/direct_assignment.py",
        (("np.append(0, 1 + rows)", "np.arange(1 + len(rows))"),),
        "tests/test_groups.py::test_all_that_is_a_states_own_takes_its_new_number",
    ),
    "last-has-successor": Mutation(
        "the last time point of a sequence weighed as if it had a successor",
        "kernels/urns.py",
        (("if i < t + length - 1:", "if i < T - 1:"),),
        ENUMERATION,
    ),
    "last-pays-successor": Mutation(
        "the last time point's draw with the factor 1 - kappa_k of a missing successor",
        "kernels/case_table.py",
        (("into * masses[row, k] * likelihoods[i]",
          "into * masses[row, k] * likelihoods[i] * rows[SWITCH, k + 1]"),),
        ENUMERATION,
    ),
    "degrees-of-freedom": Mutation(
        "the collapsed exponential's Lomax predictive with a power one too small",
        "kernels/predictive_continuous.py",
        (("log_density -= (a + 1.0) * math.log", "log_density -= a * math.log"),),
        "tests/kernels/test_predictive.py",
    ),
    "wishart-degrees": Mutation(
        "the inverse-Wishart posterior with a degree of freedom too many",
        "emissions/_gaussian.py",
        (("rng.chisquare(degrees[:, None] - (d - 1 - i))",
          "rng.chisquare(degrees[:, None] + 1.0 - (d - 1 - i))"),),
        f"{STEPS} ds/weak-limit/direct-kept/normal-wishart/one",
    ),
    "stale-table": Mutation(
        "the table of log-likelihoods at the parameters of the call before",
        "likelihood/families.py",
        (("for x in self._parameters(point)]\n        data",
          "for x in self._parameters(point)]\n"
          "        self._stale, parameters = parameters, getattr(self, '_stale', parameters)\n"
          "        data"),),
        f"{STEPS} ds/stick-breaking/ffbs/normal-mean/ragged",
    ),
    "seed-reuse": Mutation(
        "theta redrawn with the random numbers that drew z",
        "steps/direct_assignment.py",
        (
            ("        self.paths.check(point)\n        logit",
             "        import copy\n\n        again = copy.deepcopy(rng)\n"
             "        self.paths.check(point)\n        logit"),
            ("return self.redraw({**point, **new}, rng),",
             "return self.redraw({**point, **new}, again),"),
        ),
        "tests/test_direct_assignment_step.py::test_theta_has_random_numbers_of_its_own",
        1,
    ),
    "no-redraw": Mutation(
        "collapsed parameters not redrawn after the sweep",
        "steps/direct_assignment.py",
        (("            point = {**point, **emission.draw(point, rng)}\n", "            pass\n"),),
        f"{STEPS} sticky/weak-limit/direct-collapsed/poisson/one",
    ),
    "visit-too-many": Mutation(
        "a visit too many added to the Gamma rate of a Poisson rate",
        "emissions/poisson.py",
        (("+ total) - np.log(rate + exposure)", "+ total) - np.log(rate + exposure + 1.0)"),),
        f"{STEPS} sticky/weak-limit/direct-collapsed/poisson/one",
    ),
    "exposure-out-of-the-table": Mutation(
        "the states of counts drawn as if all had been watched as long",
        "emissions/poisson.py",
        (("rate.sum(axis=1) if exposures is None else exposures @ rate.T", "rate.sum(axis=1)"),),
        f"{STEPS} fixed/given/ffbs/exposure/ragged",
    ),
    "one-likelihood-of-two": Mutation(
        "the evidence of the first of two likelihoods alone",
        "likelihood/several.py",
        (("return sum(part.evidence(own, slots) for part, own in self._each(moments))",
          "return next(part.evidence(own, slots) for part, own in self._each(moments))"),),
        "tests/test_several_evidence.py::test_evidence_is_the_product",
        1,
    ),
    "weight-of-one-scale": Mutation(
        "the weight of a draw of several scales is that of the first",
        "likelihood/regression_marginals.py",
        (("return drawn, log_weights.sum(axis=1)", "return drawn, log_weights[:, 0]"),),
        "tests/test_several_evidence.py::test_what_is_kept_is_of_its_likelihood",
        1,
    ),
    "scales-of-other-columns": Mutation(
        "scales of columns with the priors of the states' own order",
        "likelihood/regression_marginals.py",
        (("u = u.reshape(-1, len(self._around), u.shape[1]).swapaxes(1, 2)\n"
          "        return self._log_prior(u).swapaxes(1, 2)",
          "u = u.reshape(-1, len(self._around), u.shape[1])[:, ::-1].swapaxes(1, 2)\n"
          "        return self._log_prior(u).swapaxes(1, 2)[:, ::-1]"),),
        "tests/test_regression_evidence.py::test_columns_with_a_scale_each",
        1,
    ),
    "split-forgets-empties": Mutation(
        "a split without the number of empty states among which it chose",
        "steps/configuration.py",
        ((" + np.log(empty.size)", ""),),
        PATHS,
        25_600,
    ),
    "merge-forgets-anchor": Mutation(
        "a merge without the number of times among which it chose",
        "steps/divisions.py",
        (("        return split - log_anchor_probability(times[sides == 1], i, j)",
          "        return split"),),
        PATHS,
        25_600,
    ),
    "division-wrong-way": Mutation(
        "the probability of a division multiplied instead of divided by",
        "steps/configuration.py",
        (("partner.log_probability + np.log(n_empty) - log_q",
          "partner.log_probability + np.log(n_empty) + log_q"),),
        PATHS,
        25_600,
    ),
    "merge-forgets-weights": Mutation(
        "a merge without the weights of the scales that are kept",
        "steps/configuration.py",
        (("        log_ratio += self._log_weights(slots).sum() - log_weights.sum()\n", ""),),
        "tests/kernels/test_scale_integral.py::test_weights_are_in_every_ratio",
    ),
    "launch-sees-division": Mutation(
        "the launch looks at the division that there is",
        "steps/divisions.py",
        (("        return divide(launch, GIVEN, launch.gain, sides) +",
          "        launch.gain[:] += 3.0 * sides\n"
          "        return divide(launch, GIVEN, launch.gain, sides) +"),),
        PATHS,
        25_600,
    ),
    "prior-division-sees-weights": Mutation(
        "a division by the prior that looks at the present weight of a, not of a and b",
        "kernels/prior_division.py",
        (("    base = max(base, LEAST)",
          "    base = max(alpha * math.exp(path.log_beta[slots[0]]), LEAST)"),),
        PATHS,
        25_600,
    ),
    "prior-division-not-normalised": Mutation(
        "the probability of a division by the prior without its normaliser",
        "kernels/prior_division.py",
        (("            log_q += math.log((two if sides[x] == 1 else one) / (one + two))",
          "            log_q += math.log(two if sides[x] == 1 else one)"),),
        PATHS,
        25_600,
    ),
    "parameters-without-prior": Mutation(
        "a split without the prior of the parameters that it proposes",
        "steps/explicit_split_merge.py",
        (("        log_ratio += gain + log_prior - near", "        log_ratio += gain - near"),),
        EXPLICIT,
        64_000,
    ),
    "parameters-stay-when-empty": Mutation(
        "a merge that leaves the parameters of the state that it empties",
        "steps/explicit_split_merge.py",
        (("        self.theta[slots[1]] = drawn\n", ""),),
        EXPLICIT.replace(
            "labelled_paths_have_their_probabilities", "parameters_of_empty_states_have_their_prior"
        ),
    ),
    "missing-of-the-states-before": Mutation(
        "missing observations that stay where a move has changed their states and parameters",
        "steps/states.py",
        (("                point = self._missing.draw(point, self.rng)\n",
          "                pass\n"),),
        "tests/test_state_parameters.py::test_missing_observations_follow_their_states",
    ),
    "proposal-looks-at-itself": Mutation(
        "parameters proposed about those that a merge has, and a split has not",
        "steps/explicit_split_merge.py",
        (("        near = self._near(a, times, sides)\n        log_prior = ",
          "        near = self._near(slots[1], times, sides)\n        log_prior = "),),
        EXPLICIT,
        64_000,
    ),
    "partner-without-probability": Mutation(
        "a split without the probability of the partner by which a merge comes back",
        "steps/explicit_split_merge.py",
        (("        log_ratio = weighing.log_ratio + log_s + np",
          "        log_ratio = weighing.log_ratio + np"),),
        EXPLICIT,
        64_000,
    ),
    "resplit-forgets-way-back": Mutation(
        "a resplit without the probability of the division that there was",
        "steps/divisions.py",
        (("        log_q -= divide(launch, GIVEN, launch.gain, before)\n", ""),),
        PATHS,
        25_600,
    ),
    "resplit-forgets-share": Mutation(
        "a resplit without the density of the share that there was",
        "kernels/split_merge.py",
        (("log_ratio -= log_weight_ratio(path.log_beta, tables_a, tables_b, a, b, g, prior)",
          "log_ratio -= 0.0"),),
        "tests/kernels/test_split_merge.py::test_another_division_has_its_ratio",
    ),
    "share-without-density": Mutation(
        "the share of the weights without the normaliser of its density",
        "kernels/pair_density.py",
        (("    out = log_beta_function(g + tables_a, g + tables_b)", "    out = 0.0"),),
        PATHS,
        25_600,
    ),
    "share-without-jacobian": Mutation(
        "the share of the weights as if its density were that of its logarithm",
        "kernels/pair_density.py",
        (("out -= tables_b * (log_beta[b]", "out -= (tables_b + 1.0) * (log_beta[b]"),),
        PATHS,
        25_600,
    ),
    "w-in-one-way": Mutation(
        "the sum over the w without the number of ways to choose them",
        "kernels/collapsed_transitions.py",
        (("return W * (own + n) * leave / ((n + 1.0) * ", "return (own + n) * leave / ("),),
        "tests/kernels/test_collapsed_transitions.py",
    ),
    "scale-without-jacobian": Mutation(
        "the slice of a scale on its logarithm without the Jacobian",
        "likelihood/conditional.py",
        (("[prior] = log_densities(model, [match.variable])",
          "[prior] = model.logp(vars=[match.variable], jacobian=False, sum=False)"),),
        "tests/emissions/test_conditionals.py::test_density_of_each_element_is_the_models",
    ),
    "residuals-of-another-state": Mutation(
        "the squared residuals of a scale added up by the state after",
        "emissions/normal.py",
        (("state_sums(z, (data - mean) ** 2.0, n_states)",
          "state_sums((z + 1) % n_states, (data - mean) ** 2.0, n_states)"),),
        "tests/emissions/test_conditionals.py::test_density_of_each_element_is_the_models",
    ),
    "imputed-kept": Mutation(
        "missing values kept instead of redrawn given the states",
        "steps/weak_limit.py",
        (("        point = self._missing.draw(point, self.rng)\n", ""),),
        f"{STEPS} ds/weak-limit/ffbs/poisson/missing",
    ),
}  # fmt: skip


def mutated_source(mutation):
    """Source of the module with its edits; ``AssertionError`` where one has lost its place."""
    source = (PACKAGE / mutation.module).read_text()
    for old, new in mutation.edits:
        assert source.count(old) == 1, f"{mutation.module} has {source.count(old)} times: {old}"
        source = source.replace(old, new)
    return source


def dependents(module):
    """Modules of the package that import a module, directly or not, by their full names."""
    imports = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text()
        found = set(re.findall(r"from (pymc_dshdp[\w.]*) import", text))
        for package, names in re.findall(r"from (pymc_dshdp[\w.]*) import ([\w ,]+)", text):
            found |= {f"{package}.{n.split(' as ')[0].strip()}" for n in names.split(",")}
        imports[name] = found
    out, grown = {module}, True
    while grown:
        more = {name for name, used in imports.items() if used & out} - out
        grown = bool(more)
        out |= more
    return out


class _Planter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutated module, and compiles what depends on it without numba's cache."""

    def __init__(self, mutation):
        self._mutation = mutation
        self._target = ".".join(("pymc_dshdp", *Path(mutation.module).with_suffix("").parts))
        self._afresh = dependents(self._target)

    def find_spec(self, name, path, target=None):
        if name not in self._afresh or name.endswith("__init__"):
            return None
        origin = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, origin, loader=self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        if module.__name__ == self._target:
            source = mutated_source(self._mutation)
        else:
            source = Path(path).read_text()
        source = source.replace("cache=True", "cache=False")
        exec(compile(source, path, "exec"), module.__dict__)


def plant(mutation):
    """Plant a defect, before anything of the package is imported."""
    assert not any(name.split(".")[0] == "pymc_dshdp" for name in sys.modules)
    sys.meta_path.insert(0, _Planter(mutation))


def draws_to_catch(mutation, limit):
    """Draws after which its test fails, and at every doubling from there to ``limit``; or None."""
    test = mutation.test
    if test.startswith("tests/"):
        import pytest

        failed = pytest.main(["-q", "-x", "-p", "no:cacheprovider", str(ROOT / test)])
        return mutation.draws if failed == pytest.ExitCode.TESTS_FAILED else None
    import harness

    file, *case = test.split(" ")
    if file == KERNELS:
        import test_geweke_kernels as kernels

        names, independent, chain = kernels.simulate(*case, sweeps=limit)
    else:
        import combinations

        setup = harness.Setup(combinations.by_name(case[0]), seed=2)
        expected = setup.statistics(*setup.prior(setup.rng, 40_000))
        found = setup.statistics(*setup.successive(limit))
        independent, chain = (np.array(list(s.values())).T for s in (expected, found))
    caught = None
    for draws in reversed([limit // 2**i for i in range(6)]):
        head = chain[:draws]
        wrong = not np.isfinite(head).all()  # log p(z) of a path of probability 0
        if wrong or not harness.same_means(harness.z_scores(independent, head)):
            caught = caught or draws
        else:
            caught = None  # a false alarm of a chain too short to know its own error
    return caught


def caught(name, scratch):
    """Plant a defect in an interpreter of its own: (draws to catch it or None, what it printed).

    ``scratch`` is an empty folder: nothing compiled with a defect is kept.
    """
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={scratch}".strip(",")
    done = subprocess.run(
        [sys.executable, __file__, name],
        env={
            **os.environ,
            "PYTENSOR_FLAGS": flags,
            "NUMBA_OPT": "1",
            "PYTEST_ADDOPTS": "",
        },  # to compile faster
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = re.search(r"^draws: (\d+)$", done.stdout, re.MULTILINE)
    return int(found[1]) if found else None, done.stdout + done.stderr


def main(name, limit=None):
    mutation = MUTATIONS[name]
    plant(mutation)
    default = 32_000 if mutation.test.startswith(KERNELS) else 8_000
    draws = draws_to_catch(mutation, int(limit or default))
    print(f"draws: {draws}")
    return 0 if draws is not None else 1


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "statistical")]
    sys.exit(main(*sys.argv[1:]))
