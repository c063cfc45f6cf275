"""Modules of any size without memory for their weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

T = TypeVar("T")


def build_fake(make: Callable[[], T], *, dtype: torch.dtype | None = None) -> T:
    """What `make` returns, with fake tensors for all that it creates: shapes and dtypes, no data.

    Everything lies on the CPU as far as PyTorch knows, since fake tensors of a device that this
    PyTorch was not built for end the process. `dtype` becomes the default one meanwhile, as
    `module.to(dtype)` does not work on fake tensors.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with warnings.catch_warnings(), mode, torch.device("cpu"), _default_dtype(dtype):
        # Copying a layer looks at its address, which a fake one has not.
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        return make()


@contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    before: Any = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
