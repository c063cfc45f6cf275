"""The Celery worker: ``python -m celery -A workers.celery_app worker``.

The main process also runs the sweep and keeps the solver server. Its pool dies with it, and gives
its solves back when it is told to shut down.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Any

from celery import signals

from app.broker import QUEUES, create_celery, publisher
from app.dispatch import Dispatcher
from app.observability import metrics
from app.observability.exposition import serve_counts
from app.observability.logs import configure_logging
from app.observability.process_files import FOLDER_VARIABLE, metrics_folder
from app.services.runs.keeper import RunKeeper
from app.services.schema_state import schema_state
from app.services.submission import Submission
from app.services.webhooks.notifier import Notifier
from planner.process_guard import die_with_parent
from planner.version import __version__
from workers import runtime
from workers.capacity import capacity, default_concurrency
from workers.health import show_life
from workers.shutdown import ShutdownFlag
from workers.solver_keeper import SolverKeeper

logger = logging.getLogger(__name__)
celery_app = create_celery(runtime.settings())
celery_app.conf.imports = ("workers.tasks",)
celery_app.amqp.queues.select([QUEUES[name] for name in runtime.settings().worker_queues])
celery_app.conf.worker_concurrency = default_concurrency(runtime.settings())
shutdown_flag = ShutdownFlag()
solver_keeper = SolverKeeper(runtime.settings().solver_command)
_main_process = os.getpid()
_dispatchers: list[Dispatcher] = []
_notifiers: list[Notifier] = []
_run_keepers: list[RunKeeper] = []


def _require_broker(**_: Any) -> None:
    if runtime.settings().broker_url is None:
        raise SystemExit("LOADMASTER_BROKER_URL is not set: a worker needs a broker.")


def _fit_into_cores(sender: Any, **_: Any) -> None:
    settings, wanted = runtime.settings(), sender.concurrency
    # The word `auto` means to Celery what the default means here.
    whole = wanted if isinstance(wanted, int) else default_concurrency(settings)
    fitting = capacity(settings, whole)
    if fitting.concurrency < whole:
        logger.warning("%s solves at once instead of %s: one core each", fitting.concurrency, whole)
    sender.concurrency = fitting.concurrency
    runtime.use_capacity(fitting)


def _require_schema(**_: Any) -> None:
    if schema_state(runtime.database()) == "outdated":
        raise SystemExit("The database has an older schema: run `loadmaster db migrate` first.")


def _configure_logging(**_: Any) -> None:
    # That somebody listens to this signal keeps Celery from configuring logs its own way.
    configure_logging(runtime.settings())


def _show_metrics(**_: Any) -> None:
    metrics.worker_slots(runtime.capacity().concurrency)
    settings = runtime.settings()
    if settings.worker_metrics_port:
        serve_counts(settings.worker_metrics_host, settings.worker_metrics_port)


def _require_shared_counts(**_: Any) -> None:
    if runtime.settings().worker_metrics_port and metrics_folder() is None:
        raise SystemExit(
            f"LOADMASTER_WORKER_METRICS_PORT needs {FOLDER_VARIABLE}: an empty folder of this "
            "worker, where its processes add up their counts."
        )


def _guard_pool_process(**_: Any) -> None:
    die_with_parent(_main_process)


def _start_solver_server(**_: Any) -> None:
    solver_keeper.start()


def _stop_solver_server(**_: Any) -> None:
    solver_keeper.stop()


def _start_sweep(**_: Any) -> None:
    file = runtime.settings().worker_alive_file
    alive = None if file is None else partial(show_life, file)
    dispatcher = Dispatcher(runtime.database(), runtime.settings(), publisher(celery_app), alive)
    dispatcher.start(afresh=True)
    _dispatchers.append(dispatcher)


def _start_notifier(**_: Any) -> None:
    notifier = Notifier(runtime.database(), runtime.settings())
    notifier.start()
    _notifiers.append(notifier)


def _start_run_keeper(**_: Any) -> None:
    settings, database = runtime.settings(), runtime.database()
    submission = Submission(database, settings, __version__, _wake_dispatchers)
    keeper = RunKeeper(database, settings, submission)
    keeper.start()
    _run_keepers.append(keeper)


def _wake_dispatchers() -> None:
    for dispatcher in _dispatchers:
        dispatcher.wake()


def _stop_run_keeper(**_: Any) -> None:
    for keeper in _run_keepers:
        keeper.stop()


def _stop_notifier(**_: Any) -> None:
    for notifier in _notifiers:
        notifier.stop()


def _give_back_solves(**_: Any) -> None:
    shutdown_flag.set()


def _stop_sweep(**_: Any) -> None:
    for dispatcher in _dispatchers:
        dispatcher.stop()


signals.setup_logging.connect(_configure_logging)
signals.worker_init.connect(_require_broker)
signals.worker_init.connect(_require_shared_counts)
signals.worker_init.connect(_require_schema)
signals.worker_init.connect(_fit_into_cores)
signals.worker_process_init.connect(_guard_pool_process)
signals.worker_ready.connect(_start_solver_server)
signals.worker_ready.connect(_start_sweep)
signals.worker_ready.connect(_start_notifier)
signals.worker_ready.connect(_start_run_keeper)
signals.worker_ready.connect(_show_metrics)
signals.worker_shutting_down.connect(_give_back_solves)
signals.worker_shutdown.connect(_stop_sweep)
signals.worker_shutdown.connect(_stop_notifier)
signals.worker_shutdown.connect(_stop_run_keeper)
signals.worker_shutdown.connect(_stop_solver_server)
