"""Draws from the priors in plain NumPy, many at a time, and the statistics compared.

Points hold value variables by name, as the sampler's points do, with the draws along the first
axis. Nothing here calls the package's samplers or random variables.
"""

import numpy as np
import pymc as pm
from families import SCALES, L
from scipy import special, stats

import pymc_dshdp as dshdp

CONCENTRATION = 0.3 + np.eye(L) + 0.2 * np.arange(L)  # of the rows of the parametric prior
FIRST = np.array([1.0, 2.0, 0.5, 1.0])
NUMBER = np.array([0.2, 0.3, 0.3, 0.2])  # p(K) of the mixture of finite mixtures
X = np.sin(1.7 * np.arange(16.0)) + 0.3  # a covariate of the self-persistence, and its prior
COEFFICIENTS = np.array([0.5, 0.8]), np.array([1.2, 0.9])
MIXTURES = {"finite-mixture": "dynamic", "static-mixture": "static"}


def log_gamma_variate(rng, shape):
    """Logarithm of Gamma(shape, 1), finite where the variate underflows; -inf for shape 0."""
    with np.errstate(divide="ignore", over="ignore"):
        low = np.log(rng.random(shape.shape)) / shape
    return np.log(rng.standard_gamma(shape + 1.0)) + low


def beta_logit(rng, a, b):
    return log_gamma_variate(rng, a) - log_gamma_variate(rng, b)


def dirichlet(rng, concentration):
    logs = log_gamma_variate(rng, concentration)
    return special.softmax(logs, axis=-1)


def categorical(rng, p):
    cumulative = p.cumsum(axis=-1)
    u = rng.random(p.shape[:-1]) * cumulative[..., -1]
    return np.minimum((u[..., None] >= cumulative).sum(axis=-1), p.shape[-1] - 1)


def stick_weights(logit):
    log_left = np.cumsum(-np.logaddexp(0.0, logit), axis=-1)
    before = np.concatenate([np.zeros((len(logit), 1)), log_left], axis=-1)
    first = np.concatenate([-np.logaddexp(0.0, -logit), np.zeros((len(logit), 1))], axis=-1)
    return np.exp(first + before)


def declare_prior(prior, weights, groups=1, name="hmm", covariates=False):
    """Declare it in the model context.

    Concentrations of the order of 1, so that rows, weights and tables inform each other.
    """
    several = {} if groups == 1 else {"groups": groups}
    if covariates:
        mu, sigma = COEFFICIENTS
        several["kappa"] = dshdp.LogisticPersistence(X[:, None], mu=mu, sigma=sigma)
    if prior == "fixed":
        return dshdp.FixedTransitions(
            name, n_states=L, concentration=CONCENTRATION, initial_concentration=FIRST, **several
        )
    chosen = {"weights": weights, **several}
    if weights in MIXTURES:
        number = {"n_active": NUMBER, "concentration": MIXTURES[weights]}
        chosen = {"weights": "finite-mixture", **number, **several}
    if prior == "sticky":
        s = pm.Gamma(f"{name}_s", 2.0, 0.5)
        return dshdp.StickyHDP(name, n_states=L, s=s, **chosen)
    alpha = pm.Gamma(f"{name}_alpha", 2.0, 1.0)
    if prior == "hdp":
        return dshdp.HDP(name, n_states=L, alpha=alpha, **chosen)
    return dshdp.DSHDP(name, n_states=L, alpha=alpha, **chosen)


