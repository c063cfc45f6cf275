"""What the readers of requests make of bodies that no client should send.

    python -m benchmarks.fuzz [--bodies N] [--seed N] [--processes N]

Every body goes the way that a posted one goes: JSON reader, the job's fields, the planner's
documents and what they resolve to, within the limits of a service as it is set up. Whatever is not
a problem document, an answer that cannot be written as JSON, and whatever takes more than a second
of processor time is a fault; each is printed with the number that makes it again.
"""

from __future__ import annotations

import argparse
import atexit
import json
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pydantic import BaseModel

from app.callers import ANYBODY
from app.cursors import decode_cursor
from app.database import Database
from app.errors import InvalidRequest, ServiceError
from app.json_body import parse_json_object
from app.models import PIPELINE, SHARDING, TRAINING
from app.routes.conditional import Precondition
from app.schemas.batches import BatchRequest
from app.schemas.requests import PipelineScheduleRequest, ShardingPlanRequest, TrainingPlanRequest
from app.security.addresses import parse_host, parse_origin
from app.security.keys import holds_key, parse_key
from app.services.batches import Batches
from app.services.calibrations.use import CalibrationsInUse
from app.services.estimates import Estimates
from app.services.events import Position
from app.services.examples import example_bodies
from app.services.idempotency import RequestKey
from app.services.jobs import Jobs
from app.services.limits import EstimateLimits, PipelineLimits, ShardingLimits, TrainingLimits
from app.services.plan_requests import PlanRequests
from app.services.result_parts import Form, Parts
from app.services.submission import Submission
from app.services.waiting import wanted_wait_s
from app.services.webhooks.targets import WebhookTargets
from app.settings import Settings
from benchmarks.mutations import TEXTS, Mutator, Vocabulary, as_text, garbled
from migrations.run import upgrade
from planner.documents import Document
from planner.errors import SpecError
from planner.estimates.registry import ESTIMATES, REQUESTS
from planner.pipeline import request as pipeline_request
from planner.sharding import request as sharding_request
from planner.training import request as training_request

PROBLEMS = Path(__file__).parent / "problems"
LONGEST_S = 1.0
"""Of processor time, so that others on the machine make no difference."""
GIVEN_UP_S = 20
LARGEST_PROBLEM_BYTES = 20_000
JOB_FIELDS: dict[str, Any] = {
    "name": "fuzzed",
    "tags": ["a", "b"],
    "priority": 5,
    "webhook": {"url": "https://example.org/hook?a=1", "secret": "a secret of some length"},
}
TRAINED = {"micro_batches": 8, "pipeline_parallel": 4, "tensor_parallel": 2, "sequence": 1024}
ESTIMATED: dict[str, Any] = {"model": "GPT-2", "cluster": "8xA100-40GB", "training": TRAINED}
POSTED: tuple[type[BaseModel], ...] = (
    PipelineScheduleRequest,
    ShardingPlanRequest,
    TrainingPlanRequest,
    BatchRequest,
)
Target = Callable[[Mapping[str, Any]], Any]


class HangError(Exception):
    """A body was given up."""


@dataclass
class Findings:
    """What came of a number of bodies."""

    bodies: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: str = ""
    faults: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Take on those of other bodies."""
        self.bodies += other.bodies
        self.outcomes += other.outcomes
        self.faults += other.faults
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest


class Fuzzer:
    """Sends bodies by number: the same seed and number make the same body."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.targets = _targets()
        self._seeds = _seed_bodies()
        documents = [body for bodies in self._seeds.values() for body in bodies]
        self.vocabulary = Vocabulary([*POSTED, *REQUESTS.values(), *_descendants(Document)])
        self._mutator = Mutator(documents, self.vocabulary)
        # The first request of each kind loads and compiles what later ones find ready.
        for name, bodies in self._seeds.items():
            for body in bodies:
                self.targets[name](body)

    def run(self, numbers: range) -> Findings:
        """Send the bodies with these numbers."""
        findings = Findings()
        for number in numbers:
            self._send(number, findings)
        return findings

    def body(self, number: int) -> tuple[str, bytes]:
        """The target that a number stands for and what is sent to it."""
        rng = random.Random(f"{self._seed}-{number}")
        name = rng.choice(list(self.targets))
        kind = rng.random()
        if kind < 0.08:
            document = self._mutator.invented(rng)
        else:
            # One of another kind now and then: its fields are not known here.
            source = name if kind < 0.95 else rng.choice(list(self._seeds))
            document = self._mutator.mutated(rng, rng.choice(self._seeds[source]))
        raw = as_text(document).encode("utf-8", "surrogatepass")
        return name, garbled(rng, raw) if rng.random() < 0.1 else raw

    def _send(self, number: int, findings: Findings) -> None:
        name, raw = self.body(number)
        started = time.process_time()
        try:
            with _given_up_after(GIVEN_UP_S):
                outcome = self.outcome(name, raw)
        except Exception:
            outcome = "fault"
            last = traceback.format_exc(limit=-3)
            findings.faults.append(f"{self._seed}-{number} {name}: {raw[:300]!r}\n{last}")
        took_s = time.process_time() - started
        if took_s > LONGEST_S and outcome != "fault":
            findings.faults.append(
                f"{self._seed}-{number} {name}: {took_s:.1f} s, {outcome}, {len(raw)} bytes: "
                f"{raw[:300]!r}"
            )
        findings.bodies += 1
        findings.outcomes[outcome] += 1
        if took_s > findings.slowest_s:
            findings.slowest_s, findings.slowest = took_s, f"{number} {name} {outcome}"

    def outcome(self, name: str, raw: bytes) -> str:
        """The code of the problem, or that there was none. Raises what a service would have to
        answer with 500."""
        try:
            answer = self.targets[name](parse_json_object(raw))
        except SpecError as error:
            document = InvalidRequest.from_spec_error(error).to_document("/")
        except ServiceError as error:
            document = error.to_document("/")
        else:
            if answer is not None:
                _write(answer)
            return "accepted"
        _write(document)
        return str(document["code"])


