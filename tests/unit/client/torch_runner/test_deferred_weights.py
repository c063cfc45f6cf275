"""Weight gradients that wait for W are those of an ordinary backward."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from client.torch_runner.deferred_weights import defer_weight_gradients  # noqa: E402
from client.torch_runner.errors import StageError  # noqa: E402

ALMOST = 1e-13


def model() -> Any:
    torch.manual_seed(0)
    layers = (nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16, bias=False))
    return nn.Sequential(*layers, nn.Linear(16, 4)).double()


def batch(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 5, 8, dtype=torch.float64, generator=generator).requires_grad_()


def test_gradients_come_with_the_weight_pass_in_any_order() -> None:
    plain, deferred = model(), model()
    dw_builder = defer_weight_gradients(deferred)
    assert list(deferred.state_dict()) == list(plain.state_dict())
    passes = []
    for seed in range(3):
        own, other = batch(seed), batch(seed)
        plain(own).square().sum().backward()
        deferred(other).square().sum().backward()
        passes.append(dw_builder())
        assert torch.allclose(own.grad, other.grad, rtol=0, atol=ALMOST)
    assert deferred[0].weight.grad is None
    # A norm's gradient is there at I.
    assert deferred[1].weight.grad is not None
    for run in reversed(passes):
        run()
    for ours, theirs in zip(deferred.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=ALMOST)


def test_a_weight_pass_frees_what_it_used() -> None:
    module = model()
    dw_builder = defer_weight_gradients(module)
    module(batch(0)).sum().backward()
    run = dw_builder()
    run()
    before = module[0].weight.grad.clone()
    run()
    assert torch.equal(module[0].weight.grad, before)


def test_what_a_trial_run_left_is_dropped() -> None:
    module = model()
    dw_builder = defer_weight_gradients(module)
    x = batch(0)
    # As PyTorch does to infer shapes.
    torch.autograd.grad(module(x).sum(), x)
    module(x).sum().backward()
    dw_builder()()
    expected = model()
    expected(batch(0)).sum().backward()
    assert torch.allclose(module[0].weight.grad, expected[0].weight.grad, rtol=0, atol=ALMOST)


def test_frozen_weights_have_no_gradient() -> None:
    module = model()
    module[0].weight.requires_grad_(False)
    dw_builder = defer_weight_gradients(module)
    module(batch(0)).sum().backward()
    dw_builder()()
    assert module[0].weight.grad is None
    assert module[0].bias.grad is not None


def test_autocast_computes_in_its_own_precision() -> None:
    module = model().float()
    dw_builder = defer_weight_gradients(module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(batch(0).float())
    assert output.dtype is torch.bfloat16
    output.sum().backward()
    dw_builder()()
    assert module[0].weight.grad.dtype is torch.float32


def test_misuse_is_refused() -> None:
    module = model()
    defer_weight_gradients(module)
    with pytest.raises(StageError, match="already"):
        defer_weight_gradients(module)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.deepcopy(module)
    with pytest.raises(StageError, match=r"no nn\.Linear"):
        defer_weight_gradients(nn.LayerNorm(4))
