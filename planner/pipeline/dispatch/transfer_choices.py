"""What idle host links start: reloads just in time, then offloads."""

from __future__ import annotations

from collections.abc import Iterable

from planner.pipeline.dispatch.state import FAR, DispatchState


class TransferChoices:
    """The exclusive channels of a problem's host links and what they choose."""

    def __init__(self, state: DispatchState) -> None:
        self.state = state
        problem = state.problem
        able = [s for s, stage in enumerate(problem.stages) if any(stage.offload_bytes)]
        names = sorted({problem.channel(s, op) for s in able for op in "OR"})
        self.reloads = [[s for s in able if problem.channel(s, "R") == name] for name in names]
        self.offloads = [[s for s in able if problem.channel(s, "O") == name] for name in names]
        self.free_ns = [0] * len(names)
        self.wake_ns = [0] * len(problem.stages)
        self.channels_of_device = [
            [
                c
                for c in range(len(names))
                if any(state.device_of[s] == d for s in (*self.reloads[c], *self.offloads[c]))
            ]
            for d in range(len(problem.devices))
        ]
        # Where a host has a limit, a reload on any device may let an offload of another start.
        self.coupled = any(host.memory_bytes is not None for host in problem.hosts)

    def start(self, now: int, devices: Iterable[int]) -> None:
        """Start what the policy wants on the idle channels of these devices."""
        if self.coupled:
            channels = set(range(len(self.free_ns)))
        else:
            channels = {c for d in devices for c in self.channels_of_device[d]}
        for c in sorted(channels):
            while self.free_ns[c] <= now and (
                self._start_reload(c, now) or self._start_offload(c, now)
            ):
                pass

    def _start_reload(self, c: int, now: int) -> bool:
        """Start the most urgent reload that is due and fits; wake up for those due later."""
        state = self.state
        best = None
        for s in self.reloads[c]:
            if not state.awaiting_reload[s]:
                continue
            m = min(state.awaiting_reload[s])
            backward_ns = state.outlook.backward_ns(s, m, state.next_b[s], now)
            lead = int(state.duration["R"][s][m] * (1 + state.policy.reload_slack))
            if backward_ns - lead > now:
                # Only the path sets an alarm: when older backwards are what it waits for, their
                # starts bring the reload up again.
                due = state.outlook.path_ns(s, m) - lead
                if due > now and self.wake_ns[s] != due:
                    self.wake_ns[s] = due
                    state.wake_at(due, s)
            elif best is None or backward_ns < best[0]:
                if state.reload_is_safe(s, m):
                    best = (backward_ns, s, m)
                else:
                    state.crowded[state.device_of[s]] = True
        if best is None:
            return False
        self.free_ns[c] = state.start_reload(best[1], best[2], now)
        return True

    def _start_offload(self, c: int, now: int) -> bool:
        """Start the first offload in line that is wanted and that its host admits."""
        state = self.state
        newest = state.policy.newest_offload_first
        found = None
        for s in self.offloads[c]:
            line = state.awaiting_offload[s]
            for m in reversed(line) if newest else line:
                if self._wants_offload(s, m, now) and state.offload_is_admitted(s, m):
                    if found is None or (m > found[0]) == newest:
                        found = (m, s)
                    break
        if found is None:
            return False
        self.free_ns[c] = state.start_offload(found[1], found[0], now)
        return True

    def _wants_offload(self, s: int, m: int, now: int) -> bool:
        """Offloads that memory needs, and those that are back before their backward is due."""
        state = self.state
        if (s, m) in state.needed:
            return True
        memory = state.memory[state.device_of[s]]
        if state.crowded[state.device_of[s]] and m > state.next_b[s]:
            return True
        above = state.policy.offload_above
        if above is not None and memory.used <= above * (memory.limit or FAR):
            return False
        away = state.duration["O"][s][m] + state.duration["R"][s][m]
        return state.outlook.backward_ns(s, m, state.next_b[s], now) >= now + away

    def force(self, m: int, s: int, now: int) -> bool:
        """Start the reload or the offload of this micro-batch if it can start at all."""
        state = self.state
        if m in state.awaiting_reload[s] and state.reload_is_safe(s, m):
            state.start_reload(s, m, now)
            return True
        if m in state.awaiting_offload[s] and state.offload_is_admitted(s, m):
            state.start_offload(s, m, now)
            return True
        return False