def _write(document: Any) -> None:
    """As answers are written."""
    json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def _targets() -> dict[str, Target]:
    # Calibrations are looked up, of which there are none.
    folder = mkdtemp(prefix="loadmaster-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = Settings(authentication="off", database_url=f"sqlite:///{folder}/empty.db")
    upgrade(settings)
    database = Database(settings)
    submission = Submission(database, settings, "0", lambda: None)
    webhooks, in_use = WebhookTargets(settings), CalibrationsInUse(database)
    plans: dict[str, PlanRequests[Any]] = {
        PIPELINE: PlanRequests(
            PIPELINE, submission, pipeline_request.resolve_request, PipelineLimits(settings),
            webhooks, in_use,
        ),
        SHARDING: PlanRequests(
            SHARDING, submission, sharding_request.resolve_request, ShardingLimits(settings),
            webhooks, in_use,
        ),
        TRAINING: PlanRequests(
            TRAINING, submission, training_request.resolve_request, TrainingLimits(settings),
            webhooks, in_use,
        ),
    }  # fmt: skip
    estimates = Estimates(ESTIMATES, EstimateLimits(settings), in_use)
    batches = Batches(database, settings, submission, Jobs(database), plans)
    targets: dict[str, Target] = {kind: _reading(kind, plan) for kind, plan in plans.items()}
    for name in ESTIMATES:
        targets[name] = _estimating(estimates, name)
    targets["batch"] = lambda body: batches.preview(ANYBODY, body).model_dump()
    targets["texts"] = _read_texts
    return targets


def _reading(kind: str, plan: PlanRequests[Any]) -> Target:
    def read(body: Mapping[str, Any]) -> Any:
        RequestKey.of("a key", kind=kind, body=body, fresh=False)
        plan.read(ANYBODY.tenant, body)

    return read


def _estimating(estimates: Estimates, name: str) -> Target:
    return lambda body: estimates.answer(ANYBODY, name, body)


def _read_texts(body: Mapping[str, Any]) -> None:
    """What requests say outside of their bodies, each text to each of its readers."""
    for value in body.values():
        text = str(value)
        for reader in (
            lambda text: Parts.read(text, Form.ROWS),
            decode_cursor,
            Position.read,
            lambda text: wanted_wait_s(text, 60),
            lambda text: Precondition(text).holds('"a"'),
            parse_host,
            parse_origin,
            parse_key,
            holds_key,
        ):
            try:
                reader(text)
            except ServiceError as error:
                _write(error.to_document("/"))


def _seed_bodies() -> dict[str, list[dict[str, Any]]]:
    problems = [
        {"problem": json.loads(path.read_text()), "solver": {"engine": "auto", "time_limit_s": 10}}
        for path in sorted(PROBLEMS.glob("*.json"))
        if path.stat().st_size < LARGEST_PROBLEM_BYTES and path.stem != "best-known"
    ]
    seeds: dict[str, list[dict[str, Any]]] = {
        PIPELINE: [*example_bodies("pipeline"), *problems],
        SHARDING: list(example_bodies("sharding")),
        TRAINING: list(example_bodies("training")),
    }
    seeds["batch"] = [
        {
            **JOB_FIELDS,
            "requests": [
                {"kind": kind, "request": body, "name": f"{number}"}
                for kind in (PIPELINE, SHARDING, TRAINING)
                for number, body in enumerate(seeds[kind][:2])
            ],
        }
    ]
    for kind in (PIPELINE, SHARDING, TRAINING):
        seeds[kind].append({**seeds[kind][0], **JOB_FIELDS})
    described = [body for body in seeds[PIPELINE] if "model" in body]
    for name, request in REQUESTS.items():
        known = request.model_fields
        seeds[name] = [
            {key: value for key, value in body.items() if key in known}
            for body in (ESTIMATED, *described)
        ]
    seeds["texts"] = [{str(number): text for number, text in enumerate((*TEXTS, "wait=5", "a,-b"))}]
    return seeds


def _descendants(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _descendants(child)


@contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    def give_up(_signal: int, _frame: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _run_part(seed: int, numbers: range) -> Findings:
    return Fuzzer(seed).run(numbers)


def fuzz(bodies: int, seed: int, processes: int) -> Findings:
    """Send bodies 0 to `bodies` - 1, divided among processes."""
    findings = Findings()
    with ProcessPoolExecutor(processes) as pool:
        parts = [range(first, bodies, processes) for first in range(processes)]
        for part in pool.map(_run_part, [seed] * processes, parts):
            findings.add(part)
    return findings


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was found; the status is 1 if that is a fault."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    findings = fuzz(given.bodies, given.seed, given.processes)
    for fault in findings.faults:
        print(fault, end="\n\n")
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{findings.bodies} bodies of seed {given.seed} in {time.perf_counter() - started:.0f} s: "
        f"{len(findings.faults)} faults; slowest {findings.slowest_s:.2f} s ({findings.slowest}); "
        f"peak {peak_mb:.0f} MB\n{dict(findings.outcomes.most_common())}"
    )
    sys.exit(1 if findings.faults else 0)


if __name__ == "__main__":
    main()
