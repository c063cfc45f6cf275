"""How much memory the solver of a service on this machine takes, read from Linux's /proc."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

SERVER = b"workers.solver_server"
"""In the command line of the process that forks the solvers, and so in theirs."""
KIB = 1024


class Process(NamedTuple):
    """One process: its parent, whether it is a solver server or forked from one, and its peak
    resident memory."""

    parent: int
    is_of_server: bool
    peak_bytes: int


class SolverMemory:
    """The most memory that one solver process and the engines under it have held together.

    Each counts with the peak of its own resident memory, so the sum may be somewhat above what
    was held at one instant; pages that they share count once for each. Solves of others on the
    same machine would be taken for the benchmark's own.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self.peak_bytes: int | None = None

    def sample(self) -> None:
        """Look at the processes that there are now."""
        processes = self._processes()
        children: dict[int, list[int]] = defaultdict(list)
        for pid, process in processes.items():
            children[process.parent].append(pid)
        for pid, process in processes.items():
            parent = processes.get(process.parent)
            if process.is_of_server and parent is not None and parent.is_of_server:
                family = [pid]
                for member in family:
                    family += children[member]
                total = sum(processes[member].peak_bytes for member in family)
                self.peak_bytes = max(total, self.peak_bytes or 0)

    def _processes(self) -> dict[int, Process]:
        found = {}
        for folder in self._proc.glob("[0-9]*"):
            try:
                status = (folder / "status").read_text()
                command = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                # It has ended, or is none of ours.
                continue
            fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            peak_kib = int(fields.get("VmHWM", "0 kB").split()[0])
            found[int(folder.name)] = Process(
                int(fields["PPid"]), SERVER in command, peak_kib * KIB
            )
        return found
