"""Names of operators: the paths of the modules that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from client.operator_graph.records import ParameterRecord
from client.operator_graph.trace import Step

LONGEST = 180
"""The graph allows 200 characters; numbers and layers come on top."""


class Names:
    """Gives out names, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of_operator(self, step: Step, kind: str, parameters: Sequence[ParameterRecord]) -> str:
        """The path of the module, where the operator is its own or holds its weights; else the
        path of the module that runs it and the kind."""
        path = step.module
        if parameters:
            owner = parameters[0].source.name.rpartition(".")[0]
            if owner == path or (owner.startswith(f"{path}.") and path) or (owner and not path):
                return self.unique(_called(owner, step.call) or kind)
        own = _called(path, step.call)
        if (parameters or step.unit) and own and own not in self._taken:
            return self.unique(own)
        return self.unique(f"{own}.{kind}" if own else kind)

    def unique(self, name: str) -> str:
        """The name, with a number behind it where it is taken."""
        name = name[-LONGEST:]
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def own_name(path: str) -> str:
    """The last part of a parameter's path."""
    return path.rpartition(".")[2]


def _called(path: str, call: int) -> str:
    return f"{path}@{call}" if path and call else path
