"""The table of metrics, the dashboard and the alerts speak of metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric

from app.database import Database
from app.models import LONG, SHORT
from app.observability import metrics
from app.observability.rows import RowsCollector
from app.repositories.load import Load
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[4]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/loadmaster.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
LABEL_WORDS = re.compile(r"(?:by|without|on)\s*\(([^)]*)\)|[{,]\s*(\w+)\s*(?:=~|!~|!=|=)")


class _LoadOf(RowsCollector):
    def _read(self) -> Load:
        return Load()


def families(tmp: Path) -> Iterator[Metric]:
    """Everything that `/metrics` can show."""
    yield from metrics.REGISTRY.collect()
    database = Database(Settings(database_url=f"sqlite:///{tmp / 'no.db'}"))
    yield from _LoadOf(database, "1").collect()
    database.dispose()


def labels_of(tmp: Path) -> dict[str, set[str]]:
    """The labels of every sample that a query may name."""
    declared = {
        own._name: own._labelnames
        for own in vars(metrics).values()
        if isinstance(own, Counter | Gauge | Histogram)
    }
    found: dict[str, set[str]] = {}
    for family in families(tmp):
        own = set(declared.get(family.name, ()))
        own |= {name for sample in family.samples for name in sample.labels if name != "le"}
        if family.type == "histogram":
            found[f"{family.name}_bucket"] = own | {"le"}
            found[f"{family.name}_count"] = found[f"{family.name}_sum"] = own
        else:
            found[family.name + ("_total" if family.type == "counter" else "")] = own
    return found


def dashboard_queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def alert_queries() -> list[str]:
    return [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]


def test_the_table_lists_every_metric_with_its_labels_and_no_other(tmp_path: Path) -> None:
    table = OPERATIONS.partition("| metric |")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines() if "`loadmaster_" in line]
    listed = {row[0].strip("| `"): set(re.findall(r"`(\w+)`", row[1])) for row in rows}
    there = {
        re.sub("_(bucket|count|sum)$", "", name): names - {"le"}
        for name, names in labels_of(tmp_path).items()
    }
    assert listed == there


def test_names_and_units_are_as_prometheus_wants_them(tmp_path: Path) -> None:
    for family in families(tmp_path):
        assert re.fullmatch(r"loadmaster_[a-z_]+", family.name)
        assert not re.search(r"(_ms|_milliseconds|_minutes|_kb|_mib|_percent)\b", family.name)
        assert family.documentation.endswith(".")


def test_every_query_names_metrics_and_labels_that_there_are(tmp_path: Path) -> None:
    known = labels_of(tmp_path)
    queries = dashboard_queries() + alert_queries()
    assert len(queries) > 20
    for query in queries:
        named = set(re.findall(r"loadmaster_\w+", query))
        assert named
        assert named <= set(known), query
        allowed = set().union(*(known[name] for name in named))
        for listed, single in LABEL_WORDS.findall(query):
            words = {word.strip() for word in (listed or single).split(",")} - {""}
            assert words <= allowed, query
        assert query.count("(") == query.count(")")
        for name in named:
            # A counter is looked at by its growth, a gauge never.
            grows = bool(re.search(r"(rate|increase)\(" + name + r"\b", query))
            assert grows == name.endswith(("_total", "_count", "_bucket", "_sum")), query


def test_every_metric_is_on_the_dashboard(tmp_path: Path) -> None:
    shown = " ".join(dashboard_queries())
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in labels_of(tmp_path)}
    assert [name for name in names if name not in shown] == []


def test_the_dashboard_is_one() -> None:
    assert DASHBOARD["title"]
    assert DASHBOARD["uid"]
    assert DASHBOARD["schemaVersion"] >= 36
    assert [variable["type"] for variable in DASHBOARD["templating"]["list"]] == ["datasource"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0


def test_the_alerts_are_rules_that_prometheus_reads() -> None:
    names = []
    for group in ALERTS["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= set(rule)
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert set(rule["annotations"]) == {"summary", "description"}
            assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
            names.append(rule["alert"])
    assert len(set(names)) == len(names)


def test_the_queues_of_the_alerts_are_those_of_the_service() -> None:
    queues = set(re.findall(r'queue="(\w+)"', " ".join(alert_queries())))
    assert queues <= {SHORT, LONG}
