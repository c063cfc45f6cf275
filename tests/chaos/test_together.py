"""Many clients ask for the same at the same instant, of several API processes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest

from tests.chaos.asking import ADDRESS, Asker, problem
from tests.chaos.deployments import asking, deployed
from tests.chaos.form import by_form, record
from tests.chaos.watching import Watch

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(300)]


async def post_at_once(asker: Asker, count: int) -> list[tuple[int, bytes]]:
    """Status and body of that many answers, each on a connection that was open before."""
    body = json.dumps(problem(1)).encode()
    connections = []
    for number in range(count):
        address = urlsplit(asker.urls[number % len(asker.urls)])
        assert address.hostname is not None
        connections.append(await asyncio.open_connection(address.hostname, address.port))

    async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        head = f"POST {ADDRESS} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {asker.key}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
        head_bytes, _, answer_body = answer.partition(b"\r\n\r\n")
        return int(head_bytes.split()[1]), answer_body

    return await asyncio.gather(*(post(*connection) for connection in connections))


def test_identical_posts_are_one_solve() -> None:
    apis, posts = by_form(2, 4), by_form(200, 1000)
    with deployed(apis=apis, workers=1, seconds=2.0) as topology, asking(topology) as asker:
        watch = Watch(topology.database_url)
        asker.ask("GET", "/v1/jobs")
        began = time.monotonic()
        answers = asyncio.run(post_at_once(asker, posts))
        took_s = time.monotonic() - began
        statuses = Counter(status for status, _ in answers)
        assert set(statuses) <= {200, 202}, [a for a in answers if a[0] not in (200, 202)][:3]
        caches = Counter(json.loads(body)["cache"] for _, body in answers)
        assert caches["miss"] == 1
        assert caches["joined"] + caches["hit"] == posts - 1
        while watch.solves() != {"succeeded": 1}:
            assert time.monotonic() - began < 60, watch.solves()
            time.sleep(0.1)
        states = asker.states()
        assert len(states) == posts
        assert set(states.values()) == {"succeeded"}
        watch.check()
        watch.close()
    record(
        "identical posts at once", posts=posts, apis=apis, seconds=round(took_s, 2), cache=caches
    )
