"""Factors of the cost model from runs: robust, bounded, and never worse than the built-in ones.

Of each factor a run has the median of what its own times imply, and the fit is the median over
runs, so that neither a long run nor a single odd one decides. Links come first, since collectives
are part of a stage's computation. How good a fit is, is judged on runs that were left out of it
(leave one run out); with a single run on that run itself. A factor whose own times are predicted
worse than before stays as it is built in.

The memory margin is an upper quantile over runs of the worst device's measured peak over the
predicted one. It is a reserve, not an estimate: it never falls below 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from math import erf, sqrt
from statistics import median

from planner.calibration.calibration import (
    Calibration,
    ErrorPair,
    Errors,
    FittedFactor,
    FittedMargin,
)
from planner.calibration.observations import GROUP_OF, Factors, Observation, Term
from planner.cost.calibrated import MOST_MARGIN
from planner.following.estimates import ERROR_OF_MEDIAN, OUTLIER_DEVIATIONS, deviation

ORDER = ("pcie", "nvlink", "network", "compute")
LEAST_FACTOR = 0.02
"""A lower share of a peak rate says that something else is wrong."""
SURE_WITHIN = 0.05
USUAL_SPREAD = 0.05
"""Relative standard deviation between runs that is assumed where fewer tell of less."""
UPPER_QUANTILE = 0.9
FEWEST_FOR_OUTLIERS = 3
GROUPS = ("stage_times", "transfers", "offloads")


def fit(observations: Iterable[Observation]) -> Calibration:
    """The calibration from at least one run, all of one kind of GPU. Their order is irrelevant."""
    runs = sorted(observations, key=lambda own: own.run)
    if not runs or len({own.gpu for own in runs}) > 1:
        raise ValueError("a calibration is of runs on one kind of GPU")
    fitted = _worth_fitting(runs)
    factors = _factors(runs, fitted)
    return Calibration(
        gpu=runs[0].gpu,
        runs=tuple(own.run for own in runs),
        factors={name: _described(runs, name, factors, fitted) for name in ORDER},
        margin=_margin(runs),
        errors={
            group: _errors(runs, fitted, partial(_terms_of_group, group=group)) for group in GROUPS
        },
    )


def _factors(runs: Sequence[Observation], names: Collection[str]) -> Factors:
    """The built-in factors with those of these names fitted, as far as runs tell of them."""
    factors = dict(runs[0].built_in) if runs else {}
    for name in ORDER:
        if name in names:
            own = _of_runs(runs, name, factors)
            if own:
                factors[name] = median(own)
    return factors


def _of_runs(runs: Sequence[Observation], name: str, factors: Factors) -> list[float]:
    """Per run that tells of it the median of what its times imply, within the bounds."""
    implied = ([t.implied(name, factors) for t in own.terms_of(name)] for own in runs)
    return [max(LEAST_FACTOR, median(values)) for values in implied if values]


def _worth_fitting(runs: Sequence[Observation]) -> frozenset[str]:
    """The factors whose own times are predicted no worse with all of these fitted."""
    names = frozenset(name for name in ORDER if any(own.terms_of(name) for own in runs))
    while names:
        worse = {name for name in ORDER if _gets_worse(runs, names, name)}
        if not worse:
            return names
        # Times of a factor that is not fitted may suffer from one that is: then none is.
        names = names - worse if worse & names else frozenset()
    return names


def _gets_worse(runs: Sequence[Observation], names: Collection[str], name: str) -> bool:
    errors = _errors(runs, names, lambda own: own.terms_of(name))
    return errors is not None and errors.after.median > errors.before.median


def _errors(
    runs: Sequence[Observation],
    names: Collection[str],
    terms_of: Callable[[Observation], list[Term]],
) -> Errors | None:
    """Errors of these times of each run: with built-in factors, and with those fitted to the other
    runs that have such times, or to itself where there are no others."""
    telling = [own for own in runs if terms_of(own)]
    if not telling:
        return None
    is_left_out = len(telling) > 1
    before, after = [], []
    for own in telling:
        others = [other for other in runs if other is not own] if is_left_out else runs
        factors = {**own.built_in, **_factors(others, names)}
        before.append([term.error(own.built_in) for term in terms_of(own)])
        after.append([term.error(factors) for term in terms_of(own)])
    return Errors(
        before=ErrorPair.of(before),
        after=ErrorPair.of(after),
        samples=sum(map(len, before)),
        runs=len(telling),
        basis="left_out" if is_left_out else "in_sample",
    )


def _terms_of_group(own: Observation, group: str) -> list[Term]:
    return [term for term in own.terms if GROUP_OF[term.quantity] == group]


def _described(
    runs: Sequence[Observation], name: str, factors: Factors, fitted: Collection[str]
) -> FittedFactor:
    own = _of_runs(runs, name, factors)
    samples = sum(len(run.terms_of(name)) for run in runs)
    built_in = runs[0].built_in[name]
    if not own:
        return FittedFactor(built_in, built_in, False, 0, 0, None, 0.0, "no run tells of it")
    spread = deviation(own, median(own)) / median(own) if len(own) > 1 else None
    if name not in fitted:
        reason = "a fit predicts runs worse than the built-in factor"
        return FittedFactor(built_in, built_in, False, len(own), samples, spread, 0.0, reason)
    return FittedFactor(
        value=factors[name],
        built_in=built_in,
        is_fitted=True,
        runs=len(own),
        samples=samples,
        spread=spread,
        confidence=_confidence(spread, len(own)),
        reason="the median over runs of the median of each",
    )


def _confidence(spread: float | None, runs: int) -> float:
    """The chance that the factor is within `SURE_WITHIN` (normal distribution of medians)."""
    error = ERROR_OF_MEDIAN * max(spread or 0.0, USUAL_SPREAD) / sqrt(runs)
    return erf(SURE_WITHIN / (error * sqrt(2)))


def _margin(runs: Sequence[Observation]) -> FittedMargin:
    telling = [own for own in runs if own.peaks]
    if not telling:
        return FittedMargin(1.0, 0, 0, None, None, None, "no run reports its peak memory")
    value = _margin_of(telling)
    errors, short, short_after = [], [], []
    for own in telling:
        others = [other for other in telling if other is not own] or telling
        margin = _margin_of(others)
        errors.append([abs(1 / peak.ratio - 1) for peak in own.peaks])
        short.append([max(0.0, 1 - 1 / peak.ratio) for peak in own.peaks])
        short_after.append([max(0.0, 1 - margin / peak.ratio) for peak in own.peaks])
    return FittedMargin(
        value=value,
        runs=len(telling),
        samples=sum(len(own.peaks) for own in telling),
        error=ErrorPair.of(errors),
        short=ErrorPair.of(short),
        short_after=ErrorPair.of(short_after),
        reason=f"the {UPPER_QUANTILE:.0%} quantile over runs of the worst device of each"
        if value > 1
        else "no run's peak is above the predicted one, but for odd ones",
    )


def _margin_of(runs: Sequence[Observation]) -> float:
    worst = sorted(max(peak.ratio for peak in own.peaks) for own in runs)
    if len(worst) >= FEWEST_FOR_OUTLIERS:
        middle = median(worst)
        reach = OUTLIER_DEVIATIONS * max(deviation(worst, middle), USUAL_SPREAD / 5 * middle)
        worst = [ratio for ratio in worst if abs(ratio - middle) <= reach]
    return min(MOST_MARGIN, max(1.0, _quantile(worst, UPPER_QUANTILE)))


def _quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values, linear between neighbours."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])
