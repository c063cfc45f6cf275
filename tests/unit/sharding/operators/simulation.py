"""Runs an operator on a mesh of simulated devices as its rule says, and checks the result.

Each device runs a program that sees its own blocks only and asks for collectives by yielding them.
Outputs and gradients, put together as the rule says, have to equal those of the whole operator on
one device, and the collectives that took place those that the rule declares.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from planner.sharding.graph import DTYPE_BYTES
from planner.sharding.operators.rule import Degrees, Roles, Rule, Split
from tests.unit.sharding.operators.cases import Case
from tests.unit.sharding.operators.mesh import Array, Device, Mesh, Program, count_of


def check(case: Case, rule: Rule, degrees: Degrees) -> None:
    """Fail unless the devices compute the whole operator's outputs and gradients in the blocks, out
    of the saved tensors and with the collectives that the rule declares."""
    mesh = Mesh(rule, degrees)
    inputs = _blocks(mesh, case.inputs, [own.split for own in rule.inputs])
    weights = _blocks(mesh, case.parameters, [own.split for own in rule.parameters])
    made = mesh.run("forward", lambda d: case.forward(d, inputs[d.place], weights[d.place]))
    outputs = {
        device.place: list(result[0]) for device, result in zip(mesh.devices, made, strict=True)
    }
    for number, own in enumerate(rule.outputs):
        found = [outputs[device.place][number] for device in mesh.devices]
        if rule.outputs[number].partial != Roles():
            found = mesh.reduced(found, own.partial)
        _compare(mesh, found, case.outputs[number], own.split, f"output {number}")
        for device, array in zip(mesh.devices, found, strict=True):
            outputs[device.place][number] = array
    kept = {device.place: result[1] for device, result in zip(mesh.devices, made, strict=True)}
    _check_kept(mesh, [kept[device.place] for device in mesh.devices])
    arriving = _blocks(mesh, case.output_gradients, [own.split for own in rule.outputs])

    def backward(device: Device) -> Program:
        place = device.place
        saved = zip(inputs[place], rule.inputs, strict=True)
        saved_outputs = zip(outputs[place], rule.outputs, strict=True)
        return case.backward(
            device,
            [array if own.saved else None for array, own in saved],
            [array if own.saved else None for array, own in saved_outputs],
            kept[place],
            weights[place],
            arriving[place],
        )

    results = mesh.run("backward", backward)
    _check_gradients(case, mesh, results)
    declared = Counter(
        (
            each.phase,
            each.kind,
            each.role,
            each.size_bytes / DTYPE_BYTES["fp32"] / count_of(degrees, each.splits),
        )
        for each in rule.collectives
    )
    assert mesh.sent == declared


def _check_gradients(case: Case, mesh: Mesh, results: list[Any]) -> None:
    sides = (
        ("input", mesh.rule.inputs, case.input_gradients),
        ("parameter", mesh.rule.parameters, case.parameter_gradients),
    )
    for side, (what, rules, expected) in enumerate(sides):
        for number, (own, whole) in enumerate(zip(rules, expected, strict=True)):
            if whole is None:
                assert own.partial_gradient == Roles()
                continue
            found = mesh.reduced([result[side][number] for result in results], own.partial_gradient)
            _compare(mesh, found, whole, own.split, f"gradient of {what} {number}")


def _blocks(
    mesh: Mesh, arrays: list[Array], splits: list[Split]
) -> dict[tuple[int, ...], list[Array]]:
    return {
        device.place: [device.block(a, s) for a, s in zip(arrays, splits, strict=True)]
        for device in mesh.devices
    }


def _compare(mesh: Mesh, found: list[Array], whole: Array, split: Split, what: str) -> None:
    for device, array in zip(mesh.devices, found, strict=True):
        np.testing.assert_allclose(
            array,
            device.block(whole, split),
            rtol=1e-5,
            atol=1e-6,
            err_msg=f"{what} on device {device.place} of {mesh.degrees}",
        )


def _check_kept(mesh: Mesh, kept: list[list[Array]]) -> None:
    """What devices keep beside inputs and outputs is as large as the rule says, on average."""
    for number, extra in enumerate(mesh.rule.extras):
        sizes = [own[number].size for own in kept]
        assert np.mean(sizes) == extra.elements / count_of(mesh.degrees, extra.splits)
    assert all(len(own) == len(mesh.rule.extras) for own in kept)
