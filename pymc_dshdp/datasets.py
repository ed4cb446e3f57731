"""Small real series, as facts."""

import numpy as np

__all__ = ["earthquakes"]


def earthquakes():
    """Annual counts of major earthquakes (magnitude 7 or above) worldwide, 1900 to 2006.

    The series of Zucchini & MacDonald, "Hidden Markov Models for Time Series" (2009), table 1.1,
    after the United States Geological Survey; the classical example of a Poisson hidden Markov
    model. By maximum likelihood, 2 states give log-likelihood -342.32 and 3 states -329.46 with
    rates 13.1, 19.7 and 29.7.

    Returns
    -------
    years : ndarray of shape (107,)
    counts : ndarray of shape (107,)
    """
    counts = np.array(
        [
            13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14,
            8, 11, 14, 23, 18, 17, 19, 20, 22, 19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21,
            23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34, 10, 15,
            22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15,
            18, 14, 10, 15, 8, 15, 6, 11, 8, 7, 18, 16, 13, 12, 13, 20, 15, 16, 12, 18,
            15, 16, 13, 15, 16, 11, 11,
        ]
    )  # fmt: skip
    return np.arange(1900, 2007), counts
