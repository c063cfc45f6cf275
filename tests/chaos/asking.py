"""A client that outlives what it talks to: it asks again until it is answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

ADDRESS = "/v1/pipeline-schedules"
PATIENCE_S = 120.0
AGAIN_S = 0.3
CLIENTS = 4
BACKWARD_NS = 2000


def problem(number: int, **solver: Any) -> dict[str, Any]:
    """The body of a request like no other, for `tests.chaos.slow_solver`."""
    stage = {"device": 0, "forward_ns": 1000 + number, "backward_input_ns": BACKWARD_NS}
    devices = [{"activation_memory_bytes": 1}]
    work = {"micro_batches": 1, "devices": devices, "stages": [stage]}
    return {"problem": work, "solver": {"time_limit_s": 60, **solver}}


def makespan_ns(number: int) -> int:
    """What the answer to that request has to say."""
    return 1000 + number + BACKWARD_NS


class Asker:
    """Asks one of several APIs after the other. A 5xx other than 503 is an error at once."""

    def __init__(self, urls: Sequence[str], key: str | None = None) -> None:
        self.urls = urls
        self.key = key
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(headers=headers, timeout=60)
        self.unanswered = 0

    def once(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer of the first API, whatever it is."""
        return self._http.request(method, f"{self.urls[0]}{path}", **more)

    def ask(self, method: str, path: str, turn: int = 0, **more: Any) -> httpx.Response:
        """The first answer that is not 503."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                url = self.urls[turn % len(self.urls)]
                answer = self._http.request(method, f"{url}{path}", **more)
                if answer.status_code != 503:
                    return answer
            except httpx.TransportError:
                pass
            self.unanswered += 1
            turn += 1
            assert time.monotonic() < deadline, f"{method} {path} is not answered"
            time.sleep(AGAIN_S)

    def post_all(self, count: int) -> list[str]:
        """The ids of that many jobs; a post is sent again under the same key."""

        def post(number: int) -> str:
            headers = {"Idempotency-Key": f"number {number}"}
            answer = self.ask("POST", ADDRESS, number, json=problem(number), headers=headers)
            assert answer.status_code in (200, 202), answer.text
            return str(answer.json()["id"])

        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(post, range(count)))

    def states(self) -> dict[str, str]:
        """The state of every job."""
        states: dict[str, str] = {}
        path = "/v1/jobs?limit=100"
        cursor = ""
        while True:
            page = self.ask("GET", f"{path}{cursor}").json()
            states |= {job["id"]: job["state"] for job in page["jobs"]}
            if page["next_cursor"] is None:
                return states
            cursor = f"&cursor={page['next_cursor']}"

    def check_answers(self, job_ids: Sequence[str]) -> None:
        """Each job succeeded, and has the answer to its own question."""
        for number, job_id in enumerate(job_ids):
            status = self.ask("GET", f"/v1/jobs/{job_id}").json()
            assert status["state"] == "succeeded", status
            result = self.ask("GET", f"/v1/jobs/{job_id}/result").json()
            assert result["problem"] == problem(number)["problem"] | result["problem"]
            assert result["schedule"]["makespan_ns"] == makespan_ns(number)
            assert status["best_makespan_ns"] == makespan_ns(number)

    def close(self) -> None:
        self._http.close()
