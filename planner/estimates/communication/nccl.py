"""One environment for the whole process: what to set for NCCL, what to leave alone, and why.

NCCL reads its variables once per process, for every communicator: tensor, data and pipeline groups
alike. What a guide exports for one tier holds for all of them. Sources: NCCL user guide,
environment variables; Megatron-LM's argument checks and process groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from planner.cost.build import CostModel
from planner.estimates.communication.algorithms import is_blackwell

USER_GUIDE = "NCCL user guide, environment variables"
MEGATRON_ARGUMENTS = "Megatron-LM, megatron/training/arguments.py"
MEGATRON_GROUPS = "Megatron-LM, megatron/core/parallel_state.py"


class Flag(TypedDict):
    """An argument on a program's command line."""

    name: str
    reason: str
    source: str


class Setting(TypedDict):
    """A variable with its value, None where only its name matters."""

    name: str
    value: str | None
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What the groups ask of the environment: the algorithms advised for their collectives, and
    whether any group reaches over several nodes."""

    algorithms: tuple[str, ...]
    crosses_nodes: bool
    in_network_reduction: bool


def nccl_environment(costs: CostModel, needs: Needs) -> dict[str, Any]:
    """Variables to set with their values, flags of Megatron-LM, variables to leave unset and
    variables never to set."""
    variables, flags = list(_variables(costs, needs)), list(_flags(needs))
    return {
        "scope": "process: every communicator reads the same variables",
        "variables": variables,
        "exports": [f"export {each['name']}={each['value']}" for each in variables],
        "flags": flags,
        "leave_unset": [*_connections_unset(costs), *_unset(needs)],
        "never": _NEVER,
        "check": {
            "variables": ["NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING"],
            "reason": "For one short run: prints the topology that NCCL found and what it chooses.",
            "source": USER_GUIDE,
        },
    }


def _overlaps_in_layers(costs: CostModel) -> bool:
    degrees = costs.training.degrees
    return degrees.tensor > 1 or degrees.context > 1


def _variables(costs: CostModel, needs: Needs) -> Iterable[Setting]:
    sharded = costs.training.zero_stage >= 2
    if _overlaps_in_layers(costs) and not is_blackwell(costs.cluster) and not sharded:
        yield {
            "name": "CUDA_DEVICE_MAX_CONNECTIONS",
            "value": "1",
            "reason": "One hardware queue keeps kernels in launch order, so that a collective of "
            "tensor or context parallelism starts before the matrix product that hides it. "
            "Megatron-LM refuses to start without it before Blackwell."
            + (
                " It also hinders hiding the all-to-all of experts: with "
                "--overlap-moe-expert-parallel-comm measure 32 instead."
                if costs.training.degrees.expert > 1
                else ""
            ),
            "source": MEGATRON_ARGUMENTS,
        }
    if needs.in_network_reduction and needs.crosses_nodes:
        yield {
            "name": "NCCL_COLLNET_ENABLE",
            "value": "1",
            "reason": "Switches add up (the request says they can). Groups within one node are not "
            "concerned: NCCL uses it from 2 nodes on (NCCL_COLLNET_NODE_THRESHOLD). It needs the "
            "SHARP plugin on LD_LIBRARY_PATH, and only the first groups that are made get the "
            "switches' resources. Megatron-LM takes it out of the environment: use its flag there.",
            "source": f"{USER_GUIDE}; {MEGATRON_GROUPS}; NVIDIA/nccl#320",
        }


def _flags(needs: Needs) -> Iterable[Flag]:
    if needs.in_network_reduction and needs.crosses_nodes:
        yield {
            "name": "--use-sharp",
            "reason": "Megatron-LM makes the data-parallel groups first and enables CollNet for "
            "them alone.",
            "source": MEGATRON_GROUPS,
        }


def _connections_unset(costs: CostModel) -> Iterable[Setting]:
    """Why the number of hardware queues stays as it is, where it does."""
    if costs.training.zero_stage >= 2:
        reason = (
            "Sharded gradients and parameters (FSDP) overlap with computation on several hardware "
            "queues; one would put them in a row."
        )
        if _overlaps_in_layers(costs) and not is_blackwell(costs.cluster):
            reason += (
                " Tensor and context parallelism would want 1: Megatron-LM warns against "
                "combining them with FSDP before Blackwell."
            )
    elif is_blackwell(costs.cluster):
        reason = "From Blackwell on Megatron-LM needs no single hardware queue."
    elif not _overlaps_in_layers(costs):
        reason = "Only tensor and context parallelism need collectives in launch order."
    else:
        return
    yield {
        "name": "CUDA_DEVICE_MAX_CONNECTIONS",
        "value": None,
        "reason": reason,
        "source": MEGATRON_ARGUMENTS,
    }


def _unset(needs: Needs) -> Iterable[Setting]:
    yield _leave(
        "NCCL_ALGO",
        f"It holds for every communicator. {_wanted(needs)} Unset, NCCL chooses by "
        "collective, size and topology. From NCCL 2.24 on a collective for which no listed "
        "algorithm exists fails; for an experiment name the collective, as in allreduce:tree.",
    )
    yield _leave("NCCL_PROTO", "Forcing LL128 where it is not supported corrupts data.")
    yield _leave(
        "NCCL_NVLS_ENABLE",
        "The default uses NVLink SHARP wherever the NVSwitches have it. 0 gives back the GPU "
        "memory of its buffers.",
    )
    yield _leave(
        "NCCL_NET_GDR_LEVEL",
        "NCCL uses GPUDirect RDMA where the topology permits it; a fixed level can send it across "
        "the sockets of a node.",
    )
    yield _leave(
        "NCCL_IB_HCA",
        "Names of adapters are not known here. Set it (with = for exact names) only to leave out "
        "adapters that do not belong to the training network.",
    )
    yield _leave(
        "NCCL_SOCKET_IFNAME",
        "Names of interfaces are not known here. Set it (with =) where NCCL picks an interface "
        "that other nodes do not reach.",
    )
    yield _leave(
        "NCCL_CROSS_NIC",
        "The default keeps to the same rail where that is not slower; the network's rails are not "
        "known here.",
    )


def _wanted(needs: Needs) -> str:
    """What the advice of this estimate means for one setting for all."""
    if not needs.algorithms:
        return "No collective here has a choice."
    if len(needs.algorithms) == 1:
        return f"{needs.algorithms[0]} suits all large messages here, which NCCL finds by itself."
    return f"What suits the groups here differs: {', '.join(needs.algorithms)}."


def _leave(name: str, reason: str) -> Setting:
    return {"name": name, "value": None, "reason": reason, "source": USER_GUIDE}


_NEVER: list[Setting] = [
    {
        "name": "NCCL_SHM_DISABLE",
        "value": "1",
        "reason": "Shared memory is how GPUs of a node talk that reach each other neither over "
        "NVLink nor PCIe peer-to-peer; without it they go through the network. It speeds nothing "
        "up where peer-to-peer works.",
        "source": USER_GUIDE,
    },
    {
        "name": "NCCL_P2P_DISABLE",
        "value": "1",
        "reason": "Takes NVLink and PCIe peer-to-peer away from the groups in a node.",
        "source": USER_GUIDE,
    },
    {
        "name": "NCCL_IB_DISABLE",
        "value": "1",
        "reason": "Sends everything between nodes over IP sockets.",
        "source": USER_GUIDE,
    },
    {
        "name": "NCCL_NSOCKS_PERTHREAD",
        "value": None,
        "reason": "Of the socket transport only, like NCCL_SOCKET_NTHREADS: it does nothing for "
        "InfiniBand or RoCE.",
        "source": USER_GUIDE,
    },
]
