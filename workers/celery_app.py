"""The Celery worker: ``python -m celery -A workers.celery_app worker``.

The main process also runs the sweep. Its pool dies with it, and gives its solves back when it is
told to shut down.
"""

from __future__ import annotations

import os
from typing import Any

from celery import signals

from app.broker import create_celery, publisher
from app.dispatch import Dispatcher
from planner.process_guard import die_with_parent
from workers import runtime
from workers.shutdown import ShutdownFlag

celery_app = create_celery(runtime.settings())
celery_app.conf.imports = ("workers.tasks",)
shutdown_flag = ShutdownFlag()
_main_process = os.getpid()
_dispatchers: list[Dispatcher] = []


def _require_broker(**_: Any) -> None:
    if runtime.settings().broker_url is None:
        raise SystemExit("LOADMASTER_BROKER_URL is not set: a worker needs a broker.")


def _guard_pool_process(**_: Any) -> None:
    die_with_parent(_main_process)


def _start_sweep(**_: Any) -> None:
    dispatcher = Dispatcher(runtime.database(), runtime.settings(), publisher(celery_app))
    dispatcher.start(afresh=True)
    _dispatchers.append(dispatcher)


def _give_back_solves(**_: Any) -> None:
    shutdown_flag.set()


def _stop_sweep(**_: Any) -> None:
    for dispatcher in _dispatchers:
        dispatcher.stop()


signals.worker_init.connect(_require_broker)
signals.worker_process_init.connect(_guard_pool_process)
signals.worker_ready.connect(_start_sweep)
signals.worker_shutting_down.connect(_give_back_solves)
signals.worker_shutdown.connect(_stop_sweep)
