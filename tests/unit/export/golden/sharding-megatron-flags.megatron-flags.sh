# Loadmaster plan 01234567-89ab-cdef-0123-456789abcdef for Megatron-LM at d98e8a64dd (2026,
# megatron-core 0.19): 4 devices, of which 1 share the batch.
# Of the plan these arguments do not say:
# - embedding (embedding, d4-r1-c1): Megatron-LM splits it in its own way.
# - ln1 (rms_norm, d4-r1-c1): Megatron-LM splits it in its own way.
# - ln2 (rms_norm, d4-r1-c1): Megatron-LM splits it in its own way.
# - final_norm (rms_norm, d4-r1-c1): Megatron-LM splits it in its own way.
# - head (linear, d4-r1-c1): Megatron-LM splits it in its own way.
export CUDA_DEVICE_MAX_CONNECTIONS=1
LOADMASTER_ARGS=(
  --tensor-model-parallel-size 4
)
