"""What a resolved request says of itself, whichever kind of plan it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar


class Options(Protocol):
    """Settings of a solve."""

    @property
    def engine(self) -> str: ...
    @property
    def mip_gap(self) -> float: ...
    @property
    def time_limit_s(self) -> float: ...


class Spec(Protocol):
    """The canonical form of a request."""

    @property
    def options(self) -> Options: ...
    def to_document(self) -> dict[str, Any]: ...
    def hash(self) -> str: ...
    def problem_hash(self) -> str: ...


SpecT = TypeVar("SpecT", bound=Spec)


@dataclass(frozen=True)
class ResolvedSpec(Generic[SpecT]):
    """A request turned into its canonical spec; `engine_named` if the client chose the engine."""

    resolved: SpecT
    engine_named: bool

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The canonical spec as JSON, which a worker solves."""
        return self.resolved.to_document()

    @cached_property
    def spec_hash(self) -> str:
        """Identifies the spec apart from the engine."""
        return self.resolved.hash()

    @cached_property
    def problem_hash(self) -> str:
        """Identifies what is to be solved apart from the solver's settings."""
        return self.resolved.problem_hash()

    @property
    def shape_hash(self) -> str | None:
        """Equal for requests whose plans can be adapted to each other; None where they cannot."""
        return None

    @property
    def profile(self) -> dict[str, Any] | None:
        """What requests of one shape are compared by; None where plans are made from scratch."""
        return None

    @property
    def is_reproducible(self) -> bool:
        """Whether the answer may depend on nothing but the request."""
        return False

    @property
    def mip_gap(self) -> float:
        """The gap within which an answer is good enough."""
        return self.resolved.options.mip_gap

    @property
    def engine(self) -> str:
        """The engine that solves it."""
        return self.resolved.options.engine

    @property
    def time_limit_s(self) -> float:
        """Seconds that the solve may take."""
        return self.resolved.options.time_limit_s
