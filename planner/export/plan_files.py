"""What a run can fetch of its plan, and the shell function that fetches it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from planner.export.format import Format, Source
from planner.export.frameworks.formats import FRAMEWORKS
from planner.export.torch_csv.write import BEST_TORCH_CSV, TORCH_CSV
from planner.export.torch_schedule.write import BEST_TORCH_SCHEDULE, TORCH_SCHEDULE

RESULT = "result"
"""What the whole answer is fetched as."""

# Kubernetes reads two dollar signs of a command as one, so there are none together.
FETCH = """\
# Address, file and, where it is known, checksum of what can be fetched, by format.
plan_file() {{
  sum=
  case $1 in
{cases}
    *)
      echo "error: $1 is no format of this plan: take {names}." >&2
      return 1
      ;;
  esac
}}

# The key goes over standard input: others on the machine can read command lines.
fetch() {{
  plan_file "$1"
  job={job}
  part=$LOADMASTER_PLAN_DIR/.$file.${{SLURM_JOB_ID:-part}}
  {{ [ -z "${{LOADMASTER_API_KEY:-}}" ] ||
    printf 'Authorization: Bearer %s\\n' "$LOADMASTER_API_KEY"; }} |
    curl --fail --silent --show-error --retry 8 --retry-connrefused --max-time 120 \\
      --header @- --output "$part" "$LOADMASTER_SERVER/v1/jobs/$job/$path"
  found=$(sha256sum < "$part" | cut -d ' ' -f 1)
  if [ "$found" != "${{sum:-$found}}" ]; then
    echo "error: $file is not the plan that this was written for: export it anew." >&2
    rm -f "$part"
    return 1
  fi
  mv "$part" "$LOADMASTER_PLAN_DIR/$file"
  echo "plan: $LOADMASTER_PLAN_DIR/$file (sha256 $found)"
}}
"""


@dataclass(frozen=True)
class PlanFile:
    """`path` is its address below the job's, `checksum` the SHA-256 of its content in hexadecimal,
    None where that is not known beforehand."""

    format: str
    path: str
    file_name: str
    checksum: str | None = None

    @property
    def case(self) -> str:
        """What the shell function has to know of it."""
        parts = [f"path={shlex.quote(self.path)}", f"file={shlex.quote(self.file_name)}"]
        if self.checksum is not None:
            parts.append(f"sum={self.checksum}")
        return f"    {self.format})\n" + "".join(f"      {each}\n" for each in parts) + "      ;;"


def plan_files(source: Source) -> list[PlanFile]:
    """What of a plan can be fetched: first what is fetched unless something else is asked for,
    which is the schedule with all that is in it, or the answer where that has no schedule."""
    schedule, *others = _formats(source)
    files = [_checked(schedule, source)] if _is_to_be_had(schedule, source) else []
    result = PlanFile(RESULT, RESULT, f"loadmaster-{source.job_id}.{RESULT}.json")
    more = [_file(own, source) for own in others if _is_to_be_had(own, source)]
    return [*files, result, *more]


def why_no_schedule(source: Source) -> str | None:
    """Why the answer is fetched instead of a schedule; None where a schedule is."""
    schedule = next(_formats(source))
    part = schedule.part(source.answer)
    if part is None:
        return "A schedule: the plan has none, and its answer is fetched instead."
    reason = schedule.why_not(part, source)
    return None if reason is None else f"The schedule; the answer is fetched instead. {reason}"


def fetch_function(source: Source, files: Iterable[PlanFile]) -> str:
    """Functions of any POSIX shell: `fetch FORMAT` puts a file into `$LOADMASTER_PLAN_DIR`, from
    `$LOADMASTER_SERVER` with the key in `$LOADMASTER_API_KEY`, whole or not at all."""
    files = list(files)
    return FETCH.format(
        cases="\n".join(each.case for each in files),
        names=", ".join(each.format for each in files),
        job=shlex.quote(quote(source.job_id, safe="")),
    )


def _formats(source: Source) -> Iterator[Format]:
    if source.kind == "training":
        yield from (BEST_TORCH_SCHEDULE, BEST_TORCH_CSV)
    else:
        yield from (TORCH_SCHEDULE, TORCH_CSV)
    yield from FRAMEWORKS


def _is_to_be_had(own: Format, source: Source) -> bool:
    part = own.part(source.answer)
    return part is not None and own.why_not(part, source) is None


def _file(own: Format, source: Source) -> PlanFile:
    return PlanFile(own.name, f"export/{own.name}", f"loadmaster-{source.job_id}.{own.extension}")


def _checked(own: Format, source: Source) -> PlanFile:
    part = own.part(source.answer)
    assert part is not None
    checksum = hashlib.sha256(own.file(part, source).encode()).hexdigest()
    file = _file(own, source)
    return PlanFile(file.format, file.path, file.file_name, checksum)
