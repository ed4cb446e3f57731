"""The weak-limit sampler: states by forward filtering, then the transition block."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pymc as pm
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import Competence
from pymc.step_methods.state import dataclass_state

from pymc_dshdp.distributions import (
    ActiveStatesRV,
    ActiveWeightsRV,
    HiddenPathRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
from pymc_dshdp.graph.walks import has_op, role_of
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.steps._common import rehearse
from pymc_dshdp.steps.states import StatesStep, StatesStepState
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["WeakLimitFFBS"]

OWN_OPS = (
    ActiveStatesRV,
    ActiveWeightsRV,
    HiddenPathRV,
    StickFractionsRV,
    StickyPersistenceRV,
    SymmetricWeightsRV,
    TransitionRowsRV,
)
OWN_ROLES = {"alpha", "gamma", "s", "sticky_phi"}


@dataclass_state
class WeakLimitFFBSState(StatesStepState):
    """Sampling state of ``WeakLimitFFBS``."""

    threads: int = field(metadata={"frozen": True})


class WeakLimitFFBS(StatesStep):
    r"""Draw the hidden states by forward filtering and backward sampling, then the transitions.

    Each iteration draws, exactly and in this order: all states
    :math:`z \mid y, \theta, P, \pi_\mathrm{init}` at once, by the forward filter and a backward
    sample with :math:`P = \mathrm{diag}(\kappa) + (1 - \kappa)\bar\pi`; the self-persistence
    counts :math:`W`, which leave the switches :math:`n`; :math:`\alpha \mid n, \beta`; the table
    counts :math:`m`; :math:`\gamma \mid m`; :math:`\beta \mid m, \gamma`; and the rows
    :math:`\bar\pi_j \sim \mathrm{Dir}(\alpha\beta + n_j)`, :math:`\pi_\mathrm{init}`.

    Any likelihood of the model that indexes with the states enters through its own log-density
    (see ``LogLikelihoodTable``). Missing observations (PyMC's ``y_unobserved`` of a masked array)
    are summed out of it and redrawn given the states.

    States are then split in two and merged by Metropolis proposals in
    which emission parameters, rows, kappa and the :math:`w_t` are integrated out; where one is
    accepted, all of these are drawn given the new states, kappa and the emission parameters too,
    which other steps own (see ``kernels.split_merge``). They take segmentations apart that no
    single draw of the path can leave. Where emission parameters do not integrate out, states that
    are alike are split and merged with the parameters of the new state proposed from an
    approximation of their conditional (see ``steps.explicit_split_merge``): if every parameter that
    differs by state is that of one state alone, and nothing but its own prior and the likelihood
    depends on it. States of ``known`` times are left alone, as are
    priors with several states variables and ``FixedTransitions``. While tuning, at four times,
    states are also merged and split wherever that raises the evidence (Laplace's approximation of
    it where it is not known, if T is not too large), if tuning takes at least 50 iterations.

    ``pm.sample()`` chooses this step by itself. The self-persistence variables belong to
    ``GridRhoStep``, emission parameters to PyMC's own steps.

    Parameters
    ----------
    vars : list
        All the ``HiddenStates`` variables of one or more priors. The step also owns gamma,
        alpha, beta (or v), pi_bar and pi_init of these priors.
    threads : int
        Threads over which sequences and parts of the likelihood table are spread; the draws do
        not depend on it to the last bit. More than one is for chains that run one after the
        other (``cores=1``); else the chains have the cores.
    split_merge : bool
        Whether to propose splits, merges and resplits; default True. Their number follows from
        the numbers of times and states alone, such that they take about 30% of an iteration's
        time: never from a clock, so that a seed gives the same draws on any machine.
    pilots : bool
        Whether tuning begins with short runs from starts of many kinds, of which the one with the
        most evidence becomes the chain (see ``steps.pilots``); default True. They have a third of
        the number of tuning iterations, in addition to these, and are left out where tuning takes
        fewer than 120. Three chains in four have them, where ``log_joint`` is known and no
        starting path is given.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError
        Before sampling: if ``vars`` has anything else, only some of a prior's states, or lacks a
        variable that another step was given; if a variable outside the prior depends on one that
        this step draws; if a likelihood couples the states at several times.
    pymc.exceptions.SamplingError
        If an observation has log-density -inf in every state that can be reached, or NaN in one,
        with its time point.

    Notes
    -----
    Sampler statistics: ``n_occupied``, the number of states visited (over all priors of the
    step); ``log_marginal_likelihood``, log p(y | theta, P) with the path summed out, for the
    parameters that the iteration started from (NaN while the states are held; with several states
    variables the sum of each one's, given the others' paths); and ``log_joint``,
    log p(y, z | beta, alpha, rho) of the new states, with theta, the rows, kappa and w integrated
    out. The latter ranks modes: it does not grow with the number of states as the former does.
    Missing observations count at their present values. It is NaN where a parameter that differs
    by state is not drawn from a conjugate conditional, nor the scale of a linear regression (whose
    prior, the same for all states, is integrated by quadrature; several columns may have a scale
    each if they share no coefficient), in any of the likelihoods of the states, or serves several
    columns of the data, and where kappa is neither constant nor the prior's own.
    ``piloted`` says whether the start was chosen by pilots.
    ``proposals`` counts the splits, merges and resplits proposed (the times of two states divided
    anew), ``splits``, ``merges`` and ``resplits`` those accepted.

    Starting path: with tuning, states are held at their starting path for the first iterations,
    while everything else adapts to it: one where all parameters of the likelihood are known or
    drawn by ``ConjugateStep``, 10 where ``SliceEmissionStep`` draws some, else 50. The path is
    ``initvals["z"]`` or the ``initial_states`` of ``HiddenStates`` if given; the default is a
    k-means segmentation of the observed data with the chain's generator (see
    ``steps/starting.py``). This touches the tuning phase only.

    When all L states were occupied in more than 1% of at least 100 draws, the statistic
    ``warning`` says, once per chain, to raise the number of states.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.WeakLimitFFBS([model["z"]], threads=1)])
    """

    name = "weak_limit_ffbs"
    _state_class = WeakLimitFFBSState
    stats_dtypes_shapes: dict = {
        "n_occupied": (np.int64, []),
        "log_marginal_likelihood": (np.float64, []),
        "log_joint": (np.float64, []),
        "splits": (np.int64, []),
        "merges": (np.int64, []),
        "resplits": (np.int64, []),
        "proposals": (np.int64, []),
        "piloted": (np.bool_, []),
        "warning": (SamplerWarning, None),
    }

    def __init__(
        self,
        vars: Sequence[Tensor],
        *,
        threads: int = 1,
        split_merge: bool = True,
        pilots: bool = True,
        model: pm.Model | None = None,
        rng: RandomSource = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ValueError(f"threads must be a positive integer, received {threads!r}")
        self.threads = int(threads)
        start = self._prepare(vars, model, rng, initial_point, blocked)
        self._prepare_moves(start, split_merge, pilots)
        rehearse(WeakLimitFFBS.step, self, start, hold=0, threads=1)  # no threads before a fork

    def step(self, point):
        """Draw the states and the transition block of each prior; see the class."""
        hold = self._holds
        occupied, total, full = 0, 0.0, False
        if hold and self.held == 0:
            point = self._start(point)
        point = self._improve_if_due(point)
        for prior in self._priors:
            if hold:
                log_marginal = np.nan
            else:
                point, log_marginal = prior.draw_states(point, self.rng, self.threads)
            point, n_occupied = prior.draw_transitions(point, self.rng)
            occupied += n_occupied
            total += log_marginal
            full |= prior.truncated and n_occupied == prior.n_states
        point = self._missing.draw(point, self.rng)
        point, moved = self._move(point, hold)
        self.held += hold
        stats = {
            "n_occupied": occupied + moved["splits"] - moved["merges"],
            "log_marginal_likelihood": total,
            **moved,
            "piloted": self.piloted,
            "warning": self._truncation_warning(full),
        }
        return point, [stats]

    @staticmethod
    def competence(var, has_grad):
        """Claims the states and transition variables of the priors of this package."""
        mine = has_op(var, OWN_OPS) or role_of(var) in OWN_ROLES
        mine = mine or is_missing_observation(var)
        return Competence.IDEAL if mine else Competence.INCOMPATIBLE
