"""The broker: a wake-up call that carries the id of a queued solve, and nothing else."""

from __future__ import annotations

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError

from app.models import HIGHEST_PRIORITY, LONG, SHORT
from app.repositories.queue import Dispatch
from app.services.sweeping import Publish
from app.settings import Settings

SOLVE_TASK = "workers.tasks.solve"
QUEUES = {SHORT: "loadmaster.short", LONG: "loadmaster.long"}


def create_celery(settings: Settings) -> Celery:
    """A Celery application, alike for those who send and those who work.

    Messages are acknowledged early and results are not kept: the rows say what is to be done and
    what came of it, and a message that is lost is sent again by the sweep.
    """
    celery = Celery("loadmaster", broker=settings.broker_url or "memory://")
    timeout_s = settings.broker_timeout_s
    celery.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_default_queue=QUEUES[SHORT],
        task_queues={queue: {} for queue in QUEUES.values()},
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=bool(settings.broker_url),
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "priority_steps": list(range(HIGHEST_PRIORITY + 1)),
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "socket_keepalive": True,
            # Whoever sends comes back with the next sweep; workers reconnect by other settings.
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0.1,
        },
    )
    return celery


def publisher(celery: Celery) -> Publish:
    """A function that sends one id, and raises at once if the broker takes no messages."""

    def publish(dispatch: Dispatch) -> None:
        celery.send_task(
            SOLVE_TASK,
            args=[dispatch.solve_id],
            queue=QUEUES[dispatch.queue],
            # On Redis, 0 is the most urgent.
            priority=HIGHEST_PRIORITY - dispatch.priority,
            retry=False,
        )

    return publish


def is_reachable(settings: Settings) -> bool:
    """Whether the broker answers."""
    if settings.broker_url is None:
        return False
    url = settings.broker_url.replace("redis+socket://", "unix://", 1)
    try:
        with Redis.from_url(
            url,
            socket_timeout=settings.broker_timeout_s,
            socket_connect_timeout=settings.broker_timeout_s,
        ) as redis:
            return bool(redis.ping())
    except (RedisError, OSError):
        return False
