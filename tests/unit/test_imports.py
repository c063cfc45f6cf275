"""Who may import whom: the map of docs/architecture.md, held to the code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("planner", "app", "workers", "embedded", "client", "migrations")
PLANNER = {
    "planner/milp": (),
    "planner/cost": ("planner/pipeline",),
    "planner/pipeline": ("planner/cost", "planner/milp"),
    "planner/sharding": ("planner/cost", "planner/milp", "planner/pipeline"),
    "planner/estimates": ("planner/cost", "planner/pipeline"),
    "planner/training": ("planner/cost", "planner/pipeline", "planner/sharding", "planner/milp"),
    "planner/export": (
        *("planner/pipeline", "planner/cost", "planner/sharding"),
        *("planner/training", "planner/estimates"),
    ),
    "planner/following": ("planner/pipeline", "planner/cost", "planner/estimates"),
    "planner/calibration": ("planner/following", "planner/cost", "planner/pipeline"),
    "planner/diagnoses": (
        *("planner/following", "planner/pipeline", "planner/cost"),
        *("planner/estimates", "planner/export"),
    ),
}
"""By package of the planner, which others it may import beside the modules of `planner` itself."""
PARTS = {
    "planner": (),
    "app": ("planner", "migrations"),
    "workers": ("app", "planner"),
    "embedded": ("app", "planner", "workers"),
    "client": ("app", "planner", "workers", "embedded", "migrations"),
    "migrations": ("app",),
}
PIPELINE_IN_COST = ("planner.pipeline.problem", "planner.pipeline.documents")
"""What makes problems needs to know what one is, but nothing that solves them."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for part in PACKAGES for path in (ROOT / part).rglob("*.py")}


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules of the project that import statements among the nodes load."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and (module := node.module or "") in MODULES:
            whole = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else module for name in whole)


def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def package(name: str) -> str:
    """`planner/cost` of `planner.cost.build`; `planner` of `planner.errors`."""
    parts = name.split(".")
    is_own = len(parts) > 2 or MODULES[name].name == "__init__.py"
    return "/".join(parts[:2]) if len(parts) > 1 and is_own else parts[0]


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {name: set(imported(tree(name).body)) - {name} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("part", PARTS)
def test_parts_import_what_the_map_says(part: str) -> None:
    for name in MODULES:
        if name.split(".")[0] == part:
            found = {other.split(".")[0] for other in imported(ast.walk(tree(name)))}
            assert found <= {part, *PARTS[part]}, name


@pytest.mark.parametrize("part", PLANNER)
def test_packages_of_the_planner_import_what_the_map_says(part: str) -> None:
    for name in MODULES:
        if package(name) == part:
            found = {package(other) for other in imported(ast.walk(tree(name)))}
            assert found <= {"planner", part, *PLANNER[part]}, name


def test_every_package_of_the_planner_has_a_rule() -> None:
    packages = {package(name) for name in MODULES if name.startswith("planner.")}
    assert packages - {"planner"} == set(PLANNER)


def test_who_makes_problems_knows_nothing_of_who_solves_them() -> None:
    for name in MODULES:
        if package(name) == "planner/cost":
            pipeline = {o for o in imported(tree(name).body) if package(o) == "planner/pipeline"}
            assert pipeline <= {*PIPELINE_IN_COST, "planner.pipeline.bounds.alike"}, name


def test_the_map_names_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for name in (*PARTS, *PLANNER):
        assert f"| `{name}/`" in page, name
