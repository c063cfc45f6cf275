"""Local search over the token sequences of all devices: annealing chains side by side.

Each chain runs in a thread of its own, in compiled code without the GIL. A search is a series of
cycles, each longer than the one before; in a cycle a chain cools once. Between cycles the chains
meet: the first goes on from the best of all, the others from their own best, unless they have
fallen behind. So the answer of a search that is limited by moves depends on its seed alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from planner.cores import allowed_threads
from planner.pipeline.kernel.tables import Integers, Tables, sequences_of, tables_of
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.search.chain import Chain
from planner.pipeline.timing import schedule_from_ops
from planner.progress import StopCheck

SHARES = (0.04, 0.08, 0.13, 0.2, 0.25, 0.3)
"""How a search's budget is divided into cycles."""
WARM = (0.0003, 0.001, 0.0003, 0.003, 0.0005, 0.001)
"""Temperatures at which chains begin their cycles, as shares of the objective, in turn. Little
warmth finds what is near in few moves; more is for problems that are timed fast."""
COLD = 0.000_01
"""Temperature at the end of each cycle, likewise."""
ROUNDS_PER_CYCLE = 16
FIRST_ROUND = 2_000
ROUND_S = 0.4
POLL_S = 0.1
BEHIND = 1.01
"""A chain whose best is longer than the best of all by this factor gives it up."""


@dataclass(frozen=True)
class SearchSettings:
    """`iterations`: moves in all, over all chains; if None, the search ends at `deadline` (of
    `time.monotonic`). It ends early when `good_ns`, a proven bound, is reached."""

    threads: int
    seed: int
    good_ns: int
    deadline: float
    iterations: int | None = None


@dataclass(frozen=True)
class SearchOutcome:
    """The best schedule, if it is better than all starts, and how many moves were tried."""

    schedule: Schedule | None
    iterations: int
    seconds: float


def local_search(
    problem: PipelineProblem,
    starts: Sequence[Schedule],
    settings: SearchSettings,
    should_stop: StopCheck,
    on_incumbent: Callable[[Schedule], None],
) -> SearchOutcome:
    """Improve the starts, the most promising first. `on_incumbent` gets every better schedule,
    at most about ten a second."""
    return _Search(problem, starts, settings, should_stop, on_incumbent).run()


class _Search:
    def __init__(
        self,
        problem: PipelineProblem,
        starts: Sequence[Schedule],
        settings: SearchSettings,
        should_stop: StopCheck,
        on_incumbent: Callable[[Schedule], None],
    ) -> None:
        self.problem = problem
        self.settings = settings
        self.should_stop = should_stop
        self.on_incumbent = on_incumbent
        self.begun = time.monotonic()
        self.stop: Integers = np.zeros(1, dtype=np.int64)
        self.best_ns = min((objective_ns(problem, start) for start in starts), default=0)
        self.schedule: Schedule | None = None
        self.tables: Tables = tables_of(problem)
        # Without a limit there is nothing to offload for.
        limited = any(d.activation_memory_bytes is not None for d in problem.devices)
        self.offloads = problem.can_offload and limited
        self.chains = self._make_chains(starts)
        self.tried = 0

    def _make_chains(self, starts: Sequence[Schedule]) -> list[Chain]:
        ranked = sorted(starts, key=lambda start: objective_ns(self.problem, start))
        chains: list[Chain] = []
        for start in ranked:
            if len(chains) == self.settings.threads:
                break
            compute = orders_of(self.problem, start.ops).compute
            if not self.offloads:
                compute = tuple(tuple(t for t in tokens if t.op != "R") for tokens in compute)
            rows, lengths = sequences_of(self.tables, compute)
            seed = self.settings.seed * 1000 + len(chains)
            chain = Chain(self.tables, self.offloads, rows, lengths, seed)
            if chain.is_runnable:
                chains.append(chain)
        while chains and len(chains) < self.settings.threads:
            seed = self.settings.seed * 1000 + len(chains)
            best = chains[0].best
            chains.append(Chain(self.tables, self.offloads, best.rows, best.lengths, seed))
        return chains

    def run(self) -> SearchOutcome:
        """All cycles."""
        if self.chains:
            with ThreadPoolExecutor(allowed_threads(len(self.chains))) as pool:
                for position in range(len(SHARES)):
                    if self._is_over():
                        break
                    self._regroup()
                    self._run_cycle(pool, position)
        return SearchOutcome(self.schedule, self.tried, time.monotonic() - self.begun)

    def _is_over(self) -> bool:
        if self.should_stop() or self.best_ns <= self.settings.good_ns:
            return True
        return self.settings.iterations is None and time.monotonic() >= self.settings.deadline

    def _must_end_cycle(self) -> bool:
        """Whether chains are to be interrupted. With a budget of moves only a request does that:
        the answer must not depend on when a chain reached the bound."""
        return self.should_stop() if self.settings.iterations is not None else self._is_over()

    def _regroup(self) -> None:
        leader = min(self.chains, key=lambda chain: chain.best_ns)
        for position, chain in enumerate(self.chains):
            is_behind = chain.best_ns > leader.best_ns * BEHIND
            chain.restart(leader if position == 0 or is_behind else chain)

    def _run_cycle(self, pool: ThreadPoolExecutor, position: int) -> None:
        """One cycle of every chain, watched from here."""
        share, left = SHARES[position], sum(SHARES[position:])
        moves, ends = None, self.settings.deadline
        if self.settings.iterations is None:
            now = time.monotonic()
            ends = now + (self.settings.deadline - now) * share / left
        else:
            moves = round(self.settings.iterations * share / len(self.chains))
        running = [
            pool.submit(self._cool, chain, WARM[(position + k) % len(WARM)], moves, ends)
            for k, chain in enumerate(self.chains)
        ]
        pending: set[Future[int]] = set(running)
        while pending:
            pending = wait(pending, timeout=POLL_S).not_done
            self._collect()
            if self._must_end_cycle():
                self.stop[0] = 1
        self.tried += sum(future.result() for future in running)

    def _cool(self, chain: Chain, warmth: float, moves: int | None, ends: float) -> int:
        """Anneal a chain over one cycle, in rounds; how many moves were tried."""
        if moves == 0:
            return 0
        warm, cold = warmth * chain.best_ns, COLD * chain.best_ns

        def temperature(done: float) -> float:
            return max(1.0, warm * float((cold / warm) ** min(1.0, max(0.0, done))))

        begun = time.monotonic()
        if moves is None and ends <= begun:
            return 0
        tried, done, size = 0, 0.0, FIRST_ROUND
        while done < 1.0 and not self.stop[0]:
            if moves is not None:
                size = min(-(-moves // ROUNDS_PER_CYCLE), moves - tried)
                following = (tried + size) / moves
            else:
                spent = time.monotonic() - begun
                if tried:
                    size = max(1, round(tried / spent * min(ROUND_S, (ends - begun) / 8)))
                following = done + ROUND_S / max(ROUND_S, ends - begun)
            now = temperature(done), temperature(following)
            ran = chain.anneal(size, *now, self.settings.good_ns, self.stop)
            tried += ran
            if ran < size:
                break
            done = following if moves is not None else (time.monotonic() - begun) / (ends - begun)
        return tried

    def _collect(self) -> None:
        """Report what the chains have found since the last time."""
        found = [chain.found for chain in self.chains if chain.found is not None]
        if not found:
            return
        value, ops = min(found, key=itemgetter(0))
        if value < self.best_ns:
            self.best_ns = value
            self.schedule = schedule_from_ops(self.problem, ops)
            self.on_incumbent(self.schedule)
