"""What a cluster scheduler has to know to start a run: machines, ranks, environment, and where the
plan comes from.

What starts a run is executed: of a plan it gets numbers and the job's id only, no text of a client.
The address of the service is the one exception, and each format quotes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from urllib.parse import urlsplit

from planner.cost.degrees import in_words
from planner.cost.routes import TIERS, Tier
from planner.estimates.communication.layout import Layout
from planner.estimates.communication.nccl import Needs, Setting, nccl_environment
from planner.export.format import Document, Source
from planner.export.run_shape import Run, RunShape, run_shape

NO_SERVICE = (
    "Nodes fetch the plan from a service, and this one was made without: ask a service for the "
    "plan, and export it there."
)
OWN_ADDRESS = (
    "The service's address: this was exported by one that leads each machine to itself (loopback). "
    "Export it with `--server ADDRESS`, the one by which {whose} reach the service, or put that "
    "into {where}."
)
LEFT_OUT = (
    "The training program and its data, the container image, partitions, accounts and time limits, "
    "and which of the network's adapters are to be used."
)
TIER_WORDS = {
    Tier.NODE: "within a node",
    Tier.RACK: "across nodes",
    Tier.ACROSS_RACKS: "across racks",
}
ADAPTERS = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")
"""Of the variables that are left unset, those that depend on the site."""


@dataclass(frozen=True)
class Launch:
    """A plan on its way to a scheduler. `service` is the address to fetch it from."""

    shape: RunShape
    run: Run
    source: Source
    service: str

    @property
    def job_id(self) -> str:
        """The job whose plan it is."""
        return self.source.job_id

    @property
    def name(self) -> str:
        """What the run is called: short enough for the names of pods, which add to it."""
        start = "".join(each for each in self.job_id.lower() if each.isascii() and each.isalnum())
        return f"loadmaster-{start[:8] or 'plan'}"

    @property
    def is_own_address(self) -> bool:
        """Whether `service` leads every machine to itself, and none but one to the service."""
        try:
            host = urlsplit(self.service).hostname or ""
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def nodes_per_rack(self) -> int:
        """Nodes behind one switch, as the plan assumes; all of them where it knows of no racks."""
        return min(self.run.cluster.nodes_per_rack, self.run.nodes)

    @property
    def racks(self) -> int:
        """How many switches the nodes of the run lie behind, at the least."""
        return -(-self.run.nodes // self.nodes_per_rack)

    @property
    def knows_racks(self) -> bool:
        """Whether the plan says how many nodes are behind a switch."""
        return self.run.cluster.nodes_per_rack < self.run.cluster.nodes

    @cached_property
    def layout(self) -> Layout:
        """Which ranks form which groups."""
        return Layout.of(self.run.costs)

    @cached_property
    def environment(self) -> dict[str, str]:
        """Variables to set for every process, for NCCL and frameworks alike."""
        return {
            each["name"]: each["value"]
            for each in self._nccl["variables"]
            if each["value"] is not None
        }

    @property
    def adapters(self) -> list[Setting]:
        """Variables that only the site can set, and whether it has to; none inside one node."""
        if self.run.nodes == 1:
            return []
        return [each for each in self._nccl["leave_unset"] if each["name"] in ADAPTERS]

    @cached_property
    def _nccl(self) -> dict[str, list[Setting]]:
        crosses = any(self.layout.crossing(kind) for kind in self.layout.groups)
        found = nccl_environment(self.run.costs, Needs((), crosses, in_network_reduction=False))
        return {key: found[key] for key in ("variables", "leave_unset")}

    def comments(self, own: str, unsaid: Iterable[str]) -> list[str]:
        """What a file begins with: what it is, the run, its ranks, and what it leaves to others."""
        training = self.run.training
        return [
            f"Loadmaster plan of job {self.job_id}: {own}.",
            f"{self.run.gpus} GPUs, {self.run.gpus_per_node} on each of {self.run.nodes} "
            f"{'node' if self.run.nodes == 1 else 'nodes'}: {in_words(training.degrees)}; "
            f"{self.shape.micro_batches} micro-batches of {training.micro_batch_size}.",
            f"Ranks are numbered node by node. {self.layout.order.formula()} "
            f"({self.layout.order.name}): tensor ranks are neighbours, then those of context, data "
            "and pipeline, as the plan assumes.",
            *self._tiers(),
            "Left to you:",
            f"- {LEFT_OUT}",
            *(f"- {sentence}" for sentence in unsaid),
        ]

    def _tiers(self) -> Iterable[str]:
        """Which groups talk on which tier of the network."""
        for tier in TIERS:
            groups = [
                f"{count} {kind.value.replace('_', ' ')}"
                for kind, reach in self.layout.reach.items()
                if (count := reach[tier])
            ]
            if groups:
                yield f"Groups {TIER_WORDS[tier]}: {', '.join(groups)}."


def launch_of(source: Source) -> Launch:
    """Of a plan that `hindrance` has nothing against."""
    shape = run_shape(source)
    assert shape.run is not None
    assert source.service is not None
    return Launch(shape, shape.run, source, source.service)


def hindrance(_: Document, source: Source) -> str | None:
    """Why no scheduler can start a plan, and what to do instead; None where it can."""
    shape = run_shape(source)
    if shape.run is None:
        return shape.undescribed
    if source.service is None:
        return NO_SERVICE
    return shape.run.partial_node
