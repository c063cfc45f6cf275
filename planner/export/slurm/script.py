"""A plan as a batch script for Slurm's `sbatch`, which fetches it and starts `torchrun`.

Rendezvous is static. In torchrun's dynamic rendezvous agents are ranked by the text of their
address (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py sorts the participants), which
puts node10 before node2; the plan's ranks follow the order of the nodes.
"""

from __future__ import annotations

import shlex

from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import comment, plan_of
from planner.export.launch import LEFT_OUT, OWN_ADDRESS, Launch, hindrance, launch_of
from planner.export.plan_files import PlanFile, fetch_function, plan_files, why_no_schedule

OWN = "a batch script for Slurm. Use: sbatch [OPTIONS] SCRIPT TRAINING_PROGRAM [ARGUMENTS]"
FETCHING = """\
service={service}
{warning}export LOADMASTER_SERVER=${{LOADMASTER_SERVER:-$service}}
export LOADMASTER_PLAN_DIR=${{LOADMASTER_PLAN_DIR:-${{SLURM_SUBMIT_DIR:-$PWD}}/loadmaster-plans}}
formats=${{LOADMASTER_FORMATS:-{default}}}

{fetch}
mkdir -p "$LOADMASTER_PLAN_DIR"
files=()
for format in $formats; do
  fetch "$format"
  files+=("$file")
done
# Neither the training program nor its logs get the key.
unset LOADMASTER_API_KEY

if [[ -n ${{LOADMASTER_LOCAL_DIR:-}} ]]; then
  srun --ntasks={nodes} --ntasks-per-node=1 mkdir -p -m 700 "$LOADMASTER_LOCAL_DIR"
  for file in "${{files[@]}}"; do
    sbcast --force "$LOADMASTER_PLAN_DIR/$file" "$LOADMASTER_LOCAL_DIR/$file"
  done
  LOADMASTER_PLAN_DIR=$LOADMASTER_LOCAL_DIR
fi
export LOADMASTER_PLAN=$LOADMASTER_PLAN_DIR/${{files[0]}}
"""
CHECKS = """\
if (($# == 0)); then
  echo "error: name the training program: sbatch SCRIPT train.py ARGUMENTS." >&2
  exit 2
fi
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if ((${{#hosts[@]}} != {nodes})); then
  echo "error: the plan is for {nodes} nodes, and the job has ${{#hosts[@]}}." >&2
  exit 2
fi
"""
IN_SLURMS_ORDER = """\
# Nodes are ranked in Slurm's order.
order=("${!hosts[@]}")
"""
BY_SWITCH = """\
# Nodes behind the same switch get neighbouring ranks, as the plan has them.
mapfile -t order < <(
  srun --ntasks={nodes} --ntasks-per-node=1 \\
    bash -c 'echo "${{SLURM_TOPOLOGY_ADDR:-$SLURMD_NODENAME}} $SLURM_NODEID"' |
    sort --version-sort | cut -d ' ' -f 2
)
if ((${{#order[@]}} != {nodes})); then
  echo "error: ${{#order[@]}} of {nodes} nodes answered." >&2
  exit 1
fi
"""
WITH_OWN_ADDRESS = """\
if [[ -z ${LOADMASTER_SERVER:-} ]]; then
  echo "warning: $service leads each node to itself: set LOADMASTER_SERVER for sbatch." >&2
fi
"""
STARTING = """\
ranks=()
for rank in "${{!order[@]}}"; do
  ranks[order[rank]]=$rank
done
export LOADMASTER_NODE_RANKS=${{ranks[*]}}
export MASTER_ADDR=${{hosts[order[0]]}}
# Below the ports that systems hand out, and another one for each job.
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

# The key is in no step's environment any more, so that all of it can be passed on.
srun --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1 --export=ALL \\
  bash -c '
    read -ra ranks <<< "$LOADMASTER_NODE_RANKS"
    exec torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=static \\
      --node-rank="${{ranks[SLURM_NODEID]}}" \\
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"
  ' torchrun "$@"
"""


def write(_: Document, source: Source) -> str:
    """The script; what it is called with is what torchrun starts."""
    launch, files = launch_of(source), plan_files(source)
    run = launch.run
    sizes = {"nodes": run.nodes, "gpus": run.gpus_per_node}
    parts = [
        "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in _options(launch)),
        comment(launch.comments(OWN, _unsaid(launch, files))) + "set -euo pipefail\n",
        CHECKS.format(**sizes),
        FETCHING.format(
            service=shlex.quote(launch.service),
            warning=WITH_OWN_ADDRESS if launch.is_own_address else "",
            default=files[0].format,
            fetch=fetch_function(source, files),
            **sizes,
        ),
        _environment(launch),
        BY_SWITCH.format(**sizes) if launch.racks > 1 else IN_SLURMS_ORDER,
        STARTING.format(**sizes),
    ]
    return "\n".join(part for part in parts if part)


def _options(launch: Launch) -> list[str]:
    run = launch.run
    options = [
        f"--job-name={launch.name}",
        f"--nodes={run.nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={run.gpus_per_node}",
    ]
    if run.gpus_per_node == run.cluster.gpus_per_node:
        options += ["--exclusive", "--mem=0"]
    if launch.knows_racks:
        options.append(f"--switches={launch.racks}")
    return options


def _environment(launch: Launch) -> str:
    settings = [f"export {name}={value}" for name, value in launch.environment.items()]
    if not settings:
        return ""
    lines = ["# For every process: NCCL knows one environment, not one per group.", *settings]
    return "".join(f"{line}\n" for line in lines)


def _unsaid(launch: Launch, files: list[PlanFile]) -> list[str]:
    run, names = launch.run, [each.format for each in files]
    sentences = [
        f"Which files of the plan to fetch: LOADMASTER_FORMATS, some of {', '.join(names)}; "
        f"{names[0]} if it is not set.",
        "The key of the service, if it wants one: LOADMASTER_API_KEY in the environment of sbatch.",
        "Where files go: LOADMASTER_PLAN_DIR, a folder that all nodes see. From it they are copied "
        "to LOADMASTER_LOCAL_DIR of each node, if that is set. The program finds the first one in "
        "LOADMASTER_PLAN.",
        OWN_ADDRESS.format(whose="nodes", where="LOADMASTER_SERVER in the environment of sbatch")
        if launch.is_own_address
        else "The service as nodes reach it: LOADMASTER_SERVER, if that is not the address below.",
        *(f"{each['name']}: {each['reason']}" for each in launch.adapters),
    ]
    if (reason := why_no_schedule(launch.source)) is not None:
        sentences.append(reason)
    if launch.racks > 1:
        sentences.append(
            f"{launch.nodes_per_rack} nodes behind each switch, as the plan assumes: Slurm is "
            f"asked for {launch.racks} switches at the most, and may fill them unevenly."
        )
    if run.gpus_per_node < run.cluster.gpus_per_node:
        sentences.append("Memory and processors of the node, of which the run takes a part.")
    return sentences


SLURM = Format(
    name="slurm",
    title="Batch script for Slurm (bash)",
    media_type="text/x-shellscript; charset=utf-8",
    extension="sbatch.sh",
    carries="Nodes, GPUs, the order of ranks, the environment for NCCL; fetches the plan before it "
    "starts torchrun with the program that it is given.",
    leaves_out=LEFT_OUT,
    written_for="Slurm 22.05 and later",
    has_address=True,
    part=plan_of,
    hindrance=hindrance,
    write=write,
)
