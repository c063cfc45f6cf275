"""Each key of a configuration file sets its field, and none is read and ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.configuration import SECTIONS, duration_s, read_request, request_from, size_bytes
from client.errors import InputError

MODEL_BODY = {
    "model": "gpt2",
    "cluster": {"gpu": "H100", "gpus_per_node": 8},
    "training": {"micro_batches": 8},
}

EFFECTS = [
    ("scheduler", "milp_timeout", "120s", "solver", "time_limit_s", 120),
    ("scheduler", "milp_timeout", "1.5m", "solver", "time_limit_s", 90),
    ("scheduler", "milp_timeout", 30, "solver", "time_limit_s", 30),
    ("scheduler", "offload_strategy", "aggressive", "solver", "offload_strategy", "aggressive"),
    ("scheduler", "offload_strategy", "conservative", "solver", "offload_strategy", "conservative"),
    ("scheduler", "recompute", True, "training", "recomputation", "full"),
    ("scheduler", "recompute", False, "training", "recomputation", "none"),
    ("scheduler", "mipgap", 0.1, "solver", "mip_gap", 0.1),
    ("scheduler", "max_micro_batches", 16, "solver", "milp_window_micro_batches", 16),
    ("scheduler", "offload_threshold", 0.8, "solver", "offload_threshold", 0.8),
    ("scheduler", "adaoffload_warm_start", False, "solver", "adaoffload_warm_start", False),
    ("hardware", "pcie_topology", "full_mesh", "cluster", "pcie_topology", "full_mesh"),
    ("hardware", "pcie_topology", "switch", "cluster", "pcie_topology", "switch"),
    ("hardware", "gpu_mem", "80GB", "cluster", "gpu_memory_bytes", 80_000_000_000),
    ("hardware", "gpu_mem", "80GiB", "cluster", "gpu_memory_bytes", 80 * 2**30),
    ("parallelism", "tensor", 2, "training", "tensor_parallel", 2),
    ("parallelism", "pipeline", 4, "training", "pipeline_parallel", 4),
    ("parallelism", "data", 3, "training", "data_parallel", 3),
    ("optimization", "amp", True, "training", "precision", "bf16"),
    ("optimization", "amp", False, "training", "precision", "fp32"),
    ("optimization", "amp", "fp16", "training", "precision", "fp16"),
    ("optimization", "checkpoint", "selective", "training", "recomputation", "selective"),
    ("optimization", "checkpoint", True, "training", "recomputation", "full"),
    ("optimization", "batch", 256, "training", "global_batch_size", 256),
]


@pytest.mark.parametrize(("section", "key", "value", "part", "field", "expected"), EFFECTS)
def test_key_sets_its_field(
    section: str, key: str, value: Any, part: str, field: str, expected: Any
) -> None:
    body = request_from({**MODEL_BODY, section: {key: value}})
    assert body[part][field] == expected
    assert section not in body


def test_every_key_is_tried_above() -> None:
    assert {(section, key) for section, key, *_ in EFFECTS} == {
        (section, key) for section, keys in SECTIONS.items() for key in keys
    }


def test_fields_of_the_body_stay() -> None:
    body = request_from({**MODEL_BODY, "parallelism": {"tensor": 2}, "name": "a", "tags": ["b"]})
    assert body["training"] == {"micro_batches": 8, "tensor_parallel": 2}
    assert body["cluster"] == MODEL_BODY["cluster"]
    assert (body["name"], body["tags"]) == ("a", ["b"])
    assert MODEL_BODY["training"] == {"micro_batches": 8}


def test_bare_problem_is_posted_as_problem() -> None:
    problem = {"micro_batches": 1, "devices": [{}], "stages": [{"device": 0}]}
    assert request_from(problem) == {"problem": problem}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"modle": "gpt2"}, "modle"),
        ({"scheduler": {"milp_time": 3}}, "scheduler.milp_time"),
        ({"hardware": {"gpu": "H100"}}, "hardware.gpu"),
        ({"parallelism": {"expert": 2}}, "parallelism.expert"),
        ({"optimization": {"zero": 1}}, "optimization.zero"),
        ({"scheduler": 3}, "scheduler"),
        ({"scheduler": {"milp_timeout": "soon"}}, "scheduler.milp_timeout"),
        ({"scheduler": {"recompute": "yes"}}, "scheduler.recompute"),
        ({"scheduler": {"mipgap": True}}, "scheduler.mipgap"),
        ({"scheduler": {"offload_strategy": "bold"}}, "scheduler.offload_strategy"),
        ({"hardware": {"gpu_mem": 80}}, "hardware.gpu_mem"),
        ({"hardware": {"gpu_mem": "80 gallons"}}, "hardware.gpu_mem"),
        ({"parallelism": {"data": 0}}, "parallelism.data"),
        ({"optimization": {"amp": "int8"}}, "optimization.amp"),
        ({"optimization": {"checkpoint": "some"}}, "optimization.checkpoint"),
        ({"training": 3, "parallelism": {"data": 2}}, "training"),
        ({"cluster": "8xH100", "hardware": {"gpu_mem": "80GB"}}, "hardware.gpu_mem"),
    ],
)
def test_fault_is_named(document: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        request_from(document)
    assert caught.value.path == path
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "both"),
    [
        (
            {"scheduler": {"recompute": False}, "optimization": {"checkpoint": "full"}},
            ("optimization.checkpoint", "scheduler.recompute"),
        ),
        (
            {"solver": {"time_limit_s": 60}, "scheduler": {"milp_timeout": "120s"}},
            ("scheduler.milp_timeout", "solver.time_limit_s"),
        ),
        (
            {"training": {"precision": "fp16"}, "optimization": {"amp": True}},
            ("optimization.amp", "training.precision"),
        ),
    ],
)
def test_contradiction_is_an_error_that_names_both(
    document: dict[str, Any], both: tuple[str, str]
) -> None:
    with pytest.raises(InputError) as caught:
        request_from(document)
    assert all(name in str(caught.value) for name in both)


def test_two_keys_may_agree() -> None:
    document = {"scheduler": {"recompute": True}, "optimization": {"checkpoint": "full"}}
    assert request_from(document)["training"] == {"recomputation": "full"}


@pytest.mark.parametrize(
    "sections",
    [
        {"hardware": {"gpu_mem": "80GB"}},
        {"hardware": {"pcie_topology": "switch"}},
        {"scheduler": {"recompute": True}},
        {"parallelism": {"data": 2}},
        {"optimization": {"amp": True}},
    ],
)
def test_posted_problem_refuses_what_cannot_change_it(sections: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no effect on a posted problem"):
        request_from({"problem": {"micro_batches": 1}, **sections})


def test_posted_problem_takes_solver_keys() -> None:
    body = request_from({"problem": {"micro_batches": 1}, "scheduler": {"mipgap": 0.1}})
    assert body["solver"] == {"mip_gap": 0.1}


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("1h", 3600), ("2 min", 120)])
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("1KB", 1000), ("1.5GiB", 3 * 2**29), ("7 B", 7)])
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


def test_the_whole_configuration_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        """
        model: gpt2
        cluster: {gpu: H100, gpus_per_node: 8, inter_node_bytes_per_s: 5e10}
        scheduler:
          {milp_timeout: 120s, offload_strategy: aggressive, recompute: false, mipgap: 0.1,
           max_micro_batches: 16, offload_threshold: 0.8, adaoffload_warm_start: true}
        hardware: {pcie_topology: switch, gpu_mem: 80GB}
        parallelism: {tensor: 1, pipeline: 8, data: 1}
        optimization: {amp: true, checkpoint: none, batch: 32}
        """
    )
    assert read_request(path) == {
        "model": "gpt2",
        "cluster": {
            "gpu": "H100",
            "gpus_per_node": 8,
            "inter_node_bytes_per_s": 5e10,
            "pcie_topology": "switch",
            "gpu_memory_bytes": 80_000_000_000,
        },
        "training": {
            "recomputation": "none",
            "tensor_parallel": 1,
            "pipeline_parallel": 8,
            "data_parallel": 1,
            "precision": "bf16",
            "global_batch_size": 32,
        },
        "solver": {
            "time_limit_s": 120,
            "offload_strategy": "aggressive",
            "mip_gap": 0.1,
            "milp_window_micro_batches": 16,
            "offload_threshold": 0.8,
            "adaoffload_warm_start": True,
        },
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.yaml", "name: a\nname: b\n", "occurs twice in line 2"),
        ("a.json", '{"name": 1, "name": 2}', "occurs twice"),
        ("a.json", '{"name": NaN}', "NaN is not a number"),
        ("a.json", "{", "is not valid JSON"),
        ("a.yaml", "a: [", "is not valid YAML"),
        ("a.yaml", "- a\n", "holds no mapping"),
        ("a.yaml", "1: a\n", "is not text"),
        ("a.yaml", "a: !!python/object:os.system {}\n", "is not valid YAML"),
    ],
)
def test_unreadable_file_is_an_error_of_one_line(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        read_request(path)
    assert "\n" not in str(caught.value)


def test_dates_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: gpt2\nname: 2026-01-01\n")
    assert read_request(path)["name"] == "2026-01-01"


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.yaml", "model: gpt2\nsolver: {mip_gap: .nan}\n"), ("run.json", '{"tags": [1, 1e999]}')],
)
def test_number_that_json_cannot_carry_is_named(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    field = {"run.yaml": "solver.mip_gap", "run.json": "tags.1"}[name]
    with pytest.raises(InputError) as caught:
        read_request(path)
    assert str(caught.value) == f"{path}: {field}: is no finite number. Write one."
