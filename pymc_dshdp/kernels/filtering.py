"""Forward filter of a hidden Markov model over sequences end to end."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from pymc_dshdp.kernels.antecedents import draw_antecedents
from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import exact_stay_and_leave, fill_matrix
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.lanes import HEADROOM, lanes_of, leave_states, reached
from pymc_dshdp.kernels.log_messages import filter_by_logarithms
from pymc_dshdp.kernels.simd import (
    LOST,
    NEGLIGIBLE,
    TALL,
    WIDTH,
    binary_exponent,
    exponentiate,
    multiply_flat,
    multiply_tall,
    scale_to,
    weigh,
)
from pymc_dshdp.kernels.underflow import (
    begin_to_watch,
    weigh_and_follow,
    weigh_and_watch,
    weigh_reachable,
)

SMALLEST_NORMALISER = 1e-280
CALM, SETTLED = -700, -1000  # powers of two
CLOSE = 2.0**-400
WATCHING = np.iinfo(np.int64).max
LN2 = math.log(2.0)
ONE_TILE = 20  # columns up to which one row at a time is faster than four
NO_ROW = np.empty(0)
NO_SHIFTS = np.empty(0)


class Filtered(NamedTuple):
    """What a filter finds out about its sequences beside the rows.

    Attributes
    ----------
    log_marginal_likelihood : ndarray of shape (N,)
        log p(y_n) of each sequence.
    impossible : ndarray of shape (N,), int64
        First time point, among those of all sequences, at which no reachable state of the
        sequence has a finite log-density; -1 if there is none. Its rows are not valid from there.
    logarithms : ndarray of shape (N,), bool
        Where the rows are log p(z_t = k | y_1..t), because in this sequence states have
        underflowed that matter.
    lost : float
        Bound on what has underflowed in the last sequence; see ``filter_rows``.
    """

    log_marginal_likelihood: np.ndarray
    impossible: np.ndarray
    logarithms: np.ndarray
    lost: float


@njit(cache=True, nogil=True)
def _multiply_by(matrices, g, rows, active, n, row, out):
    """See ``multiply_flat``; apart, so that no reference to a matrix is counted at each step."""
    multiply_flat(rows, active, n, matrices[g], row, out)


@njit(cache=True, nogil=True, fastmath={"contract"})
def filter_rows(
    log_likelihoods,
    initial,
    transitions,
    kappa,
    lengths,
    before,
    lost,
    logarithms,
    filtered,
    shifts,
    uniforms,
    antecedents,
):
    """Forward filter over rows that may begin within a sequence; see ``forward_filter``.

    A row is scaled only when the next product has been formed, so that no product waits for a
    sum. As scaling by a power of two is exact, that changes nothing but where a product
    underflows; the matrix is multiplied by 2^60 for that, and rows that sum to less than 2^-60
    do not wait.

    Where the transition matrix is wide and the same at all times, up to four sequences advance
    together and it is read once for four rows. A state that has probability 0 in all of them is
    passed over. Every entry is computed in the same order whatever runs beside it.

    Weights below e^-708 become 0, and so do products. Let d_t bound the mass of all paths that
    lead through something so lost, where a_t sums to 1 or more, and d_t(k) that of those in k. If
    P_kk <= s_k and P_jk <= q_k for j != k at all times, they bring to k at most
    c_t(k) = d_{t-1}(k) s_k + d_{t-1} q_k: next to nothing where
    b_t(k) = sum_j a_{t-1}(j) P_tjk is 2^64 times that. In the other states
    d_t(k) = (c_t(k) exp(l_tk - m_t) + 2^-1018) / sum_j u_t(j), and if r_t is the largest weight
    of these, d_t is the sum of d_t(k) or, if that is less,
    (d_{t-1} r_t + 2^-1018 L) / sum_j u_t(j). That stays tiny unless data favour, by some 600 nats
    in all, paths that have hardly any mass. A sequence in which it exceeds 2^-64 is filtered
    again by logarithms, as is one in which an observation seems impossible. The posterior
    probability of all paths that are lost is below 2^-64 for each time point; so rows, samples
    and smoothed probabilities are right to rounding. As sum_k q_k may exceed 1, the bound may grow
    without data that favour such paths; so from d = 2^-400 on c_t(k) = sum_j d_{t-1}(j) P_tjk.
    While d is below 2^-700 no one looks where it is: d_t(k) <= d_t and, since r_t <= 1 and no sum
    of successive e exceeds 1, d_t <= 2^(1 - e_{s+1} - ... - e_t) (d_s + 2^-1018 L (t - s)), which
    the sum of e tells.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transitions : Transitions
    kappa : ndarray of shape (T, L), or None
        Its ``kappa_logit`` where there is a row for each time, else None: compiled for one of them.
    lengths : ndarray of shape (N,)
        Of the pieces of sequences that the rows consist of.
    before : ndarray of shape (L,) or (0,)
        Row of ``filtered`` before the first, where that is not the beginning of its sequence.
    lost : float
        d there.
    logarithms : ndarray of shape (N,), bool
        Sequences to filter by logarithms in any case.
    filtered : ndarray of shape (T, L)
        Overwritten.
    shifts : ndarray of shape (T,) or (0,)
        log p(y_t | y_1..t-1), less log sum_k a_t(k) and plus that of the row before (0 where it is
        pi_init); where the rows are logarithms, that itself. Overwritten.
    uniforms : ndarray of shape (T,)
        Of the time before each row; not used without ``antecedents``.
    antecedents : ndarray of shape (T, C), int16, or (0, 0)
        The state before each state of each row, but first rows and logarithms; overwritten. Only
        where kappa does not vary with time.

    Returns
    -------
    Filtered
        If ``logarithms`` is set there and not among the arguments for a first sequence that
        began before these rows, that has to be filtered again from its beginning.
    """
    log_likelihoods = np.ascontiguousarray(log_likelihoods)
    kappa_logit, pi_bar, index, grouped = transitions
    L = log_likelihoods.shape[1]
    N = lengths.shape[0]
    columns = -(-L // WIDTH) * WIDTH
    stay, leave = np.empty(L), np.empty(L)
    fixed_stay, fixed_leave = np.zeros(L), np.ones(L)  # what of kappa is in the matrix
    if kappa is None:
        fixed_stay, fixed_leave = exact_stay_and_leave(kappa_logit[0])
    indexed, loaded = index.shape[0] > 0, 0
    as_given = indexed and columns == L and not grouped
    as_given &= kappa is not None or fixed_stay.max() == 0.0
    matrix = np.zeros((L, columns))
    fill_matrix(pi_bar[0], fixed_stay, fixed_leave, HEADROOM, matrix)
    log_marginal = np.zeros(N)
    impossible = np.full(N, -1)
    given, logarithms = logarithms, logarithms.copy()
    first, start = lanes_of(lengths)
    n_lanes = first.shape[0] - 1
    weights = np.empty((n_lanes, columns))
    predicted = np.zeros((TALL, columns))
    current = np.zeros((TALL, columns))  # filtered rows before they are scaled
    leaving = current if kappa is None else np.zeros((TALL, columns))
    factors = np.zeros((TALL, columns)) if as_given else leaving  # then they have the 2^60
    staying = np.zeros((TALL, columns))
    targets = np.empty((1, columns))
    scales = np.full(n_lanes, 1.0 / HEADROOM)  # of the products of each with the matrix
    # d < 2^(CALM + floor - exponent); or watching, d(k) = astray[k] power and d = gone power
    slack = math.ceil(max(SETTLED, math.log2(LOST * log_likelihoods.size))) + 2 - CALM
    floors, gones, powers = np.full(n_lanes, slack), np.zeros(n_lanes), np.ones(n_lanes)
    most, astray = np.full((2, columns), -1.0), np.empty((n_lanes, columns))
    exponents = np.zeros(n_lanes, np.int64)  # sum of e since the sequence began
    positive = np.full(n_lanes, L)
    active = np.empty(L, np.int64)
    time, ends = start.copy(), start.copy()
    sequence = first - 1
    if before.shape[0] > 0:
        sequence[0], ends[0] = 0, lengths[0]
        if given[0]:
            time[0] = lengths[0]
        else:
            copy_into(current[0, :L], before)
            if lost >= 2.0**SETTLED:
                floors[0], gones[0] = WATCHING, lost
                begin_to_watch(transitions, kappa, most, lost, astray[0])
            log_marginal[0] = -math.log(before.sum())

    n_live = (time[:n_lanes] < start[1:]).sum()
    while n_live > 0:
        together = n_live > 2 and columns > ONE_TILE and not indexed
        if together:
            if kappa is not None:
                for lane in range(n_lanes):
                    if time[lane] < start[lane + 1]:
                        row = kappa[time[lane]]
                        leave_states(current, lane, row, stay, leave, leaving, staying)
            n = -1 if 4 * positive.max() > 3 * L else reached(leaving, 0, TALL, active)
            multiply_tall(leaving, active, n, matrix, predicted)
        for lane in range(n_lanes):
            t, end = time[lane], start[lane + 1]
            if t == end:
                continue
            until = t + 1 if together else end
            i, sequence_end = sequence[lane], ends[lane]
            scale, exponent, n_positive = scales[lane], exponents[lane], positive[lane]
            floor, gone, power = floors[lane], gones[lane], powers[lane]
            while t < until:
                if t == sequence_end:
                    i += 1
                    sequence_end += lengths[i]
                    if logarithms[i]:
                        t = sequence_end
                        continue
                    scale = 1.0
                    exponent, floor = 0, slack
                    for k in range(L):
                        predicted[lane, k] = initial[k]
                else:
                    if not together:
                        if kappa is not None:
                            leave_states(current, lane, kappa[t], stay, leave, leaving, staying)
                        if as_given:
                            scale_to(leaving, lane, HEADROOM, factors, lane)
                        elif indexed and index[t] != loaded:
                            loaded = index[t]
                            if grouped:
                                row = kappa_logit[loaded]
                                fixed_stay, fixed_leave = exact_stay_and_leave(row)
                            fill_matrix(pi_bar[loaded], fixed_stay, fixed_leave, HEADROOM, matrix)
                        dense = 4 * n_positive > 3 * L
                        n = -1 if dense else reached(leaving, lane, lane + 1, active)
                        if as_given:
                            _multiply_by(pi_bar, index[t], factors, active, n, lane, predicted)
                        else:
                            multiply_flat(factors, active, n, matrix, lane, predicted)
                        if antecedents.shape[0] > 0:
                            g = index[t] if as_given else -1
                            here = factors, lane, predicted, pi_bar, g, matrix
                            draw_antecedents(here, uniforms, t, targets, antecedents)
                    if kappa is not None:
                        for k in range(L):
                            predicted[lane, k] += staying[lane, k]
                if exponent <= floor:
                    if floor < WATCHING:
                        gone, power = math.ldexp(1.0, CALM + floor - exponent), 1.0
                        floor = WATCHING
                        begin_to_watch(transitions, kappa, most, gone, astray[lane])
                    bound = gone * power
                    if not bound <= NEGLIGIBLE:
                        logarithms[i] = True
                        t = sequence_end
                        continue
                    if bound < 2.0**SETTLED:
                        floor = exponent + slack
                shift = exponentiate(log_likelihoods, t, weights, lane)
                if exponent > floor:
                    normaliser, n_positive = weigh(
                        predicted, lane, scale, weights, lane, current, lane
                    )
                elif bound <= CLOSE:
                    normaliser, n_positive, gone = weigh_and_watch(
                        predicted, lane, scale, weights, current, most, power, bound, astray
                    )
                else:
                    P = pi_bar[index[t] if indexed else 0], fixed_stay, fixed_leave
                    normaliser, n_positive, gone = weigh_and_follow(
                        predicted, lane, scale, weights, current, P, kappa, t, power, bound, astray
                    )
                if SMALLEST_NORMALISER <= normaliser < np.inf:
                    e, power = binary_exponent(normaliser)
                else:  # also NaN
                    if floor < WATCHING:
                        bound = math.ldexp(1.0, CALM + floor - exponent)
                    shift, n_positive, gone = weigh_reachable(
                        log_likelihoods[t], predicted, weights, scale, current, lane, bound
                    )
                    if not gone <= NEGLIGIBLE:
                        logarithms[i] = True
                        t = sequence_end
                        continue
                    normaliser, e, power, floor = 1.0, 0, 1.0, WATCHING
                    begin_to_watch(transitions, kappa, most, gone, astray[lane])
                scale_to(current, lane, power, filtered, t)
                if shifts.shape[0] > 0:
                    shifts[t] = shift + e * LN2
                if normaliser < 1.0 / HEADROOM:
                    scale_to(current, lane, power, current, lane)
                    scale = 1.0 / HEADROOM
                else:
                    scale = power / HEADROOM
                exponent += e
                log_marginal[i] += shift
                t += 1
                if t == sequence_end:
                    log_marginal[i] += exponent * LN2 + math.log(normaliser * power)
                    if floor < WATCHING:
                        gone, power = math.ldexp(1.0, CALM + floor - exponent), 1.0
                    bound = gone * power
                    logarithms[i] = bound > NEGLIGIBLE
                    if i == N - 1:
                        lost = bound
            time[lane], sequence[lane], ends[lane] = t, i, sequence_end
            scales[lane], exponents[lane], positive[lane] = scale, exponent, n_positive
            floors[lane], gones[lane], powers[lane] = floor, gone, power
            if t == end:
                current[lane] = 0.0  # its states are no longer among those of any lane
                leaving[lane] = 0.0
                positive[lane] = 0
                n_live -= 1

    t = np.int64(0)  # for 0 itself what follows would be compiled by itself
    for i in range(N):
        began = before.shape[0] > 0 and i == 0
        if logarithms[i] and (given[i] or not began):
            log_marginal[i], impossible[i] = filter_by_logarithms(
                log_likelihoods,
                initial,
                transitions,
                t,
                t + lengths[i],
                before if began else np.empty(0),
                filtered,
                shifts,
            )
        t += lengths[i]
    return Filtered(log_marginal, impossible, logarithms, lost)


@register_jitable
def filter_whole(given, uniforms, antecedents):
    """``filter_rows`` of the arguments of ``forward_filter``: sequences from their beginnings."""
    log_likelihoods, initial, transitions, kappa, lengths, filtered, shifts = given
    return filter_rows(
        log_likelihoods,
        initial,
        transitions,
        kappa,
        lengths,
        np.empty(0),  # numba takes a constant to be read-only, and would compile it all once more
        0.0,
        np.zeros(lengths.shape[0], np.bool_),
        filtered,
        shifts,
        uniforms,
        antecedents,
    )


@register_jitable
def forward_filter(log_likelihoods, initial, transitions, kappa, lengths, filtered, shifts):
    """Compute filtered probabilities p(z_t = k | y_1..t), up to a factor, and log p(y).

    u_t(k) = exp(l_tk - m_t) sum_j a_{t-1}(j) P_tjk with m_t = max_k l_tk, and a_0 P replaced by
    pi_init at the first time of a sequence; a_t = 2^-e_t u_t with 1 <= sum_k a_t(k) < 2. Then
    log p(y) = sum_t m_t + log 2 sum_t e_t + log sum_k a_T(k). Where the maximum sits on a state
    that can hardly be reached, sum_k u_t(k) < 1e-280, the row is weighed with the maximum over
    the states that can, and divided by its sum, whose logarithm counts as part of m_t.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
        log p(y_t | z_t = k).
    initial : ndarray of shape (L,)
    transitions : Transitions
    kappa : ndarray of shape (T, L), or None
        ``transitions.varying``.
    lengths : ndarray of shape (N,)
        Positive integers that sum to T.
    filtered : ndarray of shape (T, L)
        a, proportional to p(z_t = k | y_1..t) of the same sequence; the logarithms of these
        probabilities in sequences where ``logarithms`` says so. Overwritten.
    shifts : ndarray of shape (T,) or (0,)
        m_t + e_t log 2; see ``filter_rows``. Overwritten.

    Returns
    -------
    Filtered
    """
    nothing = np.empty(0), np.empty((0, 0), np.int16)
    given = log_likelihoods, initial, transitions, kappa, lengths, filtered, shifts
    return filter_whole(given, *nothing)


@njit(cache=True, nogil=True)
def first_impossible(found):
    """First time point that is impossible in any sequence, or -1."""
    first = -1
    for time in found.impossible:
        if time >= 0 and (first < 0 or time < first):
            first = time
    return first
