"""A training plan in the terminal: the ranking and why, what was dropped, and the best plan."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.console import Console

from client import render, sharding
from client.figures import milliseconds, percent, size
from client.memory_table import rank_memory_table
from client.printing import print_lines, print_table, print_title
from client.tables import Row
from client.training_tables import front_table, plan_table

MOST_POINTS, MOST_DROPPED, MOST_EXPERT_LAYERS = 20, 5, 4


def render_training(console: Console, result: Row) -> None:
    """Print a whole result document: the plans and what the best one comes to, or why none fits."""
    if "infeasibility" in result:
        _render_infeasibility(console, result["infeasibility"])
        _render_searched(console, result)
        return
    plans, best = result["plans"], result["best"]
    chosen = plans[best["rank"] - 1]
    print_title(console, _title(chosen, best))
    print_lines(console, [_rates_line(chosen, best)])
    console.print()
    print_table(console, plan_table(plans, best["rank"], console.width))
    for plan in plans:
        _render_reasons(console, plan, is_best=plan["rank"] == best["rank"])
    console.print()
    _render_searched(console, result)
    if result.get("pareto"):
        console.print()
        _render_front(console, result["pareto"])
    console.print()
    _render_best(console, chosen, best)
    print_lines(console, certificate_lines(result["certificate"]))
    scope = (f"Scope: {remark}." for remark in result["certificate"]["scope"])
    print_lines(console, scope, style="dim")
    print_lines(console, _closing_lines(result), style="dim")


def certificate_lines(certificate: Row) -> list[str]:
    """What is proven about the best plan, as sentences."""
    value, bound = milliseconds(certificate["value_ns"]), certificate["lower_bound_ns"]
    lines = [
        f"Verified by {certificate['verifier']}." if certificate["verified"] else "NOT verified."
    ]
    if certificate["proven_optimal"]:
        lines.append(f"Proven optimal: no configuration has a step below {value} ms.")
    elif bound is None:
        lines.append(f"The step takes {value} ms; nothing is proven about how good that is.")
    else:
        lines.append(
            f"No configuration has a step below {milliseconds(bound)} ms (bound: "
            f"{certificate['bound_name']}); the best found takes {value} ms: gap "
            f"{percent(certificate['gap'], 2)}."
        )
    return lines


def _title(plan: Row, best: Row) -> str:
    step = milliseconds(best["step_time_ns"])
    degrees = ", ".join(
        f"{name} {plan[key]}"
        for name, key in (
            ("tensor", "tensor_parallel"),
            ("pipeline", "pipeline_parallel"),
            ("data", "data_parallel"),
            ("context", "context_parallel"),
            ("expert", "expert_parallel"),
        )
        if plan[key] > 1
    )
    return f"Training plan: {degrees or 'one GPU'} on {plan['devices']} GPUs, {step} ms a step"


def _rates_line(plan: Row, best: Row) -> str:
    """By the step of the best plan as it was found; a plan's own rates are by its prediction."""
    faster = plan["step_time_ns"] / best["step_time_ns"]
    return (
        f"{faster * plan['tokens_per_s']:,.0f} tokens/s and {faster * plan['samples_per_s']:,.2f} "
        f"samples/s; MFU {percent(faster * plan['mfu'])}. Predicted: "
        f"{milliseconds(plan['step_time_ns'])} ms"
    )


def _render_reasons(console: Console, plan: Row, *, is_best: bool) -> None:
    """All of them for the best plan, why it is where it is for the others."""
    reasons = plan["reasons"] if is_best else plan["reasons"][:1]
    print_lines(console, [f"Plan {plan['rank']}: {reasons[0]}"], style="" if is_best else "dim")
    print_lines(console, reasons[1:], indent=2)


def _render_searched(console: Console, result: Row) -> None:
    searched = result["searched"]
    whole = "" if searched["complete"] else "; the search was stopped before all were reached"
    print_lines(
        console,
        [
            f"Searched: {searched['enumerated']:,} configurations, {searched['worked_out']:,} "
            f"worked out, {searched['fits']:,} of these fit{whole}."
        ],
    )
    counts = {**searched["dropped"], **searched["left_out"]}
    rules = (f"{count:,}: {searched['rules'][rule]}" for rule, count in counts.items())
    print_lines(console, rules, style="dim", indent=2)
    print_lines(console, _dropped_lines(result["dropped"][:MOST_DROPPED]), style="dim", indent=2)