def prior_points(rng, n, prior, weights, grid=None, groups=1, covariates=False, name="hmm"):
    """Draw n points of a prior; ``grid`` has the cells of (phi, eta) where midpoints are drawn."""
    out, R = {}, groups * L
    along = () if groups == 1 else (groups,)
    if prior == "fixed":
        rows = dirichlet(rng, np.broadcast_to(CONCENTRATION, (n, L, L)))
        first = dirichlet(rng, np.broadcast_to(FIRST, (n, L)))
    else:
        gamma = rng.gamma(2.0, 1.0, n)
        out["gamma_log__"] = np.log(gamma)
        if prior == "sticky":
            s, phi = rng.gamma(2.0, 2.0, n), rng.random(n)
            alpha = (1.0 - phi) * s
            out["s_log__"] = np.log(s)
            concentration = s
        else:
            alpha = rng.gamma(2.0, 1.0, n)
            out["alpha_log__"] = np.log(alpha)
        if prior == "ds" and not covariates:
            phi, eta = rng.random(n), 2.0 * rng.random(n)
            if grid is not None:
                phi = (np.floor(phi * grid[0]) + 0.5) / grid[0]
                eta = 2.0 * (np.floor(0.5 * eta * grid[1]) + 0.5) / grid[1]
            out["eta_interval__"] = special.logit(eta / 2.0)
            concentration = eta**-3.0
        if prior != "hdp" and not covariates:
            out["phi_interval__"] = special.logit(phi)
            a, b = phi * concentration, (1.0 - phi) * concentration
            kappa_logit = beta_logit(rng, *(np.repeat(x[:, None], R, axis=1) for x in (a, b)))
            out["kappa_logodds__"] = kappa_logit.reshape(n, *along, L)
        if weights == "stick-breaking":
            ones = np.ones((n, L - 1))
            out["v_logodds__"] = beta_logit(rng, ones, gamma[:, None] * ones)
            beta = stick_weights(out["v_logodds__"])
        elif weights in MIXTURES:
            number = 1 + categorical(rng, np.tile(NUMBER, (n, 1)))
            order = rng.random((n, L)).argsort(axis=1)
            out["active"] = (order < number[:, None]).astype(np.int64)
            each = gamma if MIXTURES[weights] == "static" else gamma / number
            out["beta"] = beta = dirichlet(rng, out["active"] * each[:, None])
        else:
            out["beta"] = beta = dirichlet(rng, np.repeat(gamma[:, None] / L, L, axis=1))
        rows = dirichlet(rng, np.repeat((alpha[:, None] * beta)[:, None], R, axis=1))
        rows = rows.reshape(n, *along, L, L)
        first = dirichlet(rng, alpha[:, None] * beta)
    out["pi_bar"], out["pi_init"] = rows, first
    if covariates:
        mu, sigma = COEFFICIENTS
        out["kappa_coef"] = mu + sigma * rng.standard_normal((n, L, 2))
    return {f"{name}_{key}": value for key, value in out.items()}


def natural(points, name="hmm"):
    """What the statistics use of a prior, on natural scales, by the paper's names.

    The rows of several groups, and their kappa, lie one group after the other. A kappa that
    follows a covariate has the shape (n, T, L).
    """
    value = {key[len(name) + 1 :]: x for key, x in points.items() if key.startswith(f"{name}_")}
    n = len(value["pi_init"])
    out = {"rows": value["pi_bar"].reshape(n, -1, L), "first": value["pi_init"]}
    for key in ("gamma", "alpha", "s"):
        if f"{key}_log__" in value:
            out[key] = np.exp(value[f"{key}_log__"])
    if "phi_interval__" in value:
        out["phi"] = special.expit(value["phi_interval__"])
    if "eta_interval__" in value:
        out["eta"] = 2.0 * special.expit(value["eta_interval__"])
    if "s" in out:
        out["alpha"] = (1.0 - out["phi"]) * out["s"]
    if "v_logodds__" in value:
        out["v_logit"] = value["v_logodds__"]
        out["beta"] = stick_weights(out["v_logit"])
    elif "beta" in value:
        out["beta"] = value["beta"]
    if "active" in value:
        out["active"] = value["active"]
    none = np.full(out["rows"].shape[:2], -np.inf)
    out["kappa_logit"] = value.get("kappa_logodds__", none).reshape(none.shape)
    if "kappa_coef" in value:
        out["coefficients"] = c = value["kappa_coef"]
        out["kappa_logit"] = c[:, None, :, 0] + c[:, None, :, 1] * X[:, None]
    return out


def transition_matrices(values):
    """P of all groups, of shape (n, G L, L), or of all times, of shape (n, T L, L)."""
    logit = values["kappa_logit"]
    if logit.ndim == 3:
        each = [transition_matrices({**values, "kappa_logit": x}) for x in logit.swapaxes(0, 1)]
        return np.concatenate(each, axis=1)
    kappa, switch = special.expit(logit), special.expit(-logit)
    own = np.eye(L)[np.arange(kappa.shape[1]) % L]
    return kappa[..., None] * own + switch[..., None] * values["rows"]


def first_rows(values, lengths):
    """First row, among those of all groups or times, that leads to each time; shape (T,)."""
    if values["kappa_logit"].ndim == 3:
        return L * np.arange(sum(lengths))
    last = values["rows"].shape[1] // L - 1
    return L * np.repeat(np.minimum(np.arange(len(lengths)), last), lengths)


