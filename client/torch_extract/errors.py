"""Why a model could not be extracted.

InputError (client.errors; one line at the terminal, exit status 2)
└── ExtractionError        the model cannot become a graph
    ├── DataDependent      what runs, or a shape, depends on values of tensors
    └── ExportFailed       torch.export refuses the model for another reason
"""

from __future__ import annotations

from client.errors import InputError


class ExtractionError(InputError):
    """The model cannot become a graph. Names the module at fault and the remedy."""


class DataDependent(ExtractionError):
    """Which operators run, or how large a tensor is, depends on values of tensors.

    `operation` is the one at fault, `module` the path of the module that ran it, `source` the line
    of the program (``file:line`` and its text).
    """

    def __init__(self, operation: str, module: str, source: str, message: str, remedy: str) -> None:
        self.operation = operation
        self.module = module
        self.source = source
        where = f" at {source}" if source else ""
        super().__init__(module or "model", f"{operation}{where} {message}", remedy)


class ExportFailed(ExtractionError):
    """torch.export refuses the model; the reason is PyTorch's."""
