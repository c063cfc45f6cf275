"""Turns a file into a request body.

A file holds a request body (`problem`, or `model`, `cluster` and `training`; `solver`, `name`,
`tags`), a bare problem, or a body together with the sections `scheduler`, `hardware`,
`parallelism` and `optimization`. Each key of a section sets one field of the body; an unknown key
is an error, and so are two keys that want different things. The same file serves a schedule, a
training plan and estimates, which take further keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from client.documents import read_document
from client.errors import InputError

BODY_KEYS = (
    "problem",
    "model",
    "cluster",
    "training",
    "solver",
    "name",
    "tags",
    "priority",
)
TRAINING_KEYS = (*BODY_KEYS[1:], "search", "memory_headroom", "routing_frequency")
FURTHER_KEYS: Mapping[str, tuple[str, ...]] = {
    "memory": (),
    "step-time": (),
    "recomputation": ("most_overhead",),
    "scaling": ("kind",),
    "offload": ("bytes_to_move", "chunk_bytes", "overlap"),
    "communication": ("in_network_reduction",),
    "checkpoints": (
        "parameters_bytes",
        "state_bytes",
        "storage_bytes_per_s",
        "storage_bytes_per_s_per_node",
        "fast_storage",
        "fast_bytes_per_s_per_node",
        "fast_contents",
        "fast_share",
        "blocking_share",
        "fast_blocking_share",
        "failures_per_day",
        "gpu_mtbf_hours",
        "node_mtbf_hours",
        "detection_s",
        "reschedule_s",
        "load_s",
        "iteration_ns",
        "preemption_notice_s",
    ),
}
"""Of each estimate, the keys beside `model`, `cluster` and `training`."""
ESTIMATE_KEYS = (*TRAINING_KEYS, *(key for keys in FURTHER_KEYS.values() for key in keys))
DURATION_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
SIZE_UNITS_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

Field = tuple[str, str]
"""(part of the body, field in it)."""
Reading = Callable[[Any], Any]
"""Turns a configuration value into the field's value; raises ValueError with what it accepts."""


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("Give true or false.")


def _number(value: Any) -> int | float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ValueError("Give a number.")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError("Give a whole number of at least 1.")


def _one_of(*choices: str) -> Reading:
    def read(value: Any) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise ValueError(f"Give {' or '.join(choices)}.")

    return read


def duration_s(value: Any) -> float:
    """Seconds of `120`, `120s`, `2m` or `1h`. Raises ValueError."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h)\s*", value)
        if match:
            return _whole_if_possible(float(match[1]) * DURATION_UNITS_S[match[2]])
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ValueError("Give seconds, or a number with its unit (120s, 2m, 1h).")


def size_bytes(value: Any) -> int:
    """Bytes of `80GB` (GB = 10^9) or `80GiB` (GiB = 2^30). Raises ValueError."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]i?B|B)\s*", value)
        if match:
            return round(float(match[1]) * SIZE_UNITS_BYTES[match[2]])
    raise ValueError("Give a number with its unit (80GB = 80 * 10^9 bytes, 80GiB = 80 * 2^30).")


def _whole_if_possible(value: float) -> float:
    return int(value) if value.is_integer() else value


def _recompute(value: Any) -> str:
    return "full" if _flag(value) else "none"


def _checkpoint(value: Any) -> str:
    if isinstance(value, bool):
        return _recompute(value)
    try:
        return str(_one_of("none", "selective", "full")(value))
    except ValueError:
        raise ValueError("Give none, selective, full, true (= full) or false (= none).") from None


def _precision(value: Any) -> str:
    if isinstance(value, bool):
        return "bf16" if value else "fp32"
    try:
        return str(_one_of("bf16", "fp16")(value))
    except ValueError:
        raise ValueError("Give true (= bf16), false (= fp32), bf16 or fp16.") from None