def draw_paths(rng, values, lengths):
    """Paths of shape (n, T), sequences end to end."""
    P, n = transition_matrices(values), len(values["first"])
    group = first_rows(values, lengths)
    z = np.empty((n, sum(lengths)), np.int64)
    t = 0
    for length in lengths:
        z[:, t] = categorical(rng, values["first"])
        for i in range(t + 1, t + length):
            z[:, i] = categorical(rng, P[np.arange(n), group[i] + z[:, i - 1]])
        t += length
    return z


def parameters_at(family, points, z, known):
    """The family's parameters at the states of each time point, (n, T, ...), in order."""
    draws = np.arange(len(z))[:, None]
    if known is not None:
        return [x[z] for x in known]
    return [
        SCALES[scale][2](points[f"{name}{SCALES[scale][0]}"])[draws, z]
        for name, scale in family.scales.items()
    ]


def _power_logs(concentration, x):
    """Log-density of Dirichlets in the coordinates log x, entries underflowed to 0 left out."""
    present = (x > 0.0) & (concentration > 0.0)
    a, x = np.where(present, concentration, 1.0), np.where(present, x, 1.0)
    terms = np.where(present, a * np.log(x) - special.gammaln(a), 0.0)
    return terms.sum(axis=-1) + special.gammaln(concentration.sum(axis=-1))


def _log_prior(values, weights):
    """Log-density of hyperparameters, weights, rows and kappa, in unbounded coordinates."""
    total = 0.0
    if "coefficients" in values:
        total = stats.norm.logpdf(values["coefficients"], *COEFFICIENTS).sum(axis=(1, 2))
    if "gamma" not in values:
        rows = np.broadcast_to(CONCENTRATION, values["rows"].shape)
        first = np.broadcast_to(FIRST, values["first"].shape)
        total = total + _power_logs(rows, values["rows"]).sum(axis=1)
        return total + _power_logs(first, values["first"])
    gamma, alpha, beta = values["gamma"], values["alpha"], values["beta"]
    total = total + stats.gamma.logpdf(gamma, 2.0)
    if "s" in values:
        total = total + stats.gamma.logpdf(values["s"], 2.0, scale=2.0)
    else:
        total = total + stats.gamma.logpdf(alpha, 2.0)
    if "phi" in values:
        concentration = values["s"] if "s" in values else values["eta"] ** -3.0
        a, b = values["phi"] * concentration, (1.0 - values["phi"]) * concentration
        x = values["kappa_logit"]
        kappa = a[:, None] * np.logaddexp(0.0, -x) + b[:, None] * np.logaddexp(0.0, x)
        total = total - (kappa + special.betaln(a, b)[:, None]).sum(axis=1)
    if "v_logit" in values:
        x = values["v_logit"]
        v = np.logaddexp(0.0, -x) + gamma[:, None] * np.logaddexp(0.0, x)
        total = total + (L - 1) * np.log(gamma) - v.sum(axis=1)
    elif "active" in values:
        number = values["active"].sum(axis=1)
        each = gamma if MIXTURES[weights] == "static" else gamma / number
        total = total + np.log(NUMBER[number - 1] / special.binom(L, number))
        total = total + _power_logs(values["active"] * each[:, None], beta)
    else:
        total = total + _power_logs(np.repeat(gamma[:, None] / L, L, axis=1), beta)
    base = alpha[:, None] * beta
    rows = np.concatenate([values["first"][:, None], values["rows"]], axis=1)
    return total + _power_logs(np.repeat(base[:, None], rows.shape[1], axis=1), rows).sum(axis=1)


def _of_coefficients(values, z, inside, same):
    """Statistics of coefficients of the self-persistence, and of kappa where it is in force."""
    draws, before = np.arange(len(z))[:, None], z[:, inside - 1]
    c, kappa = values["coefficients"], special.expit(values["kappa_logit"])[draws, inside, before]
    out = {}
    for i, what in enumerate(("intercept", "slope")):
        out[f"{what}s"] = c[..., i].mean(axis=1)
        out[f"{what}s^2"] = (c[..., i] ** 2).mean(axis=1)
        out[f"{what} at self-transitions"] = (c[draws, before, i] * same).mean(axis=1)
        out[f"{what} at the states before"] = c[draws, before, i].mean(axis=1)
    out["intercepts x slopes"] = (c[..., 0] * c[..., 1]).mean(axis=1)
    out["kappa at self-transitions"] = (kappa * same).mean(axis=1)
    out["kappa x covariate"] = (kappa * X[inside]).mean(axis=1)
    slope = c[draws, before, 1]
    out["slope x covariate at self-transitions"] = (slope * same * X[inside]).mean(axis=1)
    return out


