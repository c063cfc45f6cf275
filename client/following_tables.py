"""What `loadmaster runs` shows: tables of runs, versions and stages, and lines of advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from client.figures import milliseconds, percent, size
from client.printing import print_lines, print_table, print_title
from client.tables import Column, Row, plain_table, texts

TIMES = {
    "F ms": "forward_ns",
    "B ms": "backward_input_ns",
    "W ms": "backward_weight_ns",
    "O ms": "offload_ns",
    "R ms": "reload_ns",
}
EVENTS_SHOWN = 10


def run_table(runs: Sequence[Row], width: int) -> Table:
    """The runs in `width` columns."""
    return plain_table(
        [
            Column("Run", texts(run["id"] for run in runs)),
            Column("State", texts(run["state"] for run in runs)),
            Column("Iteration", texts(_number(run["newest_iteration"]) for run in runs), True),
            Column("Running", texts(_number(run["running_version"]) for run in runs), True),
            Column("Predicted", texts(_gain(run["predicted_gain"]) for run in runs), True),
            Column("Measured", texts(_gain(run["measured_gain"]) for run in runs), True),
            Column("Newest", texts(map(_newest, runs))),
            Column("Name", texts(run["name"] or "" for run in runs)),
        ],
        width,
        ["Name", "Newest", "Predicted"],
    )


def print_run(console: Console, run: Row) -> None:
    """A run: in a line, its versions, its stages, and what has happened last."""
    name = f" ({run['name']})" if run["name"] else ""
    print_title(console, f"run {run['id']}{name}: {run['state']}")
    print_lines(console, _standing(run))
    if run["versions"]:
        console.print()
        print_table(console, version_table(run["versions"], console.width))
    if run["stages"]:
        console.print()
        print_table(console, stage_table(run["stages"], console.width))
        print_lines(console, _drifts(run["stages"]))
    if run["events"]:
        console.print()
        print_lines(console, event_lines(reversed(run["events"][:EVENTS_SHOWN])))


def version_table(versions: Sequence[Row], width: int) -> Table:
    """The versions of a run's plan, the oldest first. Gains are shares of the iteration."""
    ordered = sorted(versions, key=lambda version: int(version["version"]))
    return plain_table(
        [
            Column("Version", texts(str(own["version"]) for own in ordered), True),
            Column("State", texts(map(_state, ordered))),
            Column("From", texts(_number(own["apply_at_iteration"]) for own in ordered), True),
            Column("Ranks", texts(f"{own['acknowledged']}/{own['of']}" for own in ordered), True),
            Column("ms", texts(milliseconds(own["makespan_ns"]) for own in ordered), True),
            Column("Predicted", texts(_gain(own["predicted_gain"]) for own in ordered), True),
            Column("Measured", texts(_gain(own["measured_gain"]) for own in ordered), True),
            Column("Reason", texts(map(_reason, ordered))),
        ],
        width,
        ["Reason", "ms", "Ranks"],
    )


def stage_table(stages: Sequence[Row], width: int) -> Table:
    """What a micro-batch takes on each stage, as measured; quantities that nobody reports are left
    out."""
    columns = [Column("Stage", texts(str(stage["stage"]) for stage in stages), True)]
    for heading, name in TIMES.items():
        estimates = [stage["quantities"].get(name) for stage in stages]
        if any(estimates):
            columns.append(Column(heading, texts(map(_time, estimates)), True))
    peaks = [stage["quantities"].get("peak_memory_bytes") for stage in stages]
    if any(peaks):
        cells = texts("–" if peak is None else size(peak["value"]) for peak in peaks)
        columns.append(Column("Peak", cells, True))
    columns.append(Column("Samples", texts(map(_samples, stages)), True))
    return plain_table(columns, width, ["Samples", "Peak"])


def event_lines(events: Iterable[Row]) -> Iterator[str]:
    """What happened, an event a line."""
    for event in events:
        where = "" if event["iteration"] is None else f"iteration {event['iteration']}: "
        yield f"{event['at'][:19].replace('T', ' ')}  {where}{event['kind']}: {event['detail']}"


