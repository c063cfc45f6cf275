"""`loadmaster estimate` shows what the estimates answer, and says what to be wary of."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from client import cli, estimating
from client.configuration import FURTHER_KEYS
from client.estimates.checkpoints import duration
from client.estimating import RENDERERS, body_of, render_estimates
from client.library.service import Service
from client.memory_table import merged_ranks
from planner.estimates.registry import ESTIMATES, REQUESTS
from planner.estimates.request import EstimateRequest
from tests.unit.client.fake_service import FakeService, problem
from tests.unit.client.screen import line_with

Run = Callable[..., Result]

LLAMA: dict[str, Any] = {
    "model": "Llama-3-70B",
    "cluster": "8x8xH100",
    "training": {
        "micro_batches": 16,
        "tensor_parallel": 8,
        "pipeline_parallel": 4,
        "data_parallel": 2,
    },
}
TOO_LARGE: dict[str, Any] = {
    "model": "Llama-3-70B",
    "cluster": "8xA100-40GB",
    "training": {"micro_batches": 16, "tensor_parallel": 4, "pipeline_parallel": 2},
}
RECOMPUTED: dict[str, Any] = {
    "model": "GPT-14.2B",
    "cluster": "8xA100-40GB",
    "training": {
        "micro_batch_size": 4,
        "micro_batches": 16,
        "pipeline_parallel": 8,
        "flash_attention": False,
    },
    "most_overhead": 0.1,
}
EXPERTS: dict[str, Any] = {
    "model": "Mixtral-8x7B",
    "cluster": {"gpu": "H100-80GB", "nodes": 8, "gpus_per_node": 8, "nodes_per_rack": 4},
    "training": {
        "micro_batches": 16,
        "tensor_parallel": 4,
        "pipeline_parallel": 4,
        "data_parallel": 4,
        "expert_parallel": 4,
        "zero_stage": 1,
    },
    "in_network_reduction": True,
    "chunk_bytes": 1_000_000,
}
SMALL: dict[str, Any] = {
    "model": "GPT-2",
    "cluster": "1xA100-40GB",
    "training": {"micro_batches": 4},
}
FAILING: dict[str, Any] = {
    **LLAMA,
    "failures_per_day": 6,
    "preemption_notice_s": 30,
    "storage_bytes_per_s": 5e10,
}
BODIES = {
    "llama": LLAMA,
    "too large": TOO_LARGE,
    "recomputed": RECOMPUTED,
    "experts": EXPERTS,
    "small": SMALL,
    "failing": FAILING,
}


@cache
def answer_text(name: str, body_text: str) -> str:
    return json.dumps(ESTIMATES[name](json.loads(body_text)))


def answer_of(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """An answer as the service sends it."""
    answer: dict[str, Any] = json.loads(answer_text(name, json.dumps(body_of(name, body))))
    return answer


def shown(name: str, body: dict[str, Any], width: int = 120, *, assumptions: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_estimates(console, {name: answer_of(name, body)}, with_assumptions=assumptions)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_client_knows_every_estimate_and_its_own_keys() -> None:
    assert list(RENDERERS) == list(FURTHER_KEYS) == list(ESTIMATES) == list(REQUESTS)
    shared = set(EstimateRequest.model_fields)
    for name, request in REQUESTS.items():
        assert set(FURTHER_KEYS[name]) == set(request.model_fields) - shared


@pytest.mark.parametrize("name", ESTIMATES)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_answer_can_be_shown_in_any_terminal(name: str, body: str, width: int) -> None:
    output = shown(name, BODIES[body], width)
    assert output.splitlines()[0].strip()
    words = " ".join(output.split())
    for warning in answer_of(name, BODIES[body])["warnings"]:
        assert f"Warning: {warning}" in words


def test_memory_names_the_parts_of_each_rank() -> None:
    answer, output = answer_of("memory", LLAMA), shown("memory", LLAMA, 160)
    first = answer["per_rank"][0]
    assert output.startswith("Memory: fits, ")
    assert "70,553,706,496 parameters; 18 bytes of each" in output
    row = line_with("   0  ", output).split()
    for part in ("parameters_bytes", "optimizer_bytes", "total_bytes", "headroom_bytes"):
        assert f"{first[part] / 2**30:.3f}" in row
    assert row[-1] == "yes"
    assert "What would make it fit" not in output


def test_memory_says_who_lacks_how_much_and_what_would_help() -> None:
    answer, output = answer_of("memory", TOO_LARGE), shown("memory", TOO_LARGE, 200)
    assert output.startswith("Memory: OOM, a GPU of rank 0 lacks ")
    assert "OOM" in line_with("   1  ", output)
    assert "  zero stage: no. Nothing is left to change." in output
    assert "  offload: cannot be told from here. " in output
    fewest = answer["what_would_fit"]["least_gpus"]["gpus"]
    assert f"The fewest GPUs that would do: {fewest} (tensor parallel " in output
    assert "With full recomputation it fits." in shown("memory", RECOMPUTED, 200)


def test_memory_without_any_way_out_says_why() -> None:
    answer = answer_of("memory", TOO_LARGE)
    reason = "Even one layer takes more than a GPU has."
    answer["what_would_fit"]["least_gpus"] = {"gpus": None, "reason": reason}
    answer["what_would_fit"]["least_on_this_cluster"] = None
    console = Console(file=io.StringIO(), width=200)
    RENDERERS["memory"](console, answer)
    assert isinstance(console.file, io.StringIO)
    assert f"No number of GPUs would do. {reason}" in console.file.getvalue()


def test_ranks_that_are_alike_are_one_row() -> None:
    rows = [{"rank": rank, "size": size} for rank, size in enumerate((3, 2, 2, 2, 3))]
    assert [name for name, _ in merged_ranks(rows, ("size",))] == ["0", "1-3", "4"]


def test_step_time_has_rates_and_parts() -> None:
    answer, output = answer_of("step-time", LLAMA), shown("step-time", LLAMA)
    assert output.startswith(f"Step time: {answer['step_time_ns'] / 1e6:.3f} ms\n")
    assert f"{answer['tokens_per_s']:,.0f} tokens/s" in output
    assert f"MFU {100 * answer['mfu']:.1f} %" in output
    largest = answer["breakdown"][0]
    assert f"{largest['ns'] / 1e6:.3f}" in line_with(largest["what"].replace("_", " "), output)


def test_recomputation_says_what_costs_least_and_how_to_ask_for_it() -> None:
    output = shown("recomputation", RECOMPUTED, 160)
    assert output.startswith("Recomputation: all layers, ")
    assert "is the fastest that fits" in output
    assert "rule of thumb" in output
    assert "--recompute-granularity full" in output
    assert "Rule of thumb: K = sqrt" in output
    assert shown("recomputation", LLAMA).startswith("Recomputation: none is needed\n")
    assert shown("recomputation", TOO_LARGE).startswith("Recomputation: no choice fits\n")


def test_scaling_has_a_table_per_kind_or_for_the_one_asked_for() -> None:
    output = shown("scaling", EXPERTS)
    assert output.count("Most tokens/s at degree") == 4
    assert "Rule of thumb T_comp / (T_comm x 0.6 to 0.8): " in output
    refused = answer_of("scaling", EXPERTS)["kinds"]["data"]["strong_scaling"]["refused"]
    degrees = ", ".join(str(entry["degree"]) for entry in refused)
    assert f"Degrees that do not suit the training: {degrees}. --json" in output
    only = shown("scaling", {**LLAMA, "kind": "tensor"})
    assert only.count("Most tokens/s at degree") == 1


def test_offload_has_chunks_compression_and_tiers() -> None:
    output = shown("offload", EXPERTS, 160)
    assert output.startswith("Offload: ")
    assert "chunk_bytes as asked" in output
    assert "changed" in line_with("fp8", output)
    assert "DRAM" in output
    assert "Published formula c = sqrt(B G T" in output


def test_communication_has_groups_order_and_one_environment() -> None:
    output = shown("communication", EXPERTS, 160)
    assert line_with("expert", output.partition("Algorithm")[2]).split()[1] == "4"
    assert "export NCCL_COLLNET_ENABLE=1" in output
    assert "Never set: NCCL_SHM_DISABLE" in output
    assert shown("communication", SMALL).startswith("Communication: none\n")


def test_checkpoints_have_plans_notice_and_the_order_of_a_restart() -> None:
    answer, output = answer_of("checkpoints", FAILING), shown("checkpoints", FAILING, 160)
    assert output.startswith("Checkpoints: a fast one every ")
    best = answer["recommended"]
    assert f"keep {100 * best['useful_share']:.2f} % of the time useful" in output
    assert "6 failures a day expected, one every 4 h." in output
    row = line_with("fast and full  default", output)
    assert f"{100 * answer['two_levels'][0]['useful_share']:.2f} %" in row
    assert "With 30 s of notice:" in output
    assert "fits, but goes with the node" in line_with("fast checkpoint:", output)
    assert "Then each replica in turn, its stages 3, 2, 1, 0." in output
    alone = shown("checkpoints", SMALL, 160)
    assert "notice" not in alone
    assert "Rolling restart: There is one replica" in alone


@pytest.mark.parametrize(
    ("value_ns", "words"),
    [
        (None, "–"),
        (0, "0 ms"),
        (1_500_000, "1.5 ms"),
        (59_000_000_000, "59 s"),
        (90_000_000_000, "1.5 min"),
        (5_400_000_000_000, "1.5 h"),
        (172_800_000_000_000, "2 d"),
        (172_800_000_000_000_000, "2,000 d"),
    ],
)
def test_durations_have_the_unit_that_suits_them(value_ns: int | None, words: str) -> None:
    assert duration(value_ns) == words


def test_assumptions_are_counted_or_shown_with_their_basis() -> None:
    notes = answer_of("memory", LLAMA)["assumptions"]
    assert f"{len(notes)} assumptions: --assumptions shows them." in shown("memory", LLAMA)
    output = " ".join(shown("memory", LLAMA, assumptions=True).split())
    assert f"{notes[0]['what']}: {notes[0]['value']}" in output


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()
    monkeypatch.setattr(
        estimating,
        "connect",
        lambda server: Service(server, transport=fake.transport),
    )
    monkeypatch.delenv("LOADMASTER_SERVER", raising=False)
    return fake


@pytest.fixture
def run(service: FakeService) -> Run:
    def invoke(*arguments: str | Path) -> Result:
        return CliRunner().invoke(cli.main, ["estimate", *map(str, arguments)])

    return invoke


def file_with(tmp_path: Path, content: dict[str, Any]) -> Path:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    return path


def test_memory_and_step_time_are_estimated_of_a_file_that_can_be_solved_too(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    for name in ("memory", "step-time"):
        service.on("POST", f"/v1/{name}-estimates", answer_of(name, LLAMA))
    further = {"name": "mine", "tags": ["x"], "solver": {"seed": 1}, "most_overhead": 0.1}
    sections = {"optimization": {"amp": True}}
    result = run(file_with(tmp_path, {**LLAMA, **further, **sections}))
    assert result.exit_code == 0, result.output
    expected = {**LLAMA, "training": {**LLAMA["training"], "precision": "bf16"}}
    assert [service.body(index) for index in range(2)] == [expected, expected]
    assert "Memory: fits" in result.stdout
    assert "Step time: " in result.stdout


def test_each_estimate_gets_its_own_keys(service: FakeService, run: Run, tmp_path: Path) -> None:
    names = ("recomputation", "communication")
    for name in names:
        service.on("POST", f"/v1/{name}-estimates", answer_of(name, LLAMA))
    further = {"most_overhead": 0.1, "in_network_reduction": True}
    file = file_with(tmp_path, {**LLAMA, **further})
    assert run(file, "--of", "recomputation, communication").exit_code == 0
    assert service.body(0) == {**LLAMA, "most_overhead": 0.1}
    assert service.body(1) == {**LLAMA, "in_network_reduction": True}


def test_answers_are_printed_and_stored_as_json(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    answer = answer_of("memory", LLAMA)
    service.on("POST", "/v1/memory-estimates", answer)
    output = tmp_path / "answer.json"
    result = run(file_with(tmp_path, LLAMA), "--of", "memory", "--json", "--output", output)
    assert json.loads(result.stdout) == {"memory": answer}
    assert json.loads(output.read_text()) == {"memory": answer}


def test_what_does_not_fit_has_the_exit_status_of_the_infeasible(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    service.on("POST", "/v1/memory-estimates", answer_of("memory", TOO_LARGE))
    result = run(file_with(tmp_path, TOO_LARGE), "--of", "memory")
    assert result.exit_code == 4
    assert "Memory: OOM" in result.stdout


def test_unknown_estimates_and_keys_are_refused(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    result = run(file_with(tmp_path, LLAMA), "--of", "memory,speed")
    assert result.exit_code == 2
    assert "'speed' is none of memory, step-time, recomputation" in " ".join(result.stderr.split())
    result = run(file_with(tmp_path, {**LLAMA, "modle": 1}))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: modle: is not a known key.")
    assert service.requests == []


def test_refusals_and_silence_are_one_line_on_stderr(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    refusal = problem(422, "invalid_request", "training.zero_stage", "is wrong.", "Give 1.")
    service.on("POST", "/v1/memory-estimates", refusal, status=422)
    result = run(file_with(tmp_path, LLAMA))
    assert result.exit_code == 1
    assert result.stderr == "error: training.zero_stage: is wrong. Give 1.\n"
    service.on("POST", "/v1/scaling-estimates", httpx.ConnectError("refused"))
    assert run(file_with(tmp_path, LLAMA), "--of", "scaling").exit_code == 3