def _dropped_lines(dropped: list[Row]) -> Iterator[str]:
    for example in dropped:
        if "detail" in example:
            name = example.get("configuration") or json.dumps(example["training"])
            yield f"For example {name}: {example['detail']}"


def _render_front(console: Console, points: list[Row]) -> None:
    print_title(console, "Throughput against headroom and number of GPUs")
    print_table(console, front_table(points[:MOST_POINTS], console.width))
    if len(points) > MOST_POINTS:
        further = len(points) - MOST_POINTS
        print_lines(console, [f"and {further} more points, all of them in the result"], style="dim")


def _render_best(console: Console, plan: Row, best: Row) -> None:
    print_title(console, f"Plan {plan['rank']}, the best")
    print_table(console, rank_memory_table(plan["memory_per_rank"], console.width))
    print_lines(console, _best_lines(plan, best))
    print_lines(console, ["To post it again, as `training`:", json.dumps(best["training"])])


def _best_lines(plan: Row, best: Row) -> Iterator[str]:
    layers = plan["layers_per_stage"]
    yield (
        f"Layers per stage: {layers[0]} on each of {len(layers)}."
        if len(set(layers)) == 1
        else f"Layers per stage: {', '.join(map(str, layers))}."
    )
    if best["schedule"] is not None:
        summary = best["schedule"]["schedule"]
        peak = size(max(summary["peak_memory_bytes"], default=None))
        yield (
            f"Schedule: {milliseconds(summary['makespan_ns'])} ms, at most {peak} of activations "
            "on a device. "
            + " ".join(render.certificate_lines(best["schedule"]["certificate"])[:2])
        )
    if best["sharding"] is not None:
        yield _sharding_line(best["sharding"])
    if best["experts"] is not None:
        yield from _expert_lines(best["experts"])
    yield from (f"No {what}: {why}" for what, why in best["left_out"].items())


def _sharding_line(result: Row) -> str:
    if "infeasibility" in result:
        return f"Sharding: {sharding.infeasibility_lines(result['infeasibility'])[0]}"
    held = size(result["plan"]["memory_bytes"])
    proof = sharding.certificate_lines(result["certificate"])[1]
    return f"Sharding of one layer over its tensor group: {held} on a device. {proof}"


def _expert_lines(experts: Row) -> Iterator[str]:
    proof = "proven" if experts["status"] == "optimal" else f"gap {percent(experts['gap'], 2)}"
    yield (
        f"Experts over {experts['expert_parallel']} ranks: the busiest has "
        f"{experts['load_factor']:.3f} times the mean load ({proof}), in their own order "
        f"{experts['default']['load_factor']:.3f} times."
    )
    for part in experts["layers"][:MOST_EXPERT_LAYERS]:
        numbers = part["layers"]
        name = f"layer {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} layers"
        ranks = "; ".join(", ".join(map(str, own)) for own in part["experts_of_device"])
        yield f"  {name}: {ranks}"
    if len(experts["layers"]) > MOST_EXPERT_LAYERS:
        yield "  and other layers otherwise, all of them in the result"


def _closing_lines(result: Row) -> Iterator[str]:
    seconds = result["provenance"].get("solve_seconds")
    if seconds is not None:
        yield f"Found in {seconds:.1f} s."
    yield f"{len(result['assumptions'])} assumptions, all of them in the result."
    yield from (f"Warning: {warning}" for warning in result["warnings"])


def _render_infeasibility(console: Console, infeasibility: Row) -> None:
    """The least that any configuration needs, what of, and the ways out."""
    print_title(console, "Infeasible: no configuration fits")
    parts = ", ".join(
        f"{part['what']} {size(part['bytes'])}" for part in infeasibility["parts"] if part["bytes"]
    )
    fewest = infeasibility["smallest_gpus"]
    lines = [infeasibility["summary"], f"Its parts: {parts}."]
    if infeasibility["offload"] is not None:
        lines.append(infeasibility["offload"])
    lines.append(
        f"Nor does anything fit on up to {infeasibility['gpus_searched']} GPUs of this kind."
        if fewest is None
        else f"The fewest GPUs of this kind that would do, by doubling the nodes: {fewest}."
    )
    print_lines(console, lines)
    if infeasibility["remedies"]:
        print_lines(console, ["What would help:"])
        remedies = [
            f"{remedy['remedy'].replace('_', ' ')}: {'yes' if remedy['fits'] else 'no'}. "
            f"{remedy['detail']}"
            for remedy in infeasibility["remedies"]
        ]
        print_lines(console, remedies, indent=2)
    console.print()
