"""The batch script in a Slurm of four nodes on this machine, where its programs are installed
(Debian: slurmctld, slurmd, slurm-client, munge). GPUs and torchrun are stand-ins."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client.importers.slurm_topology import from_slurm_topology
from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export.launched import KEY, racks_of_two

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "curl")
NODES, GPUS, PATIENCE_S = 4, 4, 60
FOUND = os.environ["PATH"] + ":/usr/sbin"
pytestmark = pytest.mark.skipif(
    not all(shutil.which(program, path=FOUND) for program in PROGRAMS),
    reason="Slurm is not installed",
)
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
TopologyPlugin=topology/tree
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""
NODE = (
    "NodeName=node{number} NodeAddr=127.0.0.1 Port={port} Gres=gpu:{gpus} CPUs=2 RealMemory=500\n"
)
TOPOLOGY = """\
SwitchName=leaf1 Nodes=node[2,4]
SwitchName=leaf2 Nodes=node[1,3]
SwitchName=spine Switches=leaf[1-2]
"""
TORCHRUN = """\
#!/bin/bash
echo "ran: $SLURMD_NODENAME $SLURM_GPUS_ON_NODE ${LOADMASTER_API_KEY:-no-key} $*"
cmp "$LOADMASTER_PLAN" "$EXPECTED_PLAN"
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster: the folder that it keeps everything in, and how to reach it."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *command: str, script: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            input=script,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    # Sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="slurm") as name, ExitStack() as running:
        folder = Path(name)
        environment = _configured(folder)
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        files = {"key-file": "munge.key", "socket": "munge.socket", "seed-file": "munge.seed"}
        files |= {"pid-file": "munge.pid", "log-file": "munge.log"}
        options = [f"--{option}={folder / file}" for option, file in files.items()]
        daemons = [["munged", "--foreground", "--force", *options], ["slurmctld", "-D", "-c"]]
        daemons += [["slurmd", "-D", "-N", f"node{number}"] for number in range(1, NODES + 1)]
        for command in daemons:
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            running.callback(process.wait)
            running.callback(process.terminate)
            if command[0] == "munged":
                _wait_for(folder.joinpath("munge.socket").exists)
        cluster = Slurm(folder, environment)
        _wait_for(lambda: cluster.run("sinfo", "-h", "-o", "%D %t").stdout.split() == ["4", "idle"])
        yield cluster


def _configured(folder: Path) -> dict[str, str]:
    ports = _free_ports(NODES + 1)
    nodes = [
        NODE.format(number=number, port=port, gpus=GPUS)
        for number, port in enumerate(ports[1:], start=1)
    ]
    text = CONFIGURATION.format(
        host=socket.gethostname(), user=getpass.getuser(), folder=folder, port=ports[0]
    )
    (folder / "slurm.conf").write_text(text + "".join(nodes))
    (folder / "topology.conf").write_text(TOPOLOGY)
    for number in range(GPUS):
        (folder / f"gpu{number}").touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    (folder / "state").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin" / "torchrun").write_text(TORCHRUN)
    (folder / "bin" / "torchrun").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{FOUND}",
        "SLURM_CONF": str(folder / "slurm.conf"),
    }


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        found = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


def _wait_for(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < until, "Slurm has not started"
        time.sleep(0.2)


class _Service(ThreadingHTTPServer):
    """Has one plan, and keeps the keys that it is asked with. The first answer is that it is
    busy."""

    def __init__(self, plan: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan = plan
        self.keys: list[str | None] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Service

    def do_GET(self) -> None:
        self.server.keys.append(self.headers["Authorization"])
        is_first = len(self.server.keys) == 1
        content = b"" if is_first else self.server.plan
        self.send_response(503 if is_first else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def service() -> Iterator[_Service]:
    plan = export(racks_of_two(), "torch-schedule")[1].encode()
    with _Service(plan) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _script(source: Source) -> str:
    return export(source, "slurm")[1]


def test_slurm_takes_the_script(slurm: Slurm) -> None:
    script = _script(racks_of_two())
    done = slurm.run("sbatch", "--test-only", "/dev/stdin", "train.py", script=script)
    assert done.returncode == 0, done.stderr
    assert "on nodes node[1-4]" in done.stderr


def test_a_job_fetches_the_plan_and_starts_in_the_order_of_switches(
    slurm: Slurm, service: _Service
) -> None:
    (slurm.folder / "expected").write_bytes(service.plan)
    address = f"http://127.0.0.1:{service.server_port}"
    job = replace(
        slurm,
        environment={
            **slurm.environment,
            "LOADMASTER_API_KEY": KEY,
            "LOADMASTER_LOCAL_DIR": str(slurm.folder / "local"),
            "EXPECTED_PLAN": str(slurm.folder / "expected"),
        },
    )
    script = _script(replace(racks_of_two(), service=address))
    done = job.run(
        "sbatch", "--wait", "--output=out", "/dev/stdin", "train.py", "--lr", "1", script=script
    )
    said = (slurm.folder / "out").read_text()
    assert done.returncode == 0, said
    assert service.keys == [f"Bearer {KEY}"] * 2
    assert KEY not in said
    runs = sorted(line.split() for line in said.splitlines() if line.startswith("ran: "))
    places = [[f"node{number}", "4", "no-key"] for number in range(1, NODES + 1)]
    assert [run[1:4] for run in runs] == places
    # Nodes 2 and 4 are behind the first switch.
    assert [run[7] for run in runs] == [f"--node-rank={rank}" for rank in (2, 0, 3, 1)]
    assert {run[8] for run in runs} == {"--master-addr=node2"}
    assert {tuple(run[10:]) for run in runs} == {("train.py", "--lr", "1")}


def test_what_scontrol_shows_can_be_imported(slurm: Slurm) -> None:
    imported = from_slurm_topology(slurm.run("scontrol", "show", "topology").stdout)
    assert imported.document == {"cluster": {"nodes": 4, "nodes_per_rack": 2}}
