# Loadmaster plan 01234567-89ab-cdef-0123-456789abcdef for Megatron-LM at d98e8a64dd (2026,
# megatron-core 0.19).
# 8 x A100-40GB: pipeline 2 x tensor 2 x data 2; 4 micro-batches of 1, 8 samples of 128 tokens a
# step.
# Start 8 processes: torchrun --nnodes 2 --nproc-per-node 4.
# Ranks of a tensor group are neighbours, then those of context, data and pipeline.
# Of the plan this file does not say:
# - The order of the operations on each rank, and so the predicted step time: the framework runs a
#   schedule of its own.
# - Weight gradients as operations of their own, later than those of the inputs.
# Use: source this file, then torchrun … pretrain_gpt.py "${LOADMASTER_ARGS[@]}" --data-path …
export CUDA_DEVICE_MAX_CONNECTIONS=1
LOADMASTER_ARGS=(
  --tensor-model-parallel-size 2
  --pipeline-model-parallel-size 2
  --context-parallel-size 1
  --sequence-parallel
  --pipeline-model-parallel-layout 'Et*4|t*4L'
  --micro-batch-size 1
  --global-batch-size 8
  --num-layers 8
  --hidden-size 256
  --num-attention-heads 8
  --kv-channels 32
  --group-query-attention --num-query-groups 4
  --ffn-hidden-size 512
  --swiglu
  --seq-length 128
  --max-position-embeddings 128
  --vocab-size 1024
  --normalization RMSNorm
  --position-embedding-type rope
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --attention-dropout 0 --hidden-dropout 0
  --bf16
  --accumulate-allreduce-grads-in-fp32
  --attention-backend flash
  --optimizer adam
  --use-distributed-optimizer
  --recompute-granularity selective --recompute-modules core_attn
)
