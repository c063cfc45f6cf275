"""The state of one dispatch: what has started and ended, what is in memory, and what comes next."""

from __future__ import annotations

from heapq import heappop, heappush

from planner.pipeline.dispatch.admission import DeviceMemory, HostMemory, Phase
from planner.pipeline.dispatch.outlook import Outlook
from planner.pipeline.dispatch.policy import DispatchPolicy
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp

FAR = 2**62


class DispatchState:
    """Operations of each stage run in micro-batch order; lists are per stage or device.

    `dirty` holds the devices on which something has changed since they were last looked at.
    `next_*` are the next micro-batches to start, `ended_*` how many have ended. `reloaded_ns`
    holds, for each offloaded micro-batch of a stage, when its reload ends (FAR while unknown).
    """

    def __init__(
        self,
        problem: PipelineProblem,
        policy: DispatchPolicy,
        needed: frozenset[tuple[int, int]],
    ) -> None:
        self.problem, self.policy, self.needed = problem, policy, needed
        stages, count = problem.stages, problem.micro_batches
        n = len(stages)
        self.count = count
        self.device_of = [stage.device for stage in stages]
        self.memory = [
            DeviceMemory(problem, d, needed, policy.offload) for d in range(len(problem.devices))
        ]
        self.hosts = [HostMemory(problem, h, needed) for h in range(len(problem.hosts))]
        self.outlook = Outlook(problem)
        self.duration: dict[OpKind, list[tuple[int, ...]]] = {
            "F": [s.forward_ns for s in stages],
            "B": [s.backward_input_ns for s in stages],
            "W": [s.backward_weight_ns for s in stages],
            "O": [s.offload_ns for s in stages],
            "R": [s.reload_ns for s in stages],
        }
        self.has_w = [[stage.has_weight_op(m) for m in range(count)] for stage in stages]
        self.allocation = [[s.backward_allocation_bytes(m) for m in range(count)] for s in stages]
        self.next_f, self.next_b, self.next_w = [0] * n, [0] * n, [0] * n
        self.ended_b, self.ended_w = [0] * n, [0] * n
        self.f_ready_ns = [[0 if s == 0 else FAR] * count for s in range(n)]
        self.b_ready_ns = [[FAR] * count for _ in stages]
        self.reloaded_ns: list[dict[int, int]] = [{} for _ in stages]
        self.awaiting_offload: list[list[int]] = [[] for _ in stages]
        self.awaiting_reload: list[list[int]] = [[] for _ in stages]
        self.device_free_ns = [0] * len(problem.devices)
        self.crowded = [False] * len(problem.devices)
        self.backward_seen = [False] * len(problem.devices)
        self.events: list[tuple[int, int, OpKind | None, int, int]] = []
        self.ops: list[TimedOp] = []
        self.dirty = set(range(len(problem.devices)))
        self._pushed = 0

    def wake_at(self, when: int, s: int) -> None:
        """Look at the stage's device again then."""
        self._push(when, None, s, 0)

    def _push(self, when: int, op: OpKind | None, s: int, m: int) -> None:
        self._pushed += 1
        heappush(self.events, (when, self._pushed, op, s, m))

    def advance(self) -> int:
        """Go to the next instant at which something happens and apply all that ends there."""
        now = self.events[0][0]
        while self.events and self.events[0][0] == now:
            _, _, op, s, m = heappop(self.events)
            self.dirty.add(self.device_of[s])
            if op is not None:
                self._end(op, s, m)
        return now

    def _end(self, op: OpKind, s: int, m: int) -> None:
        stage = self.problem.stages[s]
        memory = self.memory[stage.device]
        if op == "F":
            selected = self.policy.offload[s][m] or (s, m) in self.needed
            if selected and stage.offload_bytes[m] and m >= self.next_b[s]:
                self.awaiting_offload[s].append(m)
        elif op == "B":
            memory.used -= stage.backward_free_bytes(m)
            self.ended_b[s] += 1
            if not self.has_w[s][m]:
                self.ended_w[s] += 1
        elif op == "W":
            memory.used -= stage.late_bytes(m)
            self.ended_w[s] += 1
        elif op == "O":
            memory.used -= stage.offload_bytes[m]
            self.awaiting_reload[s].append(m)
        else:
            host = self.problem.devices[stage.device].host
            if host is not None:
                self.hosts[host].release(m, stage.offload_bytes[m])

    def _run(self, op: OpKind, s: int, m: int, now: int) -> int:
        end = now + self.duration[op][s][m]
        self.ops.append(TimedOp(op, s, m, now, end))
        self._push(end, op, s, m)
        self.dirty.add(self.device_of[s])
        return end

    def start_forward(self, s: int, now: int) -> None:
        """Run the stage's next F."""
        m, d = self.next_f[s], self.device_of[s]
        self.memory[d].used += self.problem.stages[s].activation_bytes[m]
        self.memory[d].enter(s, m, Phase.RESIDENT)
        self.next_f[s] += 1
        end = self.device_free_ns[d] = self._run("F", s, m, now)
        self.outlook.forward_started(s, m, end)
        if s + 1 == len(self.problem.stages):
            self.b_ready_ns[s][m] = end
        else:
            self.f_ready_ns[s + 1][m] = end + self.problem.transfers[s].forward_ns[m]
            self.wake_at(self.f_ready_ns[s + 1][m], s + 1)

    def start_backward(self, s: int, now: int) -> None:
        """Run the stage's next B."""
        m, d = self.next_b[s], self.device_of[s]
        self.memory[d].used += self.allocation[s][m]
        self.memory[d].enter(s, m, Phase.SPENT)
        if m in self.awaiting_offload[s]:
            self.awaiting_offload[s].remove(m)
        host = self.problem.devices[d].host
        if host is not None and m not in self.reloaded_ns[s]:
            self.hosts[host].waive(s, m, self.problem.stages[s].offload_bytes[m])
        self.next_b[s] += 1
        self.backward_seen[d] = True
        end = self.device_free_ns[d] = self._run("B", s, m, now)
        self.outlook.backward_started(s, m, end)
        if s:
            self.b_ready_ns[s - 1][m] = end + self.problem.transfers[s - 1].backward_ns[m]
            self.wake_at(self.b_ready_ns[s - 1][m], s - 1)

    def start_weight(self, s: int, now: int) -> None:
        """Run the stage's next W."""
        m = self.next_w[s]
        self.next_w[s] += 1
        self.device_free_ns[self.device_of[s]] = self._run("W", s, m, now)

    def start_offload(self, s: int, m: int, now: int) -> int:
        """Run O and return its end."""
        host = self.problem.devices[self.device_of[s]].host
        if host is not None:
            self.hosts[host].store(s, m, self.problem.stages[s].offload_bytes[m])
        self.memory[self.device_of[s]].enter(s, m, Phase.OFFLOADED)
        self.awaiting_offload[s].remove(m)
        self.reloaded_ns[s][m] = FAR
        return self._run("O", s, m, now)

    def start_reload(self, s: int, m: int, now: int) -> int:
        """Run R and return its end."""
        memory = self.memory[self.device_of[s]]
        memory.used += self.problem.stages[s].offload_bytes[m]
        memory.enter(s, m, Phase.RELOADED)
        self.awaiting_reload[s].remove(m)
        end = self.reloaded_ns[s][m] = self._run("R", s, m, now)
        return end

    def forward_is_safe(self, s: int) -> bool:
        """Whether the stage's next F fits now and keeps its device safe."""
        m, memory = self.next_f[s], self.memory[self.device_of[s]]
        return memory.fits(self.problem.stages[s].activation_bytes[m]) and memory.is_safe_after(
            s, m, Phase.RESIDENT
        )

    def reload_is_safe(self, s: int, m: int) -> bool:
        """Whether R fits now and keeps its device safe."""
        memory = self.memory[self.device_of[s]]
        return memory.fits(self.problem.stages[s].offload_bytes[m]) and memory.is_safe_after(
            s, m, Phase.RELOADED
        )

    def offload_is_admitted(self, s: int, m: int) -> bool:
        """Whether the host has room for O."""
        host = self.problem.devices[self.device_of[s]].host
        size = self.problem.stages[s].offload_bytes[m]
        return host is None or self.hosts[host].admits(s, m, size)

    def next_weight(self, d: int) -> int | None:
        """The stage of the device with the oldest W that can run."""
        best, best_m = None, self.count
        for s in self.memory[d].stages:
            while self.next_w[s] < self.count and not self.has_w[s][self.next_w[s]]:
                self.next_w[s] += 1
            if self.next_w[s] < min(self.ended_b[s], best_m):
                best, best_m = s, self.next_w[s]
        return best
