"""Trainings that fail at random, event by event: what the formulas are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Simulated:
    """A training on two levels of checkpoints, in seconds. It shares nothing with the formulas:
    failures come at times of their own, whatever the training does just then.

    A checkpoint stops training for its cost; a full one is there `full_lag_s` later.
    """

    mtbf_s: float
    fast_share: float
    fast_cost_s: float
    full_cost_s: float
    fast_restart_s: float
    full_restart_s: float
    full_lag_s: float = 0.0

    def useful_share(self, work_s: float, segments: int, cycles: int, seed: int = 0) -> float:
        """Work that was done for good over the time that it took."""
        random = Random(seed)
        now, failure, done = 0.0, random.expovariate(1 / self.mtbf_s), 0
        written = [(0.0, 0)]
        while done < cycles * segments:
            is_full = (done + 1) % segments == 0
            length_s = work_s + (self.full_cost_s if is_full else self.fast_cost_s)
            if now + length_s <= failure:
                now, done = now + length_s, done + 1
                if is_full:
                    written.append((now + self.full_lag_s, done))
                continue
            written = [own for own in written if own[0] <= failure][-1:]
            is_lost = False
            while now < failure:
                now, is_lost = failure, is_lost or random.random() >= self.fast_share
                failure += random.expovariate(1 / self.mtbf_s)
                restart_s = self.full_restart_s if is_lost else self.fast_restart_s
                if now + restart_s <= failure:
                    now += restart_s
                    break
            if is_lost:
                done = written[0][1]
        return done * work_s / now