SECTIONS: Mapping[str, Mapping[str, tuple[Field, Reading]]] = {
    "scheduler": {
        "milp_timeout": (("solver", "time_limit_s"), duration_s),
        "offload_strategy": (
            ("solver", "offload_strategy"),
            _one_of("aggressive", "conservative"),
        ),
        "recompute": (("training", "recomputation"), _recompute),
        "mipgap": (("solver", "mip_gap"), _number),
        "max_micro_batches": (("solver", "milp_window_micro_batches"), _count),
        "offload_threshold": (("solver", "offload_threshold"), _number),
        "adaoffload_warm_start": (("solver", "adaoffload_warm_start"), _flag),
    },
    "hardware": {
        "pcie_topology": (("cluster", "pcie_topology"), _one_of("full_mesh", "switch")),
        "gpu_mem": (("cluster", "gpu_memory_bytes"), size_bytes),
    },
    "parallelism": {
        "tensor": (("training", "tensor_parallel"), _count),
        "pipeline": (("training", "pipeline_parallel"), _count),
        "data": (("training", "data_parallel"), _count),
    },
    "optimization": {
        "amp": (("training", "precision"), _precision),
        "checkpoint": (("training", "recomputation"), _checkpoint),
        "batch": (("training", "global_batch_size"), _count),
    },
}


def read_request(path: Path) -> dict[str, Any]:
    """The request body that a file stands for. Raises `InputError`."""
    return request_from(read_document(path))


def read_training_request(path: Path) -> dict[str, Any]:
    """The request body of a training plan that a file stands for. Raises `InputError`."""
    return request_from(read_document(path), TRAINING_KEYS)


def read_estimate_request(path: Path) -> dict[str, Any]:
    """What a file says of a training to estimate. Raises `InputError`.

    The same file may be one that is solved or planned: what those take besides is kept.
    """
    return request_from(read_document(path), ESTIMATE_KEYS)


def read_sharding_request(path: Path) -> dict[str, Any]:
    """The request body of a sharding plan that a file holds, or the bare graph in it."""
    document = read_document(path)
    return {"graph": document} if "operators" in document else document


def request_from(
    document: Mapping[str, Any], body_keys: Sequence[str] = BODY_KEYS
) -> dict[str, Any]:
    """The request body, with these keys, that a file's content stands for. Raises `InputError`."""
    if "problem" in body_keys and "stages" in document and "devices" in document:
        return {"problem": dict(document)}
    for key in document:
        if key not in body_keys and key not in SECTIONS:
            raise InputError(
                key,
                "is not a known key.",
                f"Known are {', '.join((*body_keys, *SECTIONS))}.",
            )
    body = {key: document[key] for key in body_keys if key in document}
    origins: dict[Field, str] = {}
    for section, keys in SECTIONS.items():
        for key, value in _entries(document, section):
            name = f"{section}.{key}"
            if key not in keys:
                raise InputError(name, "is not a known key.", f"Known are {', '.join(keys)}.")
            field, read = keys[key]
            try:
                setting = read(value)
            except ValueError as error:
                raise InputError(name, f"cannot be {value!r}.", str(error)) from None
            _set(body, field, setting, name, origins)
    return body


def _entries(document: Mapping[str, Any], section: str) -> list[tuple[str, Any]]:
    content = document.get(section)
    if content is None:
        return []
    if not isinstance(content, dict):
        raise InputError(section, "holds no mapping.", "Write `key: value` pairs below it.")
    return list(content.items())


def _set(
    body: dict[str, Any],
    field: Field,
    setting: Any,
    name: str,
    origins: dict[Field, str],
) -> None:
    part, key = field
    if part != "solver" and "problem" in body:
        raise InputError(
            name,
            f"has no effect on a posted problem, which gives {_given_by_problem(key)} itself.",
            "Change the problem, or post `model`, `cluster` and `training` instead.",
        )
    fields = body.get(part, {})
    if isinstance(fields, str):
        raise InputError(
            name,
            f"cannot be combined with {part} = {fields!r}.",
            f"Write `{part}` as fields, with {key} or without.",
        )
    if not isinstance(fields, dict):
        raise InputError(part, "holds no mapping.", "Write `key: value` pairs below it.")
    if key in fields and fields[key] != setting:
        origin = origins.get(field, f"{part}.{key}")
        raise InputError(
            name,
            f"wants {part}.{key} = {setting!r}, but {origin} wants {fields[key]!r}.",
            "Keep one of them.",
        )
    body[part] = {**fields, key: setting}
    origins.setdefault(field, name)


def _given_by_problem(key: str) -> str:
    return {
        "gpu_memory_bytes": "the memory left for activations on each device",
        "pcie_topology": "the host links",
    }.get(key, "its stages' times and sizes")
