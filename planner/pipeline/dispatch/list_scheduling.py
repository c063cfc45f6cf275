"""An event-driven list scheduler that obeys every rule of the problem and always finishes.

At each instant it first applies what ends, then lets each idle host link and device start what
the policy prefers among what is ready, fits and keeps the memory safe (see `admission`). Where
the policy would wait for ever, the oldest micro-batch that can go on does.
"""

from __future__ import annotations

from itertools import count

from planner.errors import Interrupted, OrderError
from planner.pipeline.dispatch.admission import Phase, needed_offloads
from planner.pipeline.dispatch.policy import DispatchPolicy
from planner.pipeline.dispatch.state import FAR, DispatchState
from planner.pipeline.dispatch.transfer_choices import TransferChoices
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.progress import StopCheck, never

INSTANTS_BETWEEN_CHECKS = 64


def dispatch(
    problem: PipelineProblem, policy: DispatchPolicy, should_stop: StopCheck = never
) -> list[TimedOp]:
    """Timed operations of a valid schedule that follows the policy.

    Raises `OrderError` only where one micro-batch at a time does not fit with all the offloads
    it needs in the hosts' memory at once, and `Interrupted` if told to stop.
    """
    needed = needed_offloads(problem)
    if needed is None:
        raise OrderError("one micro-batch at a time does not fit")
    return ListScheduler(problem, policy, needed).run(should_stop)


class ListScheduler:
    """One dispatch of a problem under a policy."""

    def __init__(
        self,
        problem: PipelineProblem,
        policy: DispatchPolicy,
        needed: frozenset[tuple[int, int]],
    ) -> None:
        self.policy = policy
        self.state = DispatchState(problem, policy, needed)
        self.links = TransferChoices(self.state)

    def run(self, should_stop: StopCheck = never) -> list[TimedOp]:
        """Dispatch everything. Raises `Interrupted` if told to stop before the end."""
        state = self.state
        now = 0
        for instant in count():
            if instant % INSTANTS_BETWEEN_CHECKS == 0 and should_stop():
                raise Interrupted("stopped before every operation was placed")
            self._start_all(now)
            if not state.events and not self._force(now):
                break
            now = state.advance()
        if min(state.ended_w) < state.count:
            raise OrderError("nothing more can start")
        return state.ops

    def _start_all(self, now: int) -> None:
        """Start what is to start now; links first, since reloads claim memory in time."""
        state = self.state
        while state.dirty:
            devices = sorted(state.dirty)
            state.dirty.clear()
            self.links.start(now, devices)
            for d in devices:
                if state.device_free_ns[d] <= now:
                    self._start_compute(d, now)

    def _start_compute(self, d: int, now: int) -> None:
        """Let an idle device start what the policy prefers, if it prefers anything to waiting."""
        state, policy = self.state, self.policy
        backward, coming_backward, short = self._next_backward(d, now)
        forward, coming_forward, crowded = self._next_forward(d, now)
        if (short or crowded) and not state.crowded[d]:
            # The device's links may now offload what they would have kept.
            state.dirty.add(d)
        state.crowded[d] = short or crowded
        weight = state.next_weight(d)
        if backward is not None and (
            forward is None or state.next_f[forward] >= policy.warm_up[forward]
        ):
            state.start_backward(backward, now)
            return
        if weight is not None and (policy.weight_first or short or crowded):
            state.start_weight(weight, now)
            return
        if forward is not None:
            seen = state.backward_seen[d]
            tolerance = policy.forward_delay_ns if seen else policy.first_backward_delay_ns
            end = now + state.duration["F"][forward][state.next_f[forward]]
            if tolerance is None or end <= coming_backward + tolerance:
                state.start_forward(forward, now)
                return
        if weight is not None:
            end = now + state.duration["W"][weight][state.next_w[weight]]
            coming = min(coming_backward, coming_forward)
            if policy.weight_delay_ns is None or end <= coming + policy.weight_delay_ns:
                state.start_weight(weight, now)
                return

    def _next_backward(self, d: int, now: int) -> tuple[int | None, int, bool]:
        """The stage whose next B is ready and fits (the oldest micro-batch first), when the next
        one that is not ready yet will be, and whether one lacks memory."""
        state = self.state
        memory = state.memory[d]
        best, best_key, coming, short = None, (FAR, 0), FAR, False
        for s in memory.stages:
            m = state.next_b[s]
            if m >= state.next_f[s]:
                continue
            ready = max(state.b_ready_ns[s][m], state.reloaded_ns[s].get(m, 0))
            if ready > now:
                coming = min(coming, ready)
            elif not memory.fits(state.allocation[s][m]):
                short = True
            elif (m, -s) < best_key:
                best, best_key = s, (m, -s)
        return best, coming, short

    def _next_forward(self, d: int, now: int) -> tuple[int | None, int, bool]:
        """The stage whose next F is ready, allowed and safe, when the next one arrives, and
        whether one lacks memory that pending work will free."""
        state, policy = self.state, self.policy
        memory = state.memory[d]
        coming, crowded = FAR, False
        for s in reversed(memory.stages) if policy.deep_first else memory.stages:
            m = state.next_f[s]
            if (
                m == state.count
                or m - state.ended_b[s] >= policy.in_flight[s]
                or m - state.ended_w[s] >= policy.held[s]
            ):
                continue
            if state.f_ready_ns[s][m] > now:
                coming = min(coming, state.f_ready_ns[s][m])
                continue
            stage = state.problem.stages[s]
            room = policy.reload_room * stage.offload_bytes[m] if state.reloaded_ns[s] else 0
            if not memory.is_safe_after(s, m, Phase.RESIDENT):
                continue
            if memory.fits(stage.activation_bytes[m] + room):
                return s, coming, False
            crowded = True
        return None, coming, crowded

    def _force(self, now: int) -> bool:
        """With nothing under way, let go on what the policy holds back: W, then the oldest."""
        state = self.state
        for d in range(len(state.memory)):
            weight = state.next_weight(d)
            if weight is not None:
                state.start_weight(weight, now)
                return True
        for m in range(min(state.ended_b), state.count):
            for s in range(len(state.problem.stages)):
                if self.links.force(m, s, now):
                    return True
                if (
                    state.next_f[s] == m
                    and state.f_ready_ns[s][m] <= now
                    and state.forward_is_safe(s)
                ):
                    state.start_forward(s, now)
                    return True
        return False
