#!/bin/bash
#SBATCH --job-name=loadmaster-01234567
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --mem=0

# Loadmaster plan of job 01234567-89ab-cdef-0123-456789abcdef: a batch script for Slurm. Use:
# sbatch [OPTIONS] SCRIPT TRAINING_PROGRAM [ARGUMENTS].
# 8 GPUs, 4 on each of 2 nodes: pipeline 2 x tensor 2 x data 2; 4 micro-batches of 1.
# Ranks are numbered node by node. rank = tensor + 2 x data + 4 x pipeline (tp-cp-dp-pp): tensor
# ranks are neighbours, then those of context, data and pipeline, as the plan assumes.
# Groups within a node: 4 tensor, 4 data.
# Groups across nodes: 4 pipeline.
# Left to you:
# - The training program and its data, the container image, partitions, accounts and time limits,
#   and which of the network's adapters are to be used.
# - Which files of the plan to fetch: LOADMASTER_FORMATS, some of torch-schedule, result,
#   torch-csv, megatron-args, deepspeed-json, accelerate-yaml, torchtitan-toml, torchtitan-config,
#   nemo-automodel-yaml; torch-schedule if it is not set.
# - The key of the service, if it wants one: LOADMASTER_API_KEY in the environment of sbatch.
# - Where files go: LOADMASTER_PLAN_DIR, a folder that all nodes see. From it they are copied to
#   LOADMASTER_LOCAL_DIR of each node, if that is set. The program finds the first one in
#   LOADMASTER_PLAN.
# - The service as nodes reach it: LOADMASTER_SERVER, if that is not the address below.
# - NCCL_IB_HCA: Names of adapters are not known here. Set it (with = for exact names) only to
#   leave out adapters that do not belong to the training network.
# - NCCL_SOCKET_IFNAME: Names of interfaces are not known here. Set it (with =) where NCCL picks
#   an interface that other nodes do not reach.
set -euo pipefail

if (($# == 0)); then
  echo "error: name the training program: sbatch SCRIPT train.py ARGUMENTS." >&2
  exit 2
fi
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if ((${#hosts[@]} != 2)); then
  echo "error: the plan is for 2 nodes, and the job has ${#hosts[@]}." >&2
  exit 2
fi

service=https://plans.example
export LOADMASTER_SERVER=${LOADMASTER_SERVER:-$service}
export LOADMASTER_PLAN_DIR=${LOADMASTER_PLAN_DIR:-${SLURM_SUBMIT_DIR:-$PWD}/loadmaster-plans}
formats=${LOADMASTER_FORMATS:-torch-schedule}

# Address, file and, where it is known, checksum of what can be fetched, by format.
plan_file() {
  sum=
  case $1 in
    torch-schedule)
      path=export/torch-schedule
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.torch.json
      sum=d71e8bf851c9f544fcb81b05059048ce56095dc96fe6750cb70152d06219e050
      ;;
    result)
      path=result
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.result.json
      ;;
    torch-csv)
      path=export/torch-csv
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.torch.csv
      ;;
    megatron-args)
      path=export/megatron-args
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.megatron.sh
      ;;
    deepspeed-json)
      path=export/deepspeed-json
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.deepspeed.json
      ;;
    accelerate-yaml)
      path=export/accelerate-yaml
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.accelerate.yaml
      ;;
    torchtitan-toml)
      path=export/torchtitan-toml
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.torchtitan.toml
      ;;
    torchtitan-config)
      path=export/torchtitan-config
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.torchtitan.py
      ;;
    nemo-automodel-yaml)
      path=export/nemo-automodel-yaml
      file=loadmaster-01234567-89ab-cdef-0123-456789abcdef.nemo.yaml
      ;;
    *)
      echo "error: $1 is no format of this plan: take torch-schedule, result, torch-csv, megatron-args, deepspeed-json, accelerate-yaml, torchtitan-toml, torchtitan-config, nemo-automodel-yaml." >&2
      return 1
      ;;
  esac
}

# The key goes over standard input: others on the machine can read command lines.
fetch() {
  plan_file "$1"
  job=01234567-89ab-cdef-0123-456789abcdef
  part=$LOADMASTER_PLAN_DIR/.$file.${SLURM_JOB_ID:-part}
  { [ -z "${LOADMASTER_API_KEY:-}" ] ||
    printf 'Authorization: Bearer %s\n' "$LOADMASTER_API_KEY"; } |
    curl --fail --silent --show-error --retry 8 --retry-connrefused --max-time 120 \
      --header @- --output "$part" "$LOADMASTER_SERVER/v1/jobs/$job/$path"
  found=$(sha256sum < "$part" | cut -d ' ' -f 1)
  if [ "$found" != "${sum:-$found}" ]; then
    echo "error: $file is not the plan that this was written for: export it anew." >&2
    rm -f "$part"
    return 1
  fi
  mv "$part" "$LOADMASTER_PLAN_DIR/$file"
  echo "plan: $LOADMASTER_PLAN_DIR/$file (sha256 $found)"
}

mkdir -p "$LOADMASTER_PLAN_DIR"
files=()
for format in $formats; do
  fetch "$format"
  files+=("$file")
done
# Neither the training program nor its logs get the key.
unset LOADMASTER_API_KEY

if [[ -n ${LOADMASTER_LOCAL_DIR:-} ]]; then
  srun --ntasks=2 --ntasks-per-node=1 mkdir -p -m 700 "$LOADMASTER_LOCAL_DIR"
  for file in "${files[@]}"; do
    sbcast --force "$LOADMASTER_PLAN_DIR/$file" "$LOADMASTER_LOCAL_DIR/$file"
  done
  LOADMASTER_PLAN_DIR=$LOADMASTER_LOCAL_DIR
fi
export LOADMASTER_PLAN=$LOADMASTER_PLAN_DIR/${files[0]}

# For every process: NCCL knows one environment, not one per group.
export CUDA_DEVICE_MAX_CONNECTIONS=1

# Nodes are ranked in Slurm's order.
order=("${!hosts[@]}")

ranks=()
for rank in "${!order[@]}"; do
  ranks[order[rank]]=$rank
done
export LOADMASTER_NODE_RANKS=${ranks[*]}
export MASTER_ADDR=${hosts[order[0]]}
# Below the ports that systems hand out, and another one for each job.
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))

# The key is in no step's environment any more, so that all of it can be passed on.
srun --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1 --export=ALL \
  bash -c '
    read -ra ranks <<< "$LOADMASTER_NODE_RANKS"
    exec torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static \
      --node-rank="${ranks[SLURM_NODEID]}" \
      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"
  ' torchrun "$@"
