"""Where a node keeps offloaded activations: the memory of its sockets, and an SSD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from planner.documents import Document, FiniteNumber, PositiveWhole, Refused, WholeNumber
from planner.errors import SpecError

Path = tuple[str | int, ...]
Rate = Annotated[FiniteNumber, Field(ge=1, le=1e18)]
Share = Annotated[FiniteNumber, Field(gt=0, le=1)]

LOCAL, INTERLEAVE, AUTO = "local", "interleave", "auto"


class Tier(StrEnum):
    """Memory below that of the GPU."""

    DRAM = "dram"
    SSD = "ssd"


def _socket(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value in (LOCAL, INTERLEAVE, AUTO) or is_number:
        return value
    raise Refused(
        "must be local, interleave, auto or the number of a socket",
        "local: each GPU's own socket; interleave: pages go round all sockets.",
    )


class HostTiersDocument(Document):
    """The host side of a node, beside how much memory it has."""

    numa: list[list[WholeNumber]] | None = Field(
        default=None, description="The GPUs (from 0) of each socket; absent = one socket."
    )
    numa_remote_factor: Share | None = Field(
        default=None,
        description="Share of a GPU's rate to its own socket's memory that it reaches to another "
        "socket's. Measure it; it differs between machines.",
    )
    host_memory_numa: Annotated[Any, BeforeValidator(_socket, json_schema_input_type=str | int)] = (
        Field(
            default=LOCAL,
            description="Which socket's memory offloads land in: `local` (each GPU's own), "
            "`interleave` (pages go round all sockets), a socket's number, or `auto`: whichever "
            "of the first two gives the better schedule.",
        )
    )
    ssd_bytes_per_s: Rate | None = Field(
        default=None,
        description="What a node's SSDs write or read, the slower of the two, shared by its GPUs.",
    )
    ssd_memory_bytes: PositiveWhole | None = Field(
        default=None, description="Of a node's SSDs, for offloaded activations."
    )


@dataclass(frozen=True, slots=True)
class Ssd:
    """The SSDs of a node together."""

    bytes_per_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class HostTiers:
    """`socket_of` numbers the socket of each GPU of a node, of which there are `sockets`;
    `landing` is `host_memory_numa`."""

    sockets: int
    socket_of: tuple[int, ...]
    remote_factor: float
    landing: str | int
    ssd: Ssd | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> HostTiers:
        """What `dataclasses.asdict` wrote and JSON carried."""
        ssd = document["ssd"]
        return cls(
            **{
                **document,
                "socket_of": tuple(document["socket_of"]),
                "ssd": None if ssd is None else Ssd(**ssd),
            }
        )

    @property
    def interleaved_factor(self) -> float:
        """Rate to memory whose pages go round n sockets, over that to the own socket's: of each n
        bytes one takes as long as a local one and n - 1 as long as remote ones."""
        local = 1 / self.sockets
        return 1 / (local + (1 - local) / self.remote_factor)


def read_host_tiers(document: HostTiersDocument, gpus_per_node: int, path: Path) -> HostTiers:
    """Check the fields against each other. Raises `SpecError`."""
    if (document.ssd_bytes_per_s is None) != (document.ssd_memory_bytes is None):
        missing = "ssd_bytes_per_s" if document.ssd_bytes_per_s is None else "ssd_memory_bytes"
        raise SpecError((*path, missing), "is required for SSDs.", f"Give `{missing}`.")
    ssd = None
    if document.ssd_bytes_per_s is not None and document.ssd_memory_bytes is not None:
        ssd = Ssd(document.ssd_bytes_per_s, document.ssd_memory_bytes)
    if document.numa is None:
        _check_without_numa(document, path)
        return HostTiers(1, (0,) * gpus_per_node, 1.0, LOCAL, ssd)
    socket_of = _sockets(document.numa, gpus_per_node, path)
    landing = document.host_memory_numa
    if isinstance(landing, int) and landing >= len(document.numa):
        raise SpecError(
            (*path, "host_memory_numa"),
            f"there is no socket {landing}.",
            f"`numa` lists {len(document.numa)}, from 0.",
        )
    if document.numa_remote_factor is None and landing != LOCAL:
        raise SpecError(
            (*path, "numa_remote_factor"),
            "is required where offloads leave a GPU's own socket.",
            "Measure host-to-device copies with numactl, or give `host_memory_numa`: local.",
        )
    factor = document.numa_remote_factor or 1.0
    return HostTiers(len(document.numa), socket_of, factor, landing, ssd)


def _check_without_numa(document: HostTiersDocument, path: Path) -> None:
    given = {
        "numa_remote_factor": document.numa_remote_factor is not None,
        "host_memory_numa": document.host_memory_numa != LOCAL,
    }
    for field in (name for name, is_given in given.items() if is_given):
        raise SpecError(
            (*path, field),
            "has no meaning without `numa`.",
            "Give the GPUs of each socket, such as [[0, 1, 2, 3], [4, 5, 6, 7]].",
        )


def _sockets(groups: Sequence[Sequence[int]], count: int, path: Path) -> tuple[int, ...]:
    socket_of: dict[int, int] = {}
    for number, group in enumerate(groups):
        for place, index in enumerate(group):
            where = (*path, "numa", number, place)
            if index >= count:
                raise SpecError(where, f"there is no GPU {index}.", f"A node has {count}, from 0.")
            if index in socket_of:
                raise SpecError(where, f"GPU {index} is already at a socket.", "List it once.")
            socket_of[index] = number
    missing = [index for index in range(count) if index not in socket_of]
    if missing:
        raise SpecError(
            (*path, "numa"),
            f"lists no socket for GPU {missing[0]}.",
            f"Every GPU of a node (0 to {count - 1}) belongs to one.",
        )
    return tuple(socket_of[index] for index in range(count))
