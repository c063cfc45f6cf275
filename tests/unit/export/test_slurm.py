"""The batch script, run by bash with programs that stand in for the cluster's."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import CannotExport
from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export.answers import JOB, TRAINING, measured, pipeline, training
from tests.unit.export.launched import (
    KEY,
    Cluster,
    hostile,
    part_of_a_node,
    racks_of_two,
)

SOURCES = {
    "plain": pipeline(),
    "training": training(),
    "no schedule": training(solved=False),
    "racks": racks_of_two(),
    "part of a node": part_of_a_node(),
    "hostile": hostile(),
}
PLAN = f"loadmaster-{JOB}.torch.json"
JOB_42 = {"SLURM_JOB_ID": "42", "SLURM_JOB_NODELIST": "node2 node10"}


def script_of(source: Source) -> str:
    return export(source, "slurm")[1]


def submit(
    cluster: Cluster,
    source: Source,
    environment: Mapping[str, str] | None = None,
    program: tuple[str, ...] = ("train.py", "--lr", "1 2"),
) -> subprocess.CompletedProcess[str]:
    (cluster.folder / "script").write_text(script_of(source))
    return cluster.run(["bash", "script", *program], {**JOB_42, **(environment or {})})


def options_of(source: Source) -> list[str]:
    return re.findall(r"^#SBATCH (\S+)$", script_of(source), re.MULTILINE)


def test_the_plan_is_there_before_torchrun_starts_on_every_node(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    done = submit(cluster, pipeline())
    assert done.returncode == 0, done.stderr
    assert cluster.runs() == [
        [
            "--nnodes=2",
            "--nproc-per-node=4",
            "--rdzv-backend=static",
            f"--node-rank={rank}",
            "--master-addr=node2",
            "--master-port=20042",
            "train.py",
            "--lr",
            "1 2",
        ]
        for rank in range(2)
    ]
    fetched = tmp_path / "loadmaster-plans" / PLAN
    assert fetched.read_bytes() == cluster.plan("torch-schedule").read_bytes()
    assert [path.name for path in fetched.parent.iterdir()] == [PLAN]
    assert f"LOADMASTER_PLAN={fetched}" in cluster.recorded("environment").splitlines()
    assert "CUDA_DEVICE_MAX_CONNECTIONS=1" in cluster.recorded("environment").splitlines()
    assert f"https://plans.example/v1/jobs/{JOB}/export/torch-schedule" in cluster.recorded("curl")


def test_only_the_input_of_curl_has_the_key(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    done = submit(cluster, pipeline())
    assert f"input=Authorization: Bearer {KEY}\n" in cluster.recorded("curl")
    arguments = [line for line in cluster.recorded("curl").splitlines() if "input=" not in line]
    told = done.stdout + done.stderr + cluster.recorded("srun") + cluster.recorded("environment")
    assert KEY not in "\n".join([*arguments, told])


def test_without_a_key_none_is_sent(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    assert submit(cluster, pipeline(), {"LOADMASTER_API_KEY": ""}).returncode == 0
    assert "Authorization" not in cluster.recorded("curl")


def test_another_plan_than_the_exported_one_is_refused(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    cluster.plan("torch-schedule").write_text("{}")
    done = submit(cluster, pipeline())
    assert done.returncode != 0
    assert "export it anew" in done.stderr
    assert cluster.runs() == []
    assert [*(tmp_path / "loadmaster-plans").iterdir()] == []


def test_without_the_plan_nothing_starts(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    (tmp_path / "refuse").touch()
    done = submit(cluster, pipeline())
    assert (done.returncode, cluster.runs()) == (22, [])


def test_other_files_of_the_plan_can_be_asked_for(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    done = submit(cluster, pipeline(), {"LOADMASTER_FORMATS": "megatron-args torch-csv"})
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "loadmaster-plans"
    names = {f"loadmaster-{JOB}.megatron.sh", f"loadmaster-{JOB}.torch.csv"}
    assert {path.name for path in folder.iterdir()} == names
    assert f"LOADMASTER_PLAN={folder}/loadmaster-{JOB}.megatron.sh\n" in cluster.recorded(
        "environment"
    )
    wrong = submit(cluster, pipeline(), {"LOADMASTER_FORMATS": "nonsense"})
    assert wrong.returncode != 0
    assert "take torch-schedule, result, torch-csv" in wrong.stderr


def test_files_go_to_a_folder_of_each_node_where_there_is_one(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    local = tmp_path / "local"
    assert submit(cluster, pipeline(), {"LOADMASTER_LOCAL_DIR": str(local)}).returncode == 0
    assert (local / PLAN).read_bytes() == cluster.plan("torch-schedule").read_bytes()
    assert f"LOADMASTER_PLAN={local}/{PLAN}\n" in cluster.recorded("environment")


def test_a_job_of_another_size_or_without_a_program_starts_nothing(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, pipeline())
    larger = submit(cluster, pipeline(), {"SLURM_JOB_NODELIST": "a b c"})
    assert (larger.returncode, "for 2 nodes, and the job has 3" in larger.stderr) == (2, True)
    empty = submit(cluster, pipeline(), program=())
    assert (empty.returncode, "name the training program" in empty.stderr) == (2, True)
    assert cluster.runs() == []


def test_nodes_behind_a_switch_get_neighbouring_ranks(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, racks_of_two())
    nodes = {"SLURM_JOB_NODELIST": "n1 n2 n3 n4", "ADDRESSES": "s.b.n1 s.a.n2 s.b.n3 s.a.n4"}
    done = submit(cluster, racks_of_two(), nodes)
    assert done.returncode == 0, done.stderr
    ranks = [call[3] for call in cluster.runs()]
    assert ranks == [f"--node-rank={rank}" for rank in (2, 0, 3, 1)]
    assert {call[4] for call in cluster.runs()} == {"--master-addr=n2"}


def test_what_slurm_is_asked_for() -> None:
    plain = options_of(pipeline())
    whole = ["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--exclusive", "--mem=0"]
    assert plain == ["--job-name=loadmaster-01234567", *whole]
    assert "--switches=2" in options_of(racks_of_two())
    part = options_of(part_of_a_node())
    assert "--gpus-per-node=2" in part
    assert "--exclusive" not in part


def test_an_answer_without_a_schedule_is_fetched_whole() -> None:
    script = script_of(SOURCES["no schedule"])
    assert "formats=${LOADMASTER_FORMATS:-result}" in script
    assert "A schedule: the plan has none" in script
    answer = pipeline(offloads=2).answer
    without_waits = {key: each for key, each in answer["schedule"].items() if key != "waits"}
    unsafe = replace(pipeline(), answer={**answer, "schedule": without_waits})
    assert "were not derived for this schedule" in script_of(unsafe).replace("\n#  ", "")


@pytest.mark.parametrize("name", SOURCES)
def test_bash_can_read_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "script"
    path.write_text(script_of(SOURCES[name]))
    subprocess.run(["bash", "-n", path], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--severity=warning", path], check=True)


def test_no_text_of_a_client_is_executed(tmp_path: Path) -> None:
    cluster = Cluster.at(tmp_path, hostile())
    script = script_of(hostile())
    assert script.count("hostile") == script.partition("service=")[2].partition("export ")[0].count(
        "hostile"
    )
    done = submit(cluster, hostile())
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "hostile").exists()
    before_code = script.partition("set -euo")[0]
    assert "hostile" not in before_code


def test_an_address_that_leads_nodes_to_themselves_is_warned_of(tmp_path: Path) -> None:
    source = replace(pipeline(), service="http://127.0.0.1:8400")
    assert "LOADMASTER_SERVER in the environment of sbatch" in comments_of(source)
    assert "`--server ADDRESS`" in comments_of(source)
    done = submit(Cluster.at(tmp_path, source), source)
    assert "warning: http://127.0.0.1:8400 leads each node to itself" in done.stderr
    assert "loopback" not in comments_of(pipeline())
    assert "warning:" not in script_of(pipeline())


def comments_of(source: Source) -> str:
    return script_of(source).replace("\n#  ", "")


def refusal(source: Source) -> str:
    with pytest.raises(CannotExport) as raised:
        export(source, "slurm")
    return str(raised.value)


def test_what_no_scheduler_can_start_is_refused() -> None:
    assert "post `model`, `cluster` and `training`" in refusal(measured())
    assert "ask a service" in refusal(replace(pipeline(), service=None))
    uneven = pipeline({**TRAINING, "data_parallel": 3}, cluster="2x8xA100-40GB")
    assert "fills its nodes" in refusal(uneven)
