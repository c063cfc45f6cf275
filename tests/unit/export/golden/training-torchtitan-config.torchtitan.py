# Loadmaster plan 01234567-89ab-cdef-0123-456789abcdef for torchtitan at b5bcd76c6 (August 2026).
# 8 x A100-40GB: pipeline 2 x tensor 2 x data 2; 4 micro-batches of 1, 8 samples of 128 tokens a
# step.
# Start 8 processes: torchrun --nnodes 2 --nproc-per-node 4.
# Ranks of a tensor group are neighbours, then those of context, data and pipeline.
# Of the plan this file does not say:
# - The model: Tiny: 8 layers, hidden size 256, 8 heads of 32, 4 key/value heads, feed-forward 512
#   (gated), vocabulary 1024, sequence 128, RMSNorm.
# - ZeRO stage 1: FSDP2 shards gradients too, as stage 2 does.
# - That only attention is recomputed: torchtitan's selective mode keeps results of matrix
#   products and recomputes the rest.
# - The optimizer: adam. It is the configuration's own.

from dataclasses import replace

from torchtitan.distributed.activation_checkpoint import SelectiveAC
from torchtitan.trainer import Trainer


def planned(config: Trainer.Config) -> Trainer.Config:
    """The configuration of a model, such as `llama3_8b()`, with the plan in it."""
    config.training = replace(
        config.training,
        num_tokens_per_microbatch_per_dp_rank=128,
        num_tokens_per_train_step=1024,
        max_context_length=128,
        dtype="float32",
        mixed_precision_param="bfloat16",
        mixed_precision_reduce="float32",
    )
    config.parallelism = replace(
        config.parallelism,
        data_parallel_replicate_degree=1,
        data_parallel_shard_degree=2,
        fsdp_reshard_after_forward="never",
        tensor_parallel_degree=2,
        context_parallel_degree=1,
        expert_parallel_degree=1,
        pipeline_parallel_degree=2,
        pipeline_parallel_schedule="1F1B",
        pipeline_parallel_schedule_csv="loadmaster-01234567-89ab-cdef-0123-456789abcdef.torch.csv",
        module_fqns_per_model_part=[
            ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"],
            ["layers.4", "layers.5", "layers.6", "layers.7", "norm", "output"],
        ],
        enable_sequence_parallel=True,
        num_pp_microbatches=4,
    )
    config.activation_checkpoint = SelectiveAC.Config()
    return config
