"""What is offloaded is a micro-batch's own, and comes back as it was."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from client.torch_runner.copies import CpuCopies  # noqa: E402
from client.torch_runner.errors import OffloadError  # noqa: E402
from client.torch_runner.offloads import Offloads  # noqa: E402

KEY = (0, 0)
WIDTH, ROWS = 8, 4
FLOAT_BYTES = 8


class Cached(nn.Module):
    """Keeps a mask of its own, as rotary embeddings do, without registering it."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Any = None

    def forward(self, x: Any) -> Any:
        if self.mask is None:
            self.mask = torch.ones(x.shape, dtype=x.dtype)
        return x * self.mask


@pytest.fixture
def offloads() -> Offloads:
    return Offloads(CpuCopies())


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), Cached(), nn.Tanh()).double()


def batch() -> Any:
    return torch.linspace(-1, 1, ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH)


def gradient(module: Any) -> Any:
    return module[0].weight.grad


def expected() -> Any:
    plain = model()
    plain(batch()).sum().backward()
    return gradient(plain)


def test_only_what_belongs_to_the_micro_batch_moves(offloads: Offloads) -> None:
    module, x = model(), batch()
    with offloads.saving(KEY):
        output = module(x)
    # The first Tanh's result, which two operations save. Weights, mask, input and the second
    # Tanh's result, the output, are held by others too.
    held = module[2].mask.untyped_storage().nbytes()
    moved = offloads.offload(KEY)
    assert moved == ROWS * WIDTH * FLOAT_BYTES
    assert module[2].mask.untyped_storage().nbytes() == held
    assert output.untyped_storage().nbytes() == held
    assert offloads.reload(KEY) == moved
    output.sum().backward()
    assert torch.equal(gradient(module), expected())


def test_a_backward_without_reload_is_refused(offloads: Offloads) -> None:
    module = model()
    with offloads.saving(KEY):
        output = module(batch())
    offloads.offload(KEY)
    with pytest.raises(OffloadError, match="Reload it first"):
        output.sum().backward()


def test_nothing_is_reloaded_that_was_not_offloaded(offloads: Offloads) -> None:
    with pytest.raises(OffloadError, match="micro-batch 0"):
        offloads.reload(KEY)


def test_a_change_in_place_is_found(offloads: Offloads) -> None:
    x = batch().requires_grad_()
    with offloads.saving(KEY):
        middle = x.exp()
        output = middle.sum()
    with torch.no_grad():
        middle.mul_(2)
    with pytest.raises(OffloadError, match="changed"):
        output.backward()


def test_a_storage_is_free_as_soon_as_the_backward_is_done_with_it(offloads: Offloads) -> None:
    x = batch().requires_grad_()
    with offloads.saving(KEY):
        middle = x.tanh() * 2
        output = middle.tanh().sum()
    offloads.offload(KEY)
    offloads.reload(KEY)
    saved = [reference() for reference in offloads._saved[KEY]]
    moved = [weakref.ref(own.tensor.untyped_storage()) for own in saved if own and own.parked]
    del saved
    assert len(moved) == 2
    left: list[int] = []
    # Between the backwards of the two, of which each saved its result.
    middle.register_hook(lambda _: left.append(sum(own() is not None for own in moved)))
    output.backward()
    assert left == [1]


def test_the_next_iteration_starts_afresh(offloads: Offloads) -> None:
    module = model()
    for _ in range(2):
        offloads.begin_step()
        with offloads.saving(KEY):
            output = module(batch())
        assert offloads.offload(KEY) > 0
        offloads.reload(KEY)
        module.zero_grad()
        output.sum().backward()
    assert torch.equal(gradient(module), expected())
