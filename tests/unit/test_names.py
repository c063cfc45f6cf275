"""The planner's names have translations in the dashboard, and answers have no others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest

from app.models.runs import RunStatus
from planner.cost.changes import combined_change, single_changes
from planner.cost.spec import read_cost_model
from planner.diagnoses import names
from planner.following.estimates import QUANTITIES
from planner.following.shapes import Kind
from planner.following.solve_records import Reason
from planner.following.versions import VersionState
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.classic import rows
from planner.pipeline.classic.placement import Placement
from planner.pipeline.cp_sat.messages import Status
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.names import BoundName, FoundBy, StartKind, Step, StoppedBy
from planner.sharding.baselines import checkpointing, data_parallel, least_communication, megatron
from planner.sharding.infeasible import Way
from planner.training.answer import BOUND_NAME, UNVERIFIED
from planner.training.dropped import ALONE
from planner.training.infeasible import LADDERS
from planner.training.search import RULES
from planner.training.space import LEFT_OUT
from planner.training.words import MemoryPart
from tests.problems import uniform_problem

ROOT = Path(__file__).parents[2]
DICTIONARIES = ROOT / "dashboard" / "src" / "i18n"
KIND = re.compile(r"^    (\w+): \{\n(.*?)^    \},$", re.MULTILINE | re.DOTALL)
EVENT = re.compile(r'(?:\.tell|NewEvent)\(\s*"(\w+)"')
KEY = re.compile(r'^      (?:"([^"]+)"|([\w$]+)):', re.MULTILINE)


def dictionary(language: str, area: str = "service") -> dict[str, set[str]]:
    """The names that the dashboard has words for in an area, by kind."""
    text = (DICTIONARIES / language / f"{area}.ts").read_text()
    _, _, words = text.partition("\n  names: {\n")
    words, ended, _ = words.partition("\n  },\n")
    assert ended
    return {
        kind: {quoted or bare for quoted, bare in KEY.findall(body)}
        for kind, body in KIND.findall(words + "\n")
    }


def remedies() -> Iterable[str]:
    """Of pipeline problems, of what they come from, of sharding and of training plans."""
    hosts = [{"memory_bytes": 0}]
    problem = uniform_problem(devices=2, chunks=2, limit=5, offload_bytes=3, hosts=hosts)
    infeasibility = find_infeasibility(problem)
    assert infeasibility is not None
    yield from (remedy.remedy for remedy in infeasibility.remedies)
    costs = read_cost_model("GPT-14.2B", "8xA100-40GB", {"micro_batches": 8})
    ladders = single_changes(costs.model, costs.cluster, costs.training)
    yield from (ladder.kind for ladder in ladders)
    yield combined_change(costs.training).kind
    yield from Way
    yield from (*LADDERS, "gpu")


def events_of_runs() -> Iterable[str]:
    """The kinds of events that the planner and the service tell of runs."""
    for folder in (ROOT / "planner" / "following", ROOT / "app" / "services" / "runs"):
        for path in folder.glob("*.py"):
            yield from EVENT.findall(path.read_text())


NAMES: dict[str, Iterable[str]] = {
    "bound": (*BoundName, BOUND_NAME),
    "step": Step,
    "foundBy": FoundBy,
    "stoppedBy": StoppedBy,
    "start": StartKind,
    "status": get_args(Status),
    "placement": {re.sub(r"\d+", "#", placement) for placement in Placement},
    "reason": (
        rows.NOT_REACHED,
        rows.NOTHING_TO_OFFLOAD,
        rows.TOO_LARGE,
        rows.NONE_FITS,
        rows.FUSED_NOTE,
    ),
    "rule": (*RULES, *LEFT_OUT, UNVERIFIED, ALONE),
    "ruleWhy": (*RULES, *LEFT_OUT, UNVERIFIED, ALONE),
    "baseline": (
        megatron.NAME,
        f"{megatron.NAME} (tensor #, data #)",
        least_communication.NAME,
        checkpointing.NAME,
        data_parallel.REPLICATED,
        data_parallel.SHARDED,
    ),
    "memoryPart": MemoryPart,
    "remedy": frozenset(remedies()),
}


RUN_NAMES: dict[str, Iterable[str]] = {
    "runState": RunStatus,
    "versionState": VersionState,
    "reason": Reason,
    "event": frozenset(events_of_runs()),
    "quantity": QUANTITIES,
    "proposal": Kind,
}
DIAGNOSIS_NAMES: dict[str, Iterable[str]] = {
    "symptom": names.Symptom,
    "cause": names.Cause,
    "state": names.State,
    "speaks": names.Speaks,
    "foundIn": names.FoundIn,
    "remedy": names.Remedy,
}
AREAS = {"service": NAMES, "runs": RUN_NAMES, "diagnosis": DIAGNOSIS_NAMES}
UNCOMPARED = {"diagnosis": {"quantity"}}
"""Kinds whose names no module of the planner lists; what has no word is shown as it is."""


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("area", "kind"), [(area, kind) for area in AREAS for kind in AREAS[area]])
def test_the_dashboard_has_words_for_each_name(area: str, kind: str, language: str) -> None:
    assert dictionary(language, area)[kind] == set(AREAS[area][kind])


@pytest.mark.parametrize("area", AREAS)
def test_there_is_no_kind_that_is_not_compared(area: str) -> None:
    assert set(dictionary("en", area)) == set(AREAS[area]) | UNCOMPARED.get(area, set())


@pytest.mark.parametrize("enumeration", [BoundName, Step, FoundBy, StoppedBy, StartKind])
def test_names_are_plain_texts_in_answers(enumeration: type[StrEnum]) -> None:
    assert all(f"{name}" == name == name.value for name in enumeration)


def test_bounds_have_no_other_names() -> None:
    options = {"offload_bytes": 3, "offload_ns": 5, "reload_ns": 5}
    problem = uniform_problem(devices=3, chunks=2, micro_batches=5, limit=14, **options)
    assert {bound.name for bound in lower_bounds(problem)} <= set(BoundName)
