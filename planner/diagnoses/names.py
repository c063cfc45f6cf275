"""The fixed words of diagnoses, which clients may translate."""

from __future__ import annotations

from enum import StrEnum


class Symptom(StrEnum):
    """What somebody sees of a training run or of a plan that does not go well."""

    OUT_OF_MEMORY = "out_of_memory"
    SWINGING_GPU_UTILISATION = "swinging_gpu_utilisation"
    THROUGHPUT_FALLS_WITH_DEVICES = "throughput_falls_with_devices"
    UNSTABLE_THROUGHPUT = "unstable_throughput"
    NAN_LOSS = "nan_loss"
    SCHEDULE_DEADLOCK = "schedule_deadlock"
    PCIE_BOTTLENECK = "pcie_bottleneck"
    SOLVER_TOO_SLOW = "solver_too_slow"
    NO_FEASIBLE_PLAN = "no_feasible_plan"
    PLAN_WITH_BAD_THROUGHPUT = "plan_with_bad_throughput"


class Cause(StrEnum):
    """What may be behind a symptom."""

    PLAN_EXCEEDS_MEMORY = "plan_exceeds_memory"
    ONE_MICRO_BATCH_TOO_LARGE = "one_micro_batch_too_large"
    MODEL_STATES_TOO_LARGE = "model_states_too_large"
    MEMORY_OUTSIDE_THE_PLAN = "memory_outside_the_plan"
    ALLOCATOR_FRAGMENTATION = "allocator_fragmentation"
    HOST_MEMORY_SHORT = "host_memory_short"
    PIPELINE_BUBBLE = "pipeline_bubble"
    STAGE_IMBALANCE = "stage_imbalance"
    STRAGGLER_GPU = "straggler_gpu"
    CLOCK_THROTTLING = "clock_throttling"
    JITTER = "jitter"
    TIME_OUTSIDE_THE_PIPELINE = "time_outside_the_pipeline"
    MEMORY_LIMITS_OVERLAP = "memory_limits_overlap"
    PLAN_FAR_FROM_BOUND = "plan_far_from_bound"
    PROFILE_DIFFERS_FROM_PLAN = "profile_differs_from_plan"
    OFFLOAD_LINK_SATURATED = "offload_link_saturated"
    LINK_SLOWER_THAN_PLANNED = "link_slower_than_planned"
    SHARED_HOST_LINK = "shared_host_link"
    SLOW_HOST_COPIES = "slow_host_copies"
    TOO_MANY_OFFLOADS = "too_many_offloads"
    COMMUNICATION_GROWS = "communication_grows"
    SLOW_NETWORK = "slow_network"
    BUBBLE_GROWS = "bubble_grows"
    UNEVEN_DIVISION = "uneven_division"
    SERIAL_PART = "serial_part"
    ORDER_CYCLE = "order_cycle"
    MEMORY_DEADLOCK = "memory_deadlock"
    RECEIVE_ORDER_MISMATCH = "receive_order_mismatch"
    INCOMPLETE_ORDER = "incomplete_order"
    RANKS_ON_DIFFERENT_VERSIONS = "ranks_on_different_versions"
    RANK_LOST = "rank_lost"
    FP16_OVERFLOW = "fp16_overflow"
    LAST_STAGE_OUT_OF_ORDER = "last_stage_out_of_order"
    OFFLOAD_RACE = "offload_race"
    DATA_OR_HYPERPARAMETERS = "data_or_hyperparameters"
    PROBLEM_TOO_LARGE = "problem_too_large"
    TIME_LIMIT_TOO_SHORT = "time_limit_too_short"
    GAP_ASKED_TOO_SMALL = "gap_asked_too_small"


class State(StrEnum):
    """What the numbers say about a cause; `possible` too where they say nothing."""

    SUPPORTED = "supported"
    POSSIBLE = "possible"
    RULED_OUT = "ruled_out"


class Speaks(StrEnum):
    """Which way a piece of evidence points."""

    FOR = "for"
    AGAINST = "against"
    NEITHER = "neither"


class FoundIn(StrEnum):
    """Where a symptom comes from: the request names it, or its numbers show it."""

    REQUEST = "request"
    NUMBERS = "numbers"


class Unit(StrEnum):
    """Of a number in an answer. A `share` is 0 to 1, a `ratio` one number over another."""

    NS = "ns"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"
    TOKENS_PER_S = "tokens_per_s"
    SECONDS = "s"
    SHARE = "share"
    RATIO = "ratio"
    COUNT = "count"
    TEXT = "text"


class Remedy(StrEnum):
    """What can be done about a cause."""

    OFFLOAD_MORE = "offload_more"
    LOWER_MEMORY_LIMIT = "lower_memory_limit"
    RAISE_MEMORY_LIMIT = "raise_memory_limit"
    CHANGE_TRAINING = "change_training"
    DEVICE_MEMORY = "device_memory"
    HOST_MEMORY = "host_memory"
    OFFLOAD = "offload"
    MORE_STAGES = "more_stages"
    SMALLER_MICRO_BATCH = "smaller_micro_batch"
    RECOMPUTATION = "recomputation"
    EXPANDABLE_SEGMENTS = "expandable_segments"
    ANOTHER_SCHEDULE = "another_schedule"
    MORE_MICRO_BATCHES = "more_micro_batches"
    BALANCE_STAGES = "balance_stages"
    RESTORE_GPU = "restore_gpu"
    LOCK_CLOCKS = "lock_clocks"
    STEADY_ITERATIONS = "steady_iterations"
    OVERLAP_OTHER_WORK = "overlap_other_work"
    PLAN_WITH_PROFILE = "plan_with_profile"
    FEWER_OFFLOADS = "fewer_offloads"
    OVERLAP_COPIES = "overlap_copies"
    RESTORE_LINK = "restore_link"
    OWN_LINKS = "own_links"
    PIN_NEAR_MEMORY = "pin_near_memory"
    BEST_DEGREE = "best_degree"
    DIVIDE_EVENLY = "divide_evenly"
    CHANGE_ORDER = "change_order"
    ALIGN_VERSIONS = "align_versions"
    RESTART_RANK = "restart_rank"
    USE_BF16 = "use_bf16"
    FIX_RUNTIME_WAITS = "fix_runtime_waits"
    CHECK_DATA = "check_data"
    HEURISTIC_PLAN = "heuristic_plan"
    SMALLER_PROBLEM = "smaller_problem"
    MORE_TIME = "more_time"
    ACCEPT_GAP = "accept_gap"
