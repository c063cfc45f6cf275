"""A whole profile: load, measure, and put together with what it was measured on."""

from __future__ import annotations

import torch

from client.errors import InputError
from client.torch_profile.machine import this_machine
from client.torch_profile.measure import measure
from client.torch_profile.pipeline import load_pipeline
from client.torch_profile.problem import Link, Profile
from client.torch_profile.splits import Split


def run_profile(
    target: str,
    *,
    stages: int,
    micro_batches: int,
    split: str,
    repeat: int,
    threads: int,
    device_name: str | None = None,
    link: Link | None = None,
) -> Profile:
    """Measure the pipeline that the factory `target` (FILE.py:FACTORY) returns.

    Raises `InputError` if the target, what it returns or the device is wrong.
    """
    device = _device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    pipeline = load_pipeline(target, stages, device)
    # Before, so that the load is not the profile's own.
    machine = this_machine(device, threads)
    measured = measure(pipeline, Split(split), repeat=repeat, threads=threads)
    return Profile(
        name=pipeline.name,
        split=Split(split),
        micro_batches=micro_batches,
        repeat=repeat,
        measured=measured,
        machine=machine,
        link=link,
    )


def _device(name: str | None) -> torch.device:
    usable = torch.cuda.is_available()
    try:
        device = torch.device(name or ("cuda:0" if usable else "cpu"))
    except RuntimeError as error:
        raise InputError("--device", f"{name} is no device.", "Give cpu or cuda:0.") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not usable):
        raise InputError("--device", f"PyTorch cannot use {name} here.", "Give cpu.")
    return device