def plan_lines(plan: Row) -> Iterator[str]:
    """How a plan of a run stands."""
    applies = plan["apply_at_iteration"]
    yield (
        f"version {plan['version']}: {_state(plan)}"
        + ("" if applies is None else f", from iteration {applies} on")
    )
    yield f"made for: {_reason(plan)}"
    if plan["makespan_ns"] is not None:
        yield f"iteration: {milliseconds(plan['makespan_ns'])} ms"
    for words, name in (("predicted", "predicted_gain"), ("measured", "measured_gain")):
        if plan[name] is not None:
            yield f"{words} gain: {_gain(plan[name])}"
    if plan["needs_restart"]:
        yield "It is for another shape: ranks get it when they restart."


def proposal_lines(answer: Row) -> Iterator[str]:
    """Other shapes, the best first."""
    yield (
        f"The slowest stage takes {answer['imbalance']:.2f} times as long as the fastest; from "
        f"{answer['threshold']:.2f} on other shapes are looked at."
    )
    for own in answer["proposals"]:
        yield f"{own['kind']}: {_gain(own['predicted_gain'])}. {own.get('reason') or ''}".rstrip()
        yield from _baseline(own.get("baseline"))
        yield from (f"  {note}" for note in own.get("notes") or ())
    if not answer["proposals"]:
        yield "Nothing to propose."
    yield from answer.get("notes") or ()


def _baseline(rule: Row | None) -> Iterator[str]:
    """What the rule of thumb makes of the run, beside a proposal."""
    if rule is not None:
        predicted = rule["predicted_ns"]
        timed = rule["reason"] if predicted is None else f"{milliseconds(predicted)} ms"
        yield f"  {rule['rule']}: {rule['micro_batches']}, {timed}"


def diagnosis_lines(answer: Row) -> Iterator[str]:
    """Causes that the numbers support or allow, each with how to check it and what would help."""
    symptoms = [_words(own["symptom"]) for own in answer["symptoms"]]
    yield f"symptoms: {', '.join(symptoms) or 'none'}"
    for cause in answer["causes"]:
        if cause["state"] == "ruled_out":
            continue
        yield f"{_words(cause['cause'])} ({_words(cause['state'])}): {cause['summary']}"
        for check in cause["checks"]:
            yield f"  check: {check['command']}  ({check['look_for']})"
        for remedy in cause["remedies"]:
            yield f"  remedy: {remedy['detail']}{_effect(remedy['predicted_effect'])}"
    yield from (f"warning: {warning}" for warning in answer["warnings"])


def _standing(run: Row) -> Iterator[str]:
    yield f"iteration {_number(run['newest_iteration'])}, {run['ranks']} ranks"
    solve = run["re_solve"]
    if solve is not None:
        since = solve["since_iteration"]
        yield (
            f"a new plan is looked for since iteration {since} ({_words(solve['reason'])}): "
            f"job {solve['job_id']}, {solve['state']}"
        )


def _drifts(stages: Sequence[Row]) -> Iterator[str]:
    for stage in stages:
        for name, estimate in stage["quantities"].items():
            drift = estimate["drift"]
            if drift is not None and drift["before"]:
                change = drift["after"] / drift["before"] - 1
                yield (
                    f"stage {stage['stage']}: {name} {change:+.1%} since iteration {drift['since']}"
                )


def _newest(run: Row) -> str:
    version = run["newest_version"]
    return "–" if version is None else f"{version} {_words(run['newest_state'] or '')}".rstrip()


def _state(version: Row) -> str:
    return _words(version["state"])


def _reason(version: Row) -> str:
    copy_of = version.get("copy_of")
    return _words(version["reason"]) + ("" if copy_of is None else f" to version {copy_of}")


def _time(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "–"
    noise = "" if estimate["noise"] is None else f" ± {percent(estimate['noise'])}"
    return milliseconds(round(estimate["value"])) + noise


def _samples(stage: Row) -> str:
    return str(max((own["samples"] for own in stage["quantities"].values()), default=0))


def _effect(effect: Mapping[str, Any] | None) -> str:
    if effect is None or effect["change"] is None:
        return ""
    return f" ({effect['quantity']} {effect['change']:+.1%})"


def _gain(gain: float | None) -> str:
    return "–" if gain is None else f"{100 * gain:+.1f} %"


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")
