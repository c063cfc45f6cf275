"""Ranks agree on the newest version that all of them have, whatever single ranks have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from client.torch_following.agreement import SLOTS, Agreement  # noqa: E402


class OneProcess:
    """An all-reduce among ranks that are simulated one after the other."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []

    def all_reduce(self, tensor: Any, op: Any, group: Any, async_op: bool) -> OneProcess:
        assert (op, async_op) == (torch.distributed.ReduceOp.MIN, True)
        self.tensors.append(tensor)
        return self

    def wait(self) -> None:
        least = torch.stack(self.tensors).amin(dim=0)
        for tensor in self.tensors:
            tensor.copy_(least)


@pytest.fixture
def agreed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What ranks agree on that could run these versions."""

    def agree(*versions_of_rank: Iterable[int]) -> int | None:
        process = OneProcess()
        monkeypatch.setattr("torch.distributed.all_reduce", process.all_reduce)
        monkeypatch.setattr("torch.distributed.get_backend", lambda _: "gloo")
        ranks = [Agreement() for _ in versions_of_rank]
        for rank, versions in zip(ranks, versions_of_rank, strict=True):
            rank.propose(versions)
        found = {rank.agreed() for rank in ranks}
        assert len(found) == 1
        assert {rank.agreed() for rank in ranks} == {None}
        return found.pop()

    return agree


@pytest.mark.parametrize(
    ("versions_of_rank", "expected"),
    [
        ([[1, 2], [1, 2], [1, 2]], 2),
        ([[1, 2], [1], [1, 2]], 1),
        ([[1, 2], [], [1, 2]], None),
        ([[], []], None),
        ([[1, 3], [2, 3], [3]], 3),
        # The least of the newest ones is 2, which the second rank does not have.
        ([[1, 2], [1, 3]], 1),
        ([[2], [3]], None),
        # In the same slot.
        ([[3], [3 + SLOTS]], None),
        ([[3 + SLOTS, 2], [3, 2]], 2),
        ([[100, 101, 102, 103]] * 4, 103),
    ],
)
def test_the_newest_version_of_all_ranks_wins(
    versions_of_rank: list[list[int]], expected: int | None, agreed: Any
) -> None:
    assert agreed(*versions_of_rank) == expected
