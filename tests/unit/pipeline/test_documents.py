"""Problem documents: canonical form, and every complaint with the path of its field."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.problem import Duplex, MicroBatchOrder, Objective
from tests import referee
from tests.problems import problem_documents, uniform_document

Path = tuple[str | int, ...]


def canonical(document: dict[str, Any], *, names: bool = True) -> str:
    return json.dumps(problem_to_document(read_problem(document), names=names), sort_keys=True)


def reordered(value: Any) -> Any:
    """The same document with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(entry) for entry in value] if isinstance(value, list) else value


def as_floats(value: Any) -> Any:
    """The same document with every number spelled as a float."""
    if isinstance(value, dict):
        return {key: as_floats(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_floats(entry) for entry in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def written_out(document: dict[str, Any]) -> dict[str, Any]:
    """The same document with every default written out and every number as a list."""
    count = document["micro_batches"]

    def listed(value: Any) -> Any:
        return value if isinstance(value, list) else [value] * count

    stage_numbers = (
        "forward_ns",
        "backward_input_ns",
        "backward_weight_ns",
        "activation_bytes",
        "weight_grad_bytes",
        "backward_workspace_bytes",
        "offload_bytes",
        "offload_ns",
        "reload_ns",
    )
    full = {
        "micro_batch_order": "fixed",
        "objective": "makespan",
        "host_link_duplex": "full",
        "host_links": {},
        "hosts": [],
        "name": None,
        **document,
    }
    full["devices"] = [
        {
            "activation_memory_bytes": None,
            "host_link": None,
            "host": None,
            "epilogue_ns": 0,
            **device,
        }
        for device in document["devices"]
    ]
    full["stages"] = [
        {"device": stage["device"], **{n: listed(stage.get(n, 0)) for n in stage_numbers}}
        for stage in document["stages"]
    ]
    transfers = document.get("transfers") or [{}] * (len(document["stages"]) - 1)
    full["transfers"] = [
        {name: listed(hop.get(name, 0)) for name in ("forward_ns", "backward_ns")}
        for hop in transfers
    ]
    return full


@given(problem_documents())
def test_spelling_makes_no_difference(document: dict[str, Any]) -> None:
    expected = canonical(document)
    assert canonical(reordered(document)) == expected
    assert canonical(as_floats(document)) == expected
    assert canonical(written_out(document)) == expected
    assert canonical(json.loads(json.dumps(document))) == expected


@given(problem_documents())
def test_canonical_document_reads_back_as_the_same_problem(document: dict[str, Any]) -> None:
    written = problem_to_document(read_problem(document))
    again = read_problem(written)
    assert problem_to_document(again) == written
    checker = referee.load()
    assert vars(checker.Problem(written))["dur"] == vars(checker.Problem(document))["dur"]
    assert checker.lower_bound(checker.Problem(written)) == checker.lower_bound(
        checker.Problem(document)
    )


def test_whole_numbers_may_be_spelled_as_floats() -> None:
    document = uniform_document(forward_ns=18000000)
    spelled = json.loads(json.dumps(document).replace("18000000", "1.8e7"))
    assert canonical(spelled) == canonical(document)


def test_names_do_not_identify_a_problem() -> None:
    document = uniform_document(devices=1, hosts=[{"memory_bytes": 5}])
    named = copy.deepcopy(document)
    named["name"] = "mine"
    named["devices"][0]["name"] = "rank 0"
    named["stages"][0]["name"] = "embedding"
    named["hosts"][0]["name"] = "node 0"
    assert canonical(named) != canonical(document)
    assert canonical(named, names=False) == canonical(document, names=False)
    assert read_problem(problem_to_document(read_problem(named))) == read_problem(named)


def test_defaults_are_those_of_the_format() -> None:
    problem = read_problem(
        {
            "micro_batches": 2,
            "devices": [{}],
            "stages": [{"device": 0, "forward_ns": 1, "backward_input_ns": [2, 3]}],
        }
    )
    assert problem.micro_batch_order is MicroBatchOrder.FIXED
    assert problem.objective is Objective.MAKESPAN
    assert problem.host_link_duplex is Duplex.FULL
    assert problem.devices[0].activation_memory_bytes is None
    assert problem.stages[0].forward_ns == (1, 1)
    assert problem.stages[0].backward_input_ns == (2, 3)
    assert problem.stages[0].backward_weight_ns == (0, 0)
    assert problem.transfers == ()


def test_a_link_named_like_a_device_is_another_link() -> None:
    document = uniform_document(devices=2)
    document["devices"][1]["host_link"] = "device 0"
    problem = read_problem(document)
    assert problem.link_of_stage[0] != problem.link_of_stage[1]


def test_a_host_link_of_the_default_duplex_is_left_out() -> None:
    document = uniform_document(devices=2)
    document["devices"][0]["host_link"] = "a"
    with_link = {**document, "host_links": {"a": {"duplex": "full"}}}
    assert canonical(with_link) == canonical(document)
    half = read_problem({**document, "host_links": {"a": {"duplex": "half"}}})
    assert half.is_half_duplex(0)
    assert not half.is_half_duplex(1)


def set_at(document: dict[str, Any], path: Path, value: Any) -> None:
    target: Any = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value


def full_document() -> dict[str, Any]:
    document = uniform_document(
        devices=2,
        micro_batches=3,
        transfer_ns=1,
        limit=100,
        hosts=[{"memory_bytes": 50}],
        offload_bytes=4,
        offload_ns=1,
        reload_ns=1,
    )
    document["stages"][0]["forward_ns"] = [1, 2, 3]
    document["devices"][0]["epilogue_ns"] = 1
    return document


NUMBER_PATHS: list[Path] = [
    ("micro_batches",),
    ("devices", 0, "activation_memory_bytes"),
    ("devices", 0, "epilogue_ns"),
    ("devices", 0, "host"),
    ("stages", 1, "device"),
    ("stages", 1, "forward_ns"),
    ("stages", 0, "forward_ns", 2),
    ("stages", 1, "reload_ns"),
    ("transfers", 0, "backward_ns"),
    ("hosts", 0, "memory_bytes"),
]
BAD_NUMBERS = [
    float("nan"),
    float("inf"),
    float("-inf"),
    2**53,
    float(2**53),
    10**400,
    -1,
    -1.0,
    0.5,
    True,
    False,
    "1",
    {},
]


@pytest.mark.parametrize("path", NUMBER_PATHS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda value: repr(value)[:12])
def test_numbers_that_are_not_whole_and_below_2_to_the_53_are_refused(
    path: Path, value: Any
) -> None:
    document = full_document()
    set_at(document, path, value)
    with pytest.raises(SpecError) as caught:
        read_problem(document, ("problem",))
    field = path[:3]
    assert caught.value.path[: len(field) + 1] == ("problem", *field)
    assert caught.value.message


@pytest.mark.parametrize("path", [("stages", 1, "forward_ns"), ("stages", 0, "forward_ns", 2)])
def test_a_bad_number_that_may_be_a_list_is_named_by_field_and_index(path: Path) -> None:
    document = full_document()
    set_at(document, path, -1)
    with pytest.raises(SpecError) as caught:
        read_problem(document, ("problem",))
    assert caught.value.path == ("problem", *path)


def test_the_largest_number_is_accepted() -> None:
    document = full_document()
    set_at(document, ("stages", 1, "activation_bytes"), 2**53 - 1)
    assert read_problem(document).stages[1].activation_bytes == (2**53 - 1,) * 3


def remove(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return change


def put(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
    *path, value = path_and_value
    return lambda document: set_at(document, tuple(path), value)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (remove("micro_batches"), ("micro_batches",)),
        (remove("devices"), ("devices",)),
        (remove("stages"), ("stages",)),
        (remove("stages", 0, "device"), ("stages", 0, "device")),
        (remove("stages", 0, "forward_ns"), ("stages", 0, "forward_ns")),
        (put("micro_batches", 0), ("micro_batches",)),
        (put("devices", []), ("devices",)),
        (put("stages", []), ("stages",)),
        (put("typo", 1), ("typo",)),
        (put("devices", 0, "typo", 1), ("devices", 0, "typo")),
        (put("stages", 0, "typo", 1), ("stages", 0, "typo")),
        (put("transfers", 0, "typo", 1), ("transfers", 0, "typo")),
        (put("hosts", 0, "typo", 1), ("hosts", 0, "typo")),
        (put("objective", "span"), ("objective",)),
        (put("micro_batch_order", "any"), ("micro_batch_order",)),
        (put("host_link_duplex", "both"), ("host_link_duplex",)),
        (put("devices", 0, "host_link", 3), ("devices", 0, "host_link")),
        (put("devices", 0, "host", 1), ("devices", 0, "host")),
        (put("stages", 0, "device", 2), ("stages", 0, "device")),
        (put("stages", 0, "forward_ns", [1, 2]), ("stages", 0, "forward_ns")),
        (put("stages", 0, "offload_ns", []), ("stages", 0, "offload_ns")),
        (put("transfers", 0, "forward_ns", [1]), ("transfers", 0, "forward_ns")),
        (put("transfers", [{}, {}]), ("transfers",)),
        (put("stages", 0, "offload_bytes", 5), ("stages", 0, "offload_bytes")),
        (put("stages", 0, "offload_bytes", [4, 4, 5]), ("stages", 0, "offload_bytes")),
        (put("host_links", {"a": {"duplex": "half"}}), ("host_links", "a")),
        (put("host_links", {"a": {"duplex": "x"}}), ("host_links", "a", "duplex")),
        (put("host_links", {"a": {}}), ("host_links", "a", "duplex")),
    ],
)
def test_each_complaint_names_its_field(
    change: Callable[[dict[str, Any]], None], path: Path
) -> None:
    document = full_document()
    change(document)
    with pytest.raises(SpecError) as caught:
        read_problem(document, ("problem",))
    assert caught.value.path == ("problem", *path)
    assert ".".join(map(str, path)) in str(caught.value)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    st.sampled_from([*NUMBER_PATHS, ("devices",), ("stages",), ("transfers",), ("host_links",)]),
)
def test_whatever_stands_in_a_field_is_read_or_refused(value: Any, path: Path) -> None:
    """Nothing but a `SpecError` gets out of the reader."""
    document = full_document()
    set_at(document, path, value)
    with contextlib.suppress(SpecError):
        read_problem(document)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"hosts": [{}] * 200_000}, ("problem", "hosts")),
        ({"devices": [{"x": 1}] * 90_000}, ("problem", "devices", 0, "x")),
        (
            {"stages": [{"device": 0, "forward_ns": [-1] * 2_000_000, "backward_input_ns": 1}]},
            ("problem", "stages", 0, "forward_ns"),
        ),
    ],
)
def test_a_list_of_millions_is_refused_before_its_entries_are_read(
    field: dict[str, Any], path: Path
) -> None:
    started = time.monotonic()
    with pytest.raises(SpecError) as caught:
        read_problem(full_document() | field, ("problem",))
    assert time.monotonic() - started < 5
    assert caught.value.path == path


def test_times_that_no_json_number_could_add_up_are_refused() -> None:
    """The longest schedule, one operation after the other, has to stay below 2^53."""
    document: dict[str, Any] = {
        "micro_batches": 2,
        "devices": [{"epilogue_ns": 1}],
        "stages": [{"device": 0, "forward_ns": 2**50, "backward_input_ns": 2**52 - 2**50 - 1}],
    }
    assert sequential_schedule(read_problem(document)).makespan_ns == 2**53 - 1
    document["devices"][0]["epilogue_ns"] = 2
    with pytest.raises(SpecError) as caught:
        read_problem(document, ("problem",))
    assert caught.value.path == ("problem", "stages", 0, "backward_input_ns")
    assert "9007199254740992 ns" in caught.value.message
    assert "at most 9007199254740991" in caught.value.remedy
