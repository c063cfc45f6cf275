"""FLOPs of a forward pass, 2 per multiply-add, of the operators that are products.

A linear layer of m tokens takes 2 m k n, attention 4 b a s^2 e (half of that where causal), each
expert's matrices 2 h f per token that goes through them (Shoeybi et al. 2019, section 3; Narayanan
et al. 2021; Dao 2023, section 4.1). Everything else counts nothing: it is bound by memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Shape = tuple[int, ...]


def product_flops(
    kind: str,
    inputs: list[Shape],
    outputs: list[Shape],
    parameters: list[Shape],
    attributes: Mapping[str, Any],
) -> int:
    """Of one operator with tensors and parameters of these shapes."""
    if kind in ("linear", "router"):
        return 2 * math.prod(inputs[0][:-1]) * math.prod(parameters[0])
    if kind == "matmul":
        return 2 * math.prod(outputs[0]) * inputs[0][-1]
    if kind == "attention":
        q, k, v = inputs
        whole = 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])
        return whole // 2 if attributes.get("causal") else whole
    if kind == "conv":
        return 2 * math.prod(outputs[0]) // outputs[0][1] * math.prod(parameters[0])
    if kind == "experts":
        per_expert = sum(math.prod(shape[1:]) for shape in parameters if len(shape) == 3)
        chosen: int = attributes["experts_per_token"]
        return 2 * math.prod(inputs[0][:-1]) * chosen * per_expert
    return 0
