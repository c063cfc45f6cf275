"""Sharding plans on PyTorch modules, with nothing but PyTorch."""

from client.torch_sharding.apply import apply_plan, device_mesh

__all__ = ["apply_plan", "device_mesh"]