def statistics(family, points, y, lengths, known=None, weights=None):
    """Label-invariant statistics of (parameters, states, data): name -> (n,)."""
    values, z = natural(points), points["z"].astype(np.int64)
    n, T = z.shape
    draws = np.arange(n)[:, None]
    starts = np.cumsum([0, *lengths])[:-1]
    inside = np.setdiff1d(np.arange(1, T), starts)
    same = z[:, inside] == z[:, inside - 1]
    P = transition_matrices(values)
    row = first_rows(values, lengths)[inside] + z[:, inside - 1]
    with np.errstate(divide="ignore"):
        log_path = np.log(values["first"][draws, z[:, starts]]).sum(axis=1)
        log_path += np.log(P[draws, row, z[:, inside]]).sum(axis=1)
    at = parameters_at(family, points, z, known)
    log_data = family.log_density(lengths, y, *at).sum(axis=1)
    log_joint = _log_prior(values, weights) + log_path + log_data
    if known is None:
        theta = [
            SCALES[scale][2](points[f"{name}{SCALES[scale][0]}"])
            for name, scale in family.scales.items()
        ]
        log_joint = log_joint + family.log_prior(*theta).reshape(n, -1).sum(axis=1)
    rows = values["rows"]
    out = {
        "occupied states": (z[:, :, None] == np.arange(L)).any(axis=1).sum(axis=1),
        "self-transitions": same.mean(axis=1),
        "co-assignment": z[:, T // 3] == z[:, T // 3 + 4],
        "co-assignment of the ends": z[:, 0] == z[:, -1],
        "log joint": log_joint,
        "log p(z)": log_path,
        "log p(y)": log_data,
        "pi_init at the starts": values["first"][draws, z[:, starts]].mean(axis=1),
        "sum of pi_bar^2": (rows**2).sum(axis=(1, 2)) / rows.shape[1],
        "pi_bar below 0.001": (rows < 0.001).mean(axis=(1, 2)),
        "pi_bar at self-transitions": (rows[draws, row % rows.shape[1], z[:, inside]] * same).mean(
            axis=1
        ),
    }
    if "coefficients" in values:
        out |= _of_coefficients(values, z, inside, same)
    if rows.shape[1] > L:
        half = rows.reshape(n, -1, L, L)
        out["pi_bar of two groups"] = (half[:, 0] * half[:, 1]).sum(axis=(1, 2))
        out["self-transitions of the first group"] = same[:, row[0] < L].mean(axis=1)
    for key in ("gamma", "alpha", "s"):
        if key in values and not (key == "alpha" and "s" in values):
            out[f"log {key}"] = np.log(values[key])
            out[f"(log {key})^2"] = np.log(values[key]) ** 2
    if "phi" in values:
        other = "s" if "s" in values else "eta"
        second = np.log(values["s"]) if "s" in values else values["eta"]
        out |= {"phi": values["phi"], "phi^2": values["phi"] ** 2}
        out |= {} if "s" in values else {"eta": second, "eta^2": second**2}
        out[f"phi {other}"] = values["phi"] * second
        out["largest kappa"] = special.expit(values["kappa_logit"].max(axis=1))
    if "active" in values:
        number = values["active"].sum(axis=1)
        out |= {"active states": number, "one active state": number == 1}
        out["log gamma x active states"] = np.log(values["gamma"]) * number
        out["active x occupied states"] = number * out["occupied states"]
        out["active states of positive weight"] = (values["beta"] > 0.0).sum(axis=1)
    if "beta" in values:
        squares = (values["beta"] ** 2).sum(axis=1)
        out["sum of beta^2"] = squares
        out["beta at the starts"] = values["beta"][draws, z[:, starts]].mean(axis=1)
        out["log gamma x sum of beta^2"] = np.log(values["gamma"]) * squares
        out["log alpha x sum of pi_bar^2"] = np.log(values["alpha"]) * out["sum of pi_bar^2"]
    seen = y.reshape(n, T, -1).astype(float).mean(axis=2)
    out["data"] = seen.mean(axis=1)
    out["data x data before"] = (seen[:, 1:] * seen[:, :-1]).mean(axis=1)
    for name, x in zip(family.scales, at, strict=True):
        x = x.reshape(n, T, -1)
        out[f"{name} in use"] = x.mean(axis=(1, 2))
        out[f"{name}^2 in use"] = (x**2).mean(axis=(1, 2))
        out[f"{name} x data"] = (x.mean(axis=2) * seen).mean(axis=1)
    return {key: np.asarray(x, float) for key, x in out.items()}
