"""What an installation has: beside the code every file that the code reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.command.build_py import build_py
from setuptools.config.pyprojecttoml import apply_configuration

ROOT = Path(__file__).parents[3]
BUILT = (
    "static/index.html",
    "static/assets/index-1a.js",
    "static/assets/deep/a.woff2",
    "report/report.js",
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with a build of the dashboard, whatever this checkout has."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("README.md", "LICENSE", "NOTICE", "THIRD-PARTY-LICENSES.md"):
        (tmp_path / name).touch()
    for name in BUILT:
        path = tmp_path / "app" / "dashboard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for package in ("app", "app/dashboard"):
        (tmp_path / package / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_dashboard_is_in_the_wheel(source: Path) -> None:
    distribution = Distribution({"script_name": "setup.py"})
    apply_configuration(distribution, source / "pyproject.toml")
    command = build_py(distribution)
    command.ensure_finalized()
    packaged = {f"{folder}/{name}" for _, folder, _, names in command.data_files for name in names}
    assert {f"app/dashboard/{name}" for name in BUILT} <= packaged


def test_the_licence_and_the_notices_are_in_the_wheel(source: Path) -> None:
    distribution = Distribution({"script_name": "setup.py"})
    apply_configuration(distribution, source / "pyproject.toml")
    distribution.finalize_options()
    assert distribution.metadata.license_expression == "Apache-2.0"
    assert set(distribution.metadata.license_files) == {
        "LICENSE", "NOTICE", "THIRD-PARTY-LICENSES.md",
    }  # fmt: skip
