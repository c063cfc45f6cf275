"""torch.export of a module, without PyTorch's noise and with its refusals in our words."""

from __future__ import annotations

import io
import logging
import re
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram, export
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

from client.torch_extract.errors import DataDependent, ExportFailed

BRANCH_REMEDY = (
    "Decide it outside of the model, or use torch.where on both results, so that the same "
    "operators run whatever the data."
)
EXPERTS_REMEDY = (
    "Run the experts as grouped products, in transformers with experts_implementation='grouped_mm'."
)


def export_module(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> ExportedProgram:
    """The module's forward pass as a graph of ATen's operators, none of them decomposed.

    Raises `DataDependent` where what runs depends on values, `ExportFailed` for whatever else.
    """
    leaves = [*module.parameters(), *module.buffers(), *tree_leaves((arguments, keywords))]
    fake = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), None)
    paths = _Paths(module)
    try:
        with _quiet(), paths, fake or _no_mode():
            return export(module, arguments, dict(keywords), strict=False)
    except GuardOnDataDependentSymNode as error:
        raise _data_dependent(error, paths.innermost) from error
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, GuardOnDataDependentSymNode):
                raise _data_dependent(cause, paths.innermost) from error
            cause = cause.__cause__ or cause.__context__
        raise ExportFailed(
            paths.innermost or "model",
            f"cannot be exported by PyTorch {torch.__version__}: "
            f"{type(error).__name__}: {_first_lines(str(error))}",
            "Check that the module runs on these inputs; torch.export.export(strict=False) has to "
            "accept it.",
        ) from error


class _Paths:
    """Follows which module is running, so that a failure can name it."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.innermost = ""
        self._names = dict(module.named_modules())
        self._hooks: list[Any] = []

    def __enter__(self) -> None:
        for path, module in self._names.items():
            self._hooks.append(module.register_forward_pre_hook(self._enter(path)))
            self._hooks.append(module.register_forward_hook(self._leave(path)))

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter(self, path: str) -> Any:
        def hook(*_: object) -> None:
            self.innermost = path

        return hook

    def _leave(self, path: str) -> Any:
        def hook(*_: object) -> None:
            self.innermost = path.rpartition(".")[0]

        return hook


def _data_dependent(error: GuardOnDataDependentSymNode, path: str) -> DataDependent:
    text = str(error)
    found = re.search(r'The following call raised this error:\s+File "([^"]+)", line (\d+)', text)
    source, code = (f"{found[1]}:{found[2]}", "") if found else _own_frame(error)
    if found:
        code = text[found.end() :].strip().splitlines()[1].strip()
    operation = f"`{code}`" if code else "an operation"
    message = "decides by the values of a tensor what runs next."
    remedy = EXPERTS_REMEDY if "expert" in path else BRANCH_REMEDY
    return DataDependent(operation, path, source, message, remedy)


def _own_frame(error: BaseException) -> tuple[str, str]:
    """The innermost line that is not PyTorch's own, and its text."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/torch/" not in frame.filename]
    if not own:
        return "", ""
    return f"{own[-1].filename}:{own[-1].lineno}", own[-1].line or ""


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2])[:300]


@contextmanager
def _no_mode() -> Iterator[None]:
    yield


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch prints the graph so far, and logs, where an export fails."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
