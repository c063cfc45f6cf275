"""`loadmaster report`: a job's plan as one HTML file that needs nothing else to be looked at."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import click

from client.connecting import connect
from client.errors import EXIT_NO_PLAN, ApiError
from client.library.service import Service
from client.options import server_option
from client.output import check_output, write_text
from client.solving import stored_answer, terminal
from planner.version import __version__

_OUTPUT = click.Path(dir_okay=False, readable=False, path_type=Path)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>The charts of this report need JavaScript.</noscript>
<script type="application/json" id="report-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


@click.command("report")
@click.argument("job_id", metavar="ID")
@click.option("-o", "--output", type=_OUTPUT, required=True, help="The HTML file to write.")
@click.option(
    "--with-classic",
    is_flag=True,
    help="Also carry the classic schedules of the comparison, which makes the file larger.",
)
@server_option
def report_command(job_id: str, output: Path, with_classic: bool, server: str) -> None:
    """Write a job that is over, with its charts, into one HTML file to pass on.

    The file needs no service and no network. Whoever has it sees the plan, its name and tags.
    """
    check_output(output)
    console = terminal()
    with connect(server) as client:
        job = client.status(job_id)
        result = stored_answer(client, job_id, console)
        if result is None:
            sys.exit(EXIT_NO_PLAN)
        data = {
            "job": job,
            "result": result,
            "steps": client.progress(job_id),
            "timelines": list(_timelines(client, job, result, with_classic=with_classic)),
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "planner_version": __version__,
        }
    page = report_page(data)
    write_text(output, page)
    console.print(
        f"report: {output} ({len(page.encode()) / 2**20:.1f} MiB)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def report_page(data: Mapping[str, Any]) -> str:
    """The page that shows this data by itself."""
    job = data["job"]
    # Neither an end tag nor a comment in somebody's text may end the element that it stands in.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    script = re.sub(r"</(?=script)", r"<\\/", _built("report.js"), flags=re.IGNORECASE)
    style = _built("report.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return PAGE.format(
        policy=policy,
        title=html.escape(f"{job['name'] or job['id']} – Loadmaster"),
        style=style,
        data=text,
        script=script,
    )


def _timelines(
    client: Service,
    job: Mapping[str, Any],
    result: Mapping[str, Any],
    *,
    with_classic: bool,
) -> Iterator[Mapping[str, Any]]:
    schedule = (result.get("best") or {}).get("schedule") if job["kind"] == "training" else result
    if job["kind"] == "sharding" or not schedule or "schedule" not in schedule:
        return
    yield client.timeline(job["id"])
    if with_classic:
        for row in schedule.get("comparison", ()):
            if row["makespan_ns"] is None:
                continue
            try:
                yield client.timeline(job["id"], row)
            except ApiError as error:
                if error.code != "no_timeline":
                    raise
                click.echo(f"left out: {row['name']} ({row['placement']}): {error}", err=True)


def _built(name: str) -> str:
    return (resources.files("app.dashboard") / "report" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
