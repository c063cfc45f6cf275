"""The commands that check causes, each with what to look for in what it prints.

Sources: the manuals of nvidia-smi, DCGM (fields 1009 and 1010 are PCIe bytes sent and received,
1002 and 1005 the activity of multiprocessors and of memory), Nsight Systems, NCCL and PyTorch.
"""

from __future__ import annotations

from planner.diagnoses.finding import Check

MEMORY_STATS = Check(
    "print(torch.cuda.memory_stats())  # in each rank, after a step",
    "allocated_bytes.all.peak is what tensors took, reserved_bytes.all.peak what the allocator "
    "took for them; num_alloc_retries above 0: it ran out and freed its cache.",
)
FRAGMENTATION_STATS = Check(
    "torch.cuda.memory_stats()  # in the rank, after the failure",
    "inactive_split_bytes.all.peak: reserved, free and not usable whole. A good part of "
    "reserved_bytes.all.peak there is fragmentation.",
)
MEMORY_SNAPSHOT = Check(
    "torch.cuda.memory._record_memory_history(); …; "
    "torch.cuda.memory._dump_snapshot('rank.pickle')",
    "At https://pytorch.org/memory_viz: what is allocated at the peak beside activations, and "
    "by which line.",
)
DEVICE_MEMORY_USE = Check(
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
    "Other processes on the same GPU; what this one takes beyond torch's reserved bytes is the "
    "CUDA context and NCCL.",
)
HOST_MEMORY_USE = Check(
    "free -b; numastat -m",
    "MemAvailable of the host and of each NUMA node against the bytes that are offloaded there.",
)
TIMELINE = Check(
    "nsys profile -t cuda,nvtx,osrt -s none --capture-range=cudaProfilerApi python train.py",
    "Gaps on the rows of kernels: which rank stands idle, from which operation to which, and "
    "whether copies or the CPU fill the gap.",
)
OUTSIDE_TIMELINE = Check(
    "nsys profile -t cuda,nvtx,osrt -s process-tree --capture-range=cudaProfilerApi python "
    "train.py",
    "Between the last backward of a step and the first forward of the next: read(), the data "
    "loader, the optimizer, checkpoints, logging.",
)
UTILISATION = Check(
    "dcgmi dmon -e 1002,1005 -d 100",
    "SMACT falls to nothing in step with the iteration: waiting. SMACT high and steady: computing.",
)
PCIE_BYTES = Check(
    "dcgmi dmon -e 1009,1010 -d 100",
    "PCIe bytes sent (1009: offloads) and received (1010: reloads) per second: near the link's "
    "rate for most of the iteration, it is the bottleneck.",
)
TOPOLOGY = Check(
    "nvidia-smi topo -m",
    "GPUs joined by PIX or PXB share a switch and its way to the host; SYS between a GPU and the "
    "CPUs of its process: copies cross the sockets. NV# is NVLink.",
)
LINK_STATE = Check(
    "nvidia-smi -q | grep -A 9 'GPU Link Info'; nvidia-smi --query-gpu=index,pcie.link.gen.current,"
    "pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max --format=csv",
    "A generation or a width below its maximum while copies run: a link that has trained down.",
)
CLOCKS = Check(
    "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,ECC",
    "On the slow GPU against the others: SM clock, active clock event reasons (HW slowdown, SW "
    "power cap, thermal), temperature, ECC errors.",
)
LOCK_CLOCKS = Check(
    "nvidia-smi -lgc CLOCK,CLOCK  # of all GPUs, the same; nvidia-smi -rgc undoes it",
    "If the times of the stages keep apart no more, clocks were the cause.",
)
NOISE = Check(
    "dcgmi dmon -e 100,155,1002 -d 100; mpstat -P ALL 1",
    "SM clock (100), power (155) and activity (1002) that change from iteration to iteration; "
    "cores taken by other processes.",
)
NUMA = Check(
    "nvidia-smi topo -m; taskset -cp PID; numastat -p PID",
    "CPU affinity of each GPU against the cores of its process and where its host memory lies.",
)
HOST_COPY = Check(
    "nvbandwidth -t host_to_device_memcpy_ce; nvbandwidth -t device_to_host_memcpy_ce",
    "What the link does with pinned memory. Copies in training far below: not pinned, or far.",
)
NCCL_LOG = Check(
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH python train.py",
    "NET/Socket in place of NET/IB or GPU Direct, rings over fewer channels than expected, PCI "
    "in place of NVL in the graph.",
)
NCCL_BANDWIDTH = Check(
    "all_reduce_perf -b 8M -e 1G -f 2 -g GPUS  # nccl-tests, on as many nodes as the training",
    "Bus bandwidth that falls from one node to two, or as nodes are added: the network.",
)
COMMUNICATION_TIMELINE = Check(
    "nsys profile -t cuda,nvtx --capture-range=cudaProfilerApi python train.py",
    "Share of the step in ncclDevKernel_* while nothing else runs, before and after adding GPUs.",
)
FLIGHT_RECORDER = Check(
    "TORCH_NCCL_TRACE_BUFFER_SIZE=20000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 python train.py; "
    "torchfrtrace --prefix …",
    "The send or receive that each rank hangs in: pairs that wait for each other.",
)
STACKS = Check(
    "py-spy dump --pid PID  # of each rank that hangs",
    "Which operation of the schedule each rank is in; a rank without a process has died.",
)
RANK_LOG = Check(
    "nvidia-smi -q | grep -i -A2 xid; dmesg | grep -i 'nvrm: xid\\|out of memory'",
    "An Xid (79: fallen off the bus; 94, 95: ECC) or the kernel's OOM killer on the node of the "
    "rank that stopped.",
)
VERSIONS = Check(
    "grep -h 'plan version' rank-*.log | tail  # or what each rank last acknowledged",
    "All ranks have to run the same version from the same iteration on.",
)
LOSS_SCALE = Check(
    "print(scaler.get_scale())  # each step; torch.amp.GradScaler",
    "A scale that halves again and again, down to 1, before the NaN: gradients overflow in fp16.",
)
ANOMALIES = Check(
    "torch.autograd.set_detect_anomaly(True); torch.isfinite(loss)  # per micro-batch",
    "The first operation and micro-batch with a value that is not finite; in the forward on one "
    "sample: data; after a growing gradient norm: learning rate.",
)
ORDER_TEST = Check(
    "python -m pytest  # gradients of one step by the schedule against one step without pipeline",
    "The same loss with other gradients: operations missing, doubled or in an order that the "
    "runtime computes wrongly.",
)
RACES = Check(
    "CUDA_LAUNCH_BLOCKING=1 python train.py  # once more without it, and once without offloading",
    "No NaN with blocking launches or without offloads: something reads before a copy is over.",
)
SOLVER_LOG = Check(
    "loadmaster show JOB; curl -s $SERVICE/v1/jobs/JOB/log",
    "In which step the time went; `too large for` says that an engine was left out.",
)
