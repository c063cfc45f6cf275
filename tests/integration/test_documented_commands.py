"""What README.md and docs/ say to run does run, unless it needs a GPU, a cluster or a framework.

What stands for a value of the reader's own gets one: `ID` and `JOB` a job's or a run's id,
`localhost:8400` and `https://plans.example` a service that looks for plans for seconds only.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.documented import ROOT, all_blocks
from tests.integration.reader import Reader, reader_in

pytestmark = pytest.mark.timeout(600)

BLOCKS = all_blocks()
REASONS = {
    "README.md: scripts/demo": "makes an environment: tests/e2e/test_first_command.py",
    "README.md: .venv/bin/pip install torch==2.13.0 &&": (
        "needs PyTorch: tests/integration/torch/test_readme.py"
    ),
    "README.md: torchrun --nproc-per-node 4 examples/torch/follow.py --straggler 1 --from 60": (
        "needs PyTorch: tests/integration/torch/test_following.py"
    ),
    "following-a-run.md: from client.torch_following import FollowingPipeline, first_plan, "
    "share_run": "needs PyTorch: tests/integration/torch/test_following.py",
    "from-a-model.md: loadmaster extract model.py:factory -o graph.json && loadmaster shard "
    "graph.json --devices 8xH100 --wait": (
        "needs PyTorch and transformers: tests/unit/client/test_extracting.py"
    ),
    "from-a-model.md: from client.torch_extract.extraction import extract": (
        "needs PyTorch: tests/unit/client/test_extracting.py"
    ),
    "from-a-model.md: loadmaster profile train.py:pipeline --stages 4 --micro-batches 8 "
    "-o problem.json": "needs PyTorch: tests/unit/client/test_profiling.py",
    "from-a-model.md: import torch": "needs PyTorch: tests/unit/client/test_profiling.py",
    "from-a-model.md: with torch.profiler.record_function(": (
        "a line of a reader's own program: tests/unit/client/importers/test_kineto.py"
    ),
    "operations.md: export LOADMASTER_DATABASE_URL=postgresql://user@host/loadmaster": (
        "needs servers of one's own: tests/integration/test_topology.py"
    ),
    'operations.md: echo "POSTGRES_PASSWORD=$(openssl rand -hex 24)" > .env': (
        "needs Docker: tests/unit/deploy/test_compose.py"
    ),
    "operations.md: kubectl apply --kustomize my-overlay": (
        "needs Kubernetes: tests/unit/deploy/test_kubernetes.py"
    ),
    "running-plans.md: id=$(loadmaster solve planner/examples/balanced-4x8-problem.json --wait "
    "--id-only) &&": "needs PyTorch: tests/integration/torch/test_readme.py",
    "running-plans.md: from client.torch_runner import build_runtime, load_schedule, stage_for": (
        "needs PyTorch: tests/integration/torch/test_pipelining.py"
    ),
    "running-plans.md: import json": (
        "needs PyTorch and transformers: tests/unit/client/torch_sharding/test_huggingface.py"
    ),
}
"""Why a block is not run here, and where what it shows is tested."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with reader_in(tmp_path_factory.mktemp("reader")) as reader:
        yield reader


def of_a_job(reader: Reader, text: str) -> None:
    """With a job that is over; what is cancelled is another one, which was posted just then."""
    text = text.replace("cancel ID", "cancel $(loadmaster solve long.yaml --fresh --id-only)")
    reader.run_shell(re.sub(r"\b(ID|JOB)\b", reader.job_id, text))


def of_a_job_that_runs(reader: Reader, text: str) -> None:
    """With a job whose events end soon."""
    reader.run_shell(re.sub(r"\bID\b", reader.start_job(), text))


def of_a_run(reader: Reader, text: str) -> None:
    """With a training run, which is watched beside the other commands until it is stopped."""
    text = re.sub(r"\[[^\]]*\]", "", text)
    text = re.sub(r"^(loadmaster runs watch ID).*$", r"\1 & watcher=$!", text, flags=re.MULTILINE)
    reader.run_shell(re.sub(r"\bID\b", reader.start_run(), text) + "wait $watcher\n")


def of_a_measured_gpu(reader: Reader, text: str) -> None:
    """Once the service has looked at a run on the GPU."""
    reader.start_run()
    ends = time.monotonic() + 120
    path, body = "/v1/calibrations", {"gpu": "H100"}
    with httpx.Client(base_url=reader.server) as http:
        while not (answer := http.post(path, json=body, params={"validate_only": True})).is_success:
            assert time.monotonic() < ends, answer.text
            time.sleep(0.5)
    reader.run_shell(text)


def of_news(reader: Reader, text: str) -> None:
    """With what the section above the block calls so."""
    values = f"URL={reader.server} RUN={reader.start_run()} TAG='\"old\"'\n"
    reader.run_shell(values + text)


def of_a_rank(reader: Reader, text: str) -> None:
    """In a trainer of four stages that another rank has joined before."""
    before = """
import json
problem = json.load(open("planner/examples/balanced-4x8-problem.json"))["problem"]
rank, iterations = 1, 3
from client import Run
with Run.create(problem=problem, follow={"ranks": 8}, rank=0) as other:
    run_id = other.id
"""
    reader.run_python(before + text)


OTHERWISE: dict[str, Callable[[Reader, str], None]] = {
    "api.md: curl -sN localhost:8400/v1/jobs/ID/events?log=true": of_a_job_that_runs,
    "calibration.md: curl -s localhost:8400/v1/calibrations -H 'Content-Type: application/json' "
    """-d '{"gpu": "H100"}'""": of_a_measured_gpu,
    "following-a-run.md: from client import Run": of_a_rank,
    "following-a-run.md: loadmaster runs list": of_a_run,
    'runs.md: curl -s "$URL/v1/runs/$RUN/plan?brief=true" -H "If-None-Match: $TAG" '
    "-H 'Prefer: wait=60'": of_news,
}
"""Blocks that need more than a service, some files and a job that is over."""


@pytest.mark.parametrize(
    "name", [name for name in BLOCKS if name not in REASONS], ids=lambda name: name[:80]
)
def test_what_a_document_says_to_run_runs(reader: Reader, name: str) -> None:
    block = BLOCKS[name]
    if name in OTHERWISE:
        OTHERWISE[name](reader, block.text)
    elif block.language == "python":
        reader.run_python(block.text)
    else:
        of_a_job(reader, block.text)


def test_every_reason_and_way_is_of_a_block_that_there_is() -> None:
    assert [name for name in (*REASONS, *OTHERWISE) if name not in BLOCKS] == []


@pytest.mark.parametrize("name", REASONS)
def test_what_is_not_run_here_is_tested_where_the_reason_says(name: str) -> None:
    tests = re.findall(r"tests/\S+\.py", REASONS[name])
    assert all((ROOT / path).exists() for path in tests)
    assert tests
