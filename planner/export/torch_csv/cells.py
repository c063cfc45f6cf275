"""Operations in PyTorch's notation: stage, kind, micro-batch, as in `2F0`."""

from __future__ import annotations

import re
from typing import NamedTuple

COMPUTE = "FBIW"
"""Forward; whole backward; backward for the input, and for the weights. O and R, offload and
reload, are no operations of PyTorch's."""
_CELL = re.compile(r"(\d{1,18})([A-Z]+)(\d{1,18})", re.ASCII)
"""No schedule has numbers of more digits, and Python refuses to read very long ones."""


class Cell(NamedTuple):
    """One operation of a rank."""

    stage: int
    kind: str
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


def parsed(text: str) -> Cell | None:
    """The operation that the whole text names, whatever its kind; None if it is none."""
    match = _CELL.fullmatch(text.strip())
    return Cell(int(match[1]), match[2], int(match[3])) if match else None
