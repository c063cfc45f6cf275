"""Which formats there are for answers of each kind. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.errors import CannotExport, SpecError
from planner.export.chrome_trace import BEST_CHROME_TRACE, CHROME_TRACE
from planner.export.format import Document, Format, Source
from planner.export.frameworks.formats import FRAMEWORKS
from planner.export.gantt_svg import BEST_GANTT_SVG, GANTT_SVG
from planner.export.kubernetes.jobset import JOBSET
from planner.export.kubernetes.pytorchjob import PYTORCHJOB
from planner.export.kubernetes.trainjob import TRAINJOB
from planner.export.plans_csv import PLANS_CSV
from planner.export.schedule_csv import BEST_SCHEDULE_CSV, SCHEDULE_CSV
from planner.export.sharding_csv import SHARDING_CSV
from planner.export.sharding_targets.deepspeed_autotp import DEEPSPEED_AUTOTP
from planner.export.sharding_targets.dtensor_json import DTENSOR_JSON
from planner.export.sharding_targets.megatron_flags import MEGATRON_FLAGS
from planner.export.sharding_targets.of_training import BEST_SHARDING
from planner.export.sharding_targets.transformers_tp_plan import TRANSFORMERS_TP_PLAN
from planner.export.slurm.script import SLURM
from planner.export.torch_csv.write import BEST_TORCH_CSV, TORCH_CSV
from planner.export.torch_schedule.write import BEST_TORCH_SCHEDULE, TORCH_SCHEDULE

SCHEDULERS = (SLURM, JOBSET, PYTORCHJOB, TRAINJOB)
FORMATS: Mapping[str, tuple[Format, ...]] = {
    "pipeline": (
        SCHEDULE_CSV,
        CHROME_TRACE,
        GANTT_SVG,
        TORCH_CSV,
        TORCH_SCHEDULE,
        *FRAMEWORKS,
        *SCHEDULERS,
    ),
    "sharding": (
        SHARDING_CSV,
        DTENSOR_JSON,
        MEGATRON_FLAGS,
        DEEPSPEED_AUTOTP,
        TRANSFORMERS_TP_PLAN,
    ),
    "training": (
        PLANS_CSV,
        BEST_SCHEDULE_CSV,
        BEST_CHROME_TRACE,
        BEST_GANTT_SVG,
        BEST_TORCH_CSV,
        BEST_TORCH_SCHEDULE,
        *BEST_SHARDING,
        *FRAMEWORKS,
        *SCHEDULERS,
    ),
}

WITH_ADDRESS = frozenset(
    own.name for formats in FORMATS.values() for own in formats if own.has_address
)
"""Names of the formats whose files differ with the address by which the service was asked."""
LACKING = (KeyError, IndexError, StopIteration, SpecError)
INCOMPLETE = (
    "The answer lacks what this format needs: an older version stored it, or it was kept from a "
    "solve that was stopped. Ask again, with `Cache-Control: no-cache`."
)


def formats_of(source: Source) -> Iterable[tuple[Format, str | None]]:
    """Those that are about something this answer has, each with why the answer cannot be written
    in it (None where it can)."""
    for own in FORMATS[source.kind]:
        part = own.part(source.answer)
        if part is not None:
            yield own, _hindrance(own, part, source)


def export(source: Source, name: str) -> tuple[Format, str]:
    """The answer in the format of this name. Raises `CannotExport`, which says why, where it
    cannot be written in it."""
    for own in FORMATS[source.kind]:
        part = own.part(source.answer) if own.name == name else None
        if part is None:
            continue
        hindrance = _hindrance(own, part, source)
        if hindrance is not None:
            raise CannotExport(hindrance)
        try:
            return own, own.file(part, source)
        except LACKING as error:
            raise CannotExport(INCOMPLETE) from error
    known = ", ".join(own.name for own, hindrance in formats_of(source) if hindrance is None)
    raise CannotExport(f"It is to be had as {known}." if known else "There is no plan to export.")


def _hindrance(own: Format, part: Document, source: Source) -> str | None:
    try:
        return own.why_not(part, source)
    except LACKING:
        return INCOMPLETE
