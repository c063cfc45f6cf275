"""The sharding benchmark: plans against others' choices, and solve times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.sharding.__main__ import MODELS, SETTINGS, Bench, request
from benchmarks.sharding.report import (
    PUBLISHED_RATIOS,
    others_table,
    ratios_table,
    record_of,
    settings_table,
    times_table,
)
from benchmarks.sharding.rows import MemoryRow
from benchmarks.verified import wrong_in_plan

MIB = 2**20


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def bert(bench: Bench) -> Sequence[MemoryRow]:
    """BERT-Large with communication nearly free and dear."""
    return list(bench.memory(["BERT-Large"], [0.01, 1.0]))


def test_a_layer_of_bert_against_megatron(bench: Bench, bert: Sequence[MemoryRow]) -> None:
    nearly_free, dear = bert
    parameters = 12 * 1024**2 + 13 * 1024
    # Adam with fp32 master weights, bf16 parameters and fp32 gradients: 18 bytes a parameter, and
    # on each of 4 tensor-parallel devices at least a quarter of them.
    assert dear.megatron.memory_bytes > parameters * 18 // 4
    assert dear.megatron.throughput == 1.0
    assert nearly_free.plan.redundant_bytes < dear.plan.redundant_bytes
    assert nearly_free.plan.sent_bytes > dear.plan.sent_bytes
    assert dear.baselines["Alpa"].sent_bytes <= dear.plan.sent_bytes
    for row in bert:
        others = [row.plan, row.megatron, row.baselines["Alpa"], row.baselines["data parallel"]]
        assert row.least_bytes <= min(held.memory_bytes for held in others)
    assert not bench.complaints


def test_the_published_ratio_stands_beside_ours(bert: Sequence[MemoryRow]) -> None:
    table = ratios_table(bert)
    published = table.columns.index("published")
    assert [cells[published] for cells in table.rows] == ["0.68", "0.68"]
    assert set(MODELS) == set(PUBLISHED_RATIOS)
    dear = table.rows[1]
    assert dear[2] == f"{bert[1].plan.memory_bytes / MIB:.1f}"
    assert dear[4] == f"{bert[1].plan.memory_bytes / bert[1].megatron.memory_bytes:.2f}"


def test_every_choice_is_shown_for_the_shown_alpha_only(bert: Sequence[MemoryRow]) -> None:
    table = others_table(bert)
    chosen = {cells[1]: cells for cells in table.rows}
    assert list(chosen) == [
        "ours",
        "Megatron-LM",
        "Alpa",
        "Colossal-Auto",
        "data parallel",
        "fully sharded data parallel",
    ]
    assert len(table.rows) == len(chosen)
    assert chosen["Alpa"][4] == "0.72"
    assert chosen["data parallel"][4] == "–"
    # Fully sharded, nothing is held twice.
    assert chosen["fully sharded data parallel"][6] == "0.0"


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_changes_the_request(name: str) -> None:
    plain, changed = request("GPT-1.7B", 1, 4, 8), request("GPT-1.7B", 1, 4, 8, SETTINGS[name])
    assert (changed == plain) == (name == "as above")
    assert changed["transformer"]["preset"] == "GPT-1.7B"
    assert changed["devices"] == 4


def test_settings_are_compared_by_model(bench: Bench, bert: Sequence[MemoryRow]) -> None:
    flash = list(bench.memory(["BERT-Large"], [1.0], SETTINGS["flash attention"]))
    table = settings_table({"as above": bert[1:], "flash attention": flash})
    assert table.columns == ("setting", "BERT-Large")
    assert [cells[0] for cells in table.rows] == ["as above", "flash attention"]
    assert flash[0].plan.memory_bytes < bert[1].plan.memory_bytes
    assert not bench.complaints


def test_solve_times_with_published_ones_where_there_are_any(bench: Bench) -> None:
    rows = list(bench.times([2, 16], 2, written_out=2))
    table = times_table(rows)
    assert len(table.rows) == 2 * 4 + 2
    assert {cells[7] for cells in table.rows if cells[:2] == ["1", "2"]} == {"0.02"}
    assert {cells[7] for cells in table.rows if cells[:2] == ["1", "16"]} == {"–"}
    reduced = [row for row in rows if row.devices == 16 and row.reductions]
    whole = [row for row in rows if row.devices == 16 and not row.reductions]
    assert max(row.size["columns"] for row in reduced) < min(row.size["columns"] for row in whole)
    assert all(row.seconds[0] <= row.median_s <= row.seconds[-1] for row in rows)
    assert not bench.complaints


def test_the_record_has_a_cell_for_every_column(bert: Sequence[MemoryRow]) -> None:
    record = record_of(bert, {"as above": bert[1:]}, [], {})
    for table in record.tables:
        assert all(len(cells) == len(table.columns) for cells in table.rows)
    figures = {figure.name: figure.value for figure in record.figures}
    assert figures["memory ratio, BERT-Large, alpha 1"] == bert[1].memory_ratio


def test_what_cannot_be_solved_is_a_complaint() -> None:
    bench = Bench()
    body = request("BERT-Large", 1, 4, 8) | {"device_memory_bytes": 1}
    assert bench.solve(body) is None
    assert bench.complaints[0].endswith(": infeasible")


def test_a_plan_that_the_verifier_refuses_is_found(bench: Bench) -> None:
    answer: Any = bench.solve(request("BERT-Large", 1, 2, 8))
    plan = answer["plan"]
    assert wrong_in_plan(answer["instance"], plan) is None
    wrong = {**plan, "memory_bytes": plan["memory_bytes"] - 1}
    assert "memory" in (wrong_in_plan(answer["instance"], wrong) or "")
