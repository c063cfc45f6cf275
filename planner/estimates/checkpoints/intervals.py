"""How often to checkpoint: one level, failures that come at random.

A checkpoint takes C seconds of training, failures come on average every M seconds, independently of
one another (exponential times between them), and after one it takes R seconds until training goes
on where the last checkpoint left it; it may fail in those R seconds, too. In between T seconds of
work are done. By Daly's complete model (Daly 2006) that takes, in the mean,

    E(T) = M e^(R/M) (e^((T + C)/M) - 1)

seconds for T seconds of work: T / E(T) is the useful share of time, exact for such failures. Its
maximum is where (1 - T/M) e^((T + C)/M) = 1, independent of R; it has no closed form, and two
approximations of it are in use:

    Young 1974:  sqrt(2 C M), the leading term, good while C is far below M;
    Daly 2006:   sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C for C < 2 M, else M.

Sources: J. W. Young, A first order approximation to the optimum checkpoint interval, Communications
of the ACM 17(9), 1974; J. T. Daly, A higher order estimate of the optimum checkpoint interval for
restart dumps, Future Generation Computer Systems 22(3), 2006. All times here are in seconds.
"""

from __future__ import annotations

from math import exp, sqrt

LARGEST_EXPONENT = 700.0
"""e to more than this is no number any more: nothing gets done."""
BISECTIONS = 200


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Young's interval: work between checkpoints."""
    return sqrt(2 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's higher-order interval: work between checkpoints."""
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    part = cost_s / (2 * mtbf_s)
    return young_s(cost_s, mtbf_s) * (1 + sqrt(part) / 3 + part / 9) - cost_s


def best_s(cost_s: float, mtbf_s: float) -> float:
    """The exact maximum of the useful share, by bisection: (1 - x) e^(x + C/M) - 1 falls from
    e^(C/M) - 1 at x = T/M = 0 to -1 at x = 1."""
    cost = min(cost_s / mtbf_s, LARGEST_EXPONENT - 1)
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) * exp(middle + cost) > 1 else (low, middle)
    return low * mtbf_s
