"""A sharding plan in the terminal: operators, baselines, certificate, and why nothing fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from client.figures import percent, size
from client.printing import print_lines
from client.sharding_tables import (
    baseline_table,
    is_applicable,
    is_from_layer_to_layer,
    operator_table,
    trade_off_table,
)

MOST_OPERATORS = 100
DIFFERENCES = {
    "redundant": "redundant_bytes_difference",
    "sent": "communication_bytes_difference",
    "resharded": "resharding_bytes_difference",
    "memory": "memory_bytes_difference",
}

Document = Mapping[str, Any]


def render_sharding(console: Console, result: Document) -> None:
    """Print a whole result document: the plan of each stage and its proof, or why there is none."""
    if "infeasibility" in result:
        print_lines(console, infeasibility_lines(result["infeasibility"]))
        return
    for number, stage in enumerate(result.get("stages", [])):
        _render_plan(console, stage, f"Stage {number} ({stage['layers']} layers): ")
        console.print()
    if "stages" in result:
        console.print(Text("All stages", style="bold"))
        print_lines(console, certificate_lines(result["certificate"]))
    else:
        _render_plan(console, result, "")
    print_lines(console, provenance_lines(result["provenance"]), style="dim")


def certificate_lines(certificate: Document) -> list[str]:
    """The certificate as sentences: verified by whom, how good, against which bound."""
    verifier = certificate.get("verifier")
    by = f" by {verifier}" if verifier else ""
    lines = [
        f"Verified{by}: one strategy for each operator, and every figure adds up."
        if certificate["verified"]
        else "NOT verified."
    ]
    value, bound = size(certificate["objective"]), certificate.get("lower_bound")
    if certificate["proven_optimal"]:
        lines.append(f"Proven optimal: no plan has an objective below {value}.")
    elif bound is None:
        lines.append(f"The objective is {value}; nothing is proven about how good that is.")
    else:
        gap = f": gap {percent(certificate['gap'], 2)}" if "gap" in certificate else ""
        lines.append(
            f"The best possible objective lies between {size(bound)} and the {value} found{gap}."
        )
    second_opinion = certificate.get("proof", {}).get("elimination")
    if second_opinion:
        lines.append(f"Second opinion, by elimination of operators: {second_opinion}.")
    return lines + [f"Scope: {remark}." for remark in certificate.get("scope", [])]


def explanation_line(explanation: Document) -> str:
    """Why a strategy is not in the plan, in a sentence."""
    reason = explanation["reason"][:1].upper() + explanation["reason"][1:]
    answer = f"Why not {explanation['strategy']} for {explanation['operator']}? {reason}"
    more = explanation.get("objective_difference")
    if not more:
        return f"{answer}."
    changes = ", ".join(
        f"{words} {'+' if explanation[key] > 0 else '-'}{size(abs(explanation[key]))}"
        for words, key in DIFFERENCES.items()
        if explanation[key]
    )
    return f"{answer}: {size(more)} ({changes})."


def infeasibility_lines(infeasibility: Document) -> list[str]:
    """No plan fits: the memory there is, the least that is needed, and the ways out."""
    limit, least = infeasibility["device_memory_bytes"], infeasibility["least_memory_bytes"]
    stage = infeasibility.get("stage")
    where = "" if stage is None else f" of stage {stage} ({infeasibility['layers']} layers)"
    lines = [
        f"Infeasible: no plan{where} fits into the {_exact(limit)} of a device.",
        f"The least that any plan keeps on a device: {_exact(least)}; "
        f"{infeasibility['culprit']} takes the largest part.",
    ]
    if least <= limit:
        lines.append("That would fit, but not what is needed for a moment on top of it.")
    if infeasibility.get("pins_are_the_reason"):
        with_pins = _exact(infeasibility["least_memory_with_pins_bytes"])
        lines.append(f"With the pinned and without the forbidden strategies: {with_pins}.")
    lines.append(_fewest_devices(infeasibility))
    if infeasibility["remedies"]:
        lines.append("What would help:")
        lines += [f"  {_remedy(remedy)}" for remedy in infeasibility["remedies"]]
    return lines


def _fewest_devices(infeasibility: Document) -> str:
    fewest = infeasibility["smallest_devices"]
    if fewest is None:
        return (
            "No larger number of devices is known to do, of those up to "
            f"{infeasibility['devices_searched']}; more were not tried."
        )
    # Answers of older planners do not say what is proven of fewer devices.
    if infeasibility.get("fewer_devices_ruled_out"):
        return (
            f"The fewest devices that do: {fewest}; on any number between those asked for and "
            "that, every plan keeps too much."
        )
    return f"The fewest devices that are known to do: {fewest}; fewer may, with other plans."


def provenance_lines(provenance: Document) -> list[str]:
    """How long the solve took, and what to know about its figures."""
    lines = []
    if "solve_seconds" in provenance:
        lines.append(
            f"Model built and solved in {provenance['solve_seconds']:.3f} s{_by(provenance)}."
        )
    settings = provenance.get("settings", {})
    if settings.get("gpu_is_assumed"):
        lines.append(f"Throughput is that of {settings['gpu']}, since only a count was given.")
    return [*lines, *(f"Warning: {warning}" for warning in provenance.get("warnings", []))]


def _by(provenance: Document) -> str:
    """The engine, if it had to run."""
    sizes = provenance.get("model", [])
    compared = sum(size.get("compared_plans", 0) for size in sizes)
    if any(size["engine_runs"] for size in sizes) or not sizes:
        return f" by {provenance['engine']}"
    if compared > len(sizes):
        return f", by comparing all {compared} plans that the reductions leave; no engine ran"
    return "; no engine had to run"


def _render_plan(console: Console, result: Document, name: str) -> None:
    plan = result["plan"]
    operators = plan["operators"]
    title = name + _title(result["instance"], plan)
    console.print(Text(title, style="bold"))
    shown = operators[:MOST_OPERATORS]
    console.print(operator_table(shown, plan["resharding"], console.width), crop=False)
    if len(operators) > MOST_OPERATORS:
        further = len(operators) - MOST_OPERATORS
        console.print(Text(f"and {further} more operators, all of them in the result", style="dim"))
    print_lines(console, _resharding_notes(plan["resharding"]), style="dim")
    console.print()
    baselines = result["baselines"]
    console.print(baseline_table(plan, baselines, console.width), crop=False)
    print_lines(console, _baseline_notes(baselines), style="dim")
    for heading, key in (
        ("Weights of communication", "sweep"),
        ("Redundancy against communication", "pareto"),
    ):
        if result.get(key):
            console.print()
            console.print(Text(heading, style="bold"))
            console.print(trade_off_table(result[key], plan, console.width), crop=False)
    console.print()
    print_lines(console, certificate_lines(result["certificate"]))
    print_lines(console, list(map(explanation_line, result.get("explanations", []))))


def _title(instance: Document, plan: Document) -> str:
    first = plan["operators"][0]
    devices = first["data"] * first["row"] * first["column"] * first["spare"]
    limit = plan["device_memory_bytes"]
    within = "" if limit is None else f", at most {size(limit)} on each"
    count = len(plan["operators"])
    return f"{count} operators on {devices} devices{within}, alpha {instance['alpha']:g}"


def _resharding_notes(resharding: Sequence[Document]) -> list[str]:
    """Where the tables count what is resharded."""
    notes = []
    if not all(map(is_from_layer_to_layer, resharding)):
        notes.append(
            "Sent: by an operator's own collectives. Resharded: to bring what an operator reads "
            "into its layout, counted at the operator that reads it, with the gradients' way back. "
            "The plans below count both as sent."
        )
    return notes + [
        f"Sent of {row['to']} has {size(row['bytes'])} in it that go from each layer to the next."
        for row in resharding
        if is_from_layer_to_layer(row)
    ]


def _baseline_notes(baselines: Sequence[Document]) -> list[str]:
    """Why some baselines have no row, what of the others is not modelled, and why some of them
    keep less."""
    notes = []
    for baseline in baselines:
        if not is_applicable(baseline):
            notes.append(f"{baseline['name']}: {baseline['reason']}")
            continue
        if baseline["not_modelled"]:
            notes.append(f"{baseline['name']}, not modelled: {baseline['not_modelled']}")
        if baseline.get("note"):
            notes.append(f"{baseline['name']} {baseline['note']}")
    return notes


def _remedy(remedy: Document) -> str:
    verdict = "fits" if remedy["fits"] else "does not fit"
    peak = remedy.get("predicted_peak_bytes")
    held = "" if peak is None else f", {size(peak)} at the peak"
    return f"{remedy['change']}: {size(remedy['memory_bytes'])} on a device{held}, {verdict}"


def _exact(size_bytes: int) -> str:
    return f"{size(size_bytes)} ({size_bytes} bytes)"
