"""The deployment's files satisfy their own linters and schemas."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.checkout import ROOT, project_files
from tests.e2e.linters import run_linter

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KUBERNETES = ROOT / "deploy" / "kubernetes"
KEDA_KINDS = """
import sys, yaml
from cloudcoil.models.keda import v1alpha1

# The models take fields that they do not know: those are lost when they are written again.
documents = yaml.safe_load_all(sys.stdin)
documents = [each for each in documents if each["apiVersion"].startswith("keda")]
assert documents
for document in documents:
    read = getattr(v1alpha1, document["kind"]).model_validate(document)
    written = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert written["spec"] == document["spec"], (written["spec"], document["spec"])
"""


def shell_scripts() -> list[str]:
    """Every file of the project that a shell runs."""
    found = []
    for name in project_files():
        with (ROOT / name).open("rb") as file:
            first = file.readline()
        if first.startswith((b"#!/bin/sh", b"#!/usr/bin/env bash")):
            found.append(name)
    return found


def kustomized(folder: Path) -> str:
    """What `kubectl apply --kustomize` would apply."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dockerfile() -> None:
    assert run_linter("hadolint", "Dockerfile") == ""
    # And it is the linter that says so.
    assert "DL3006" in run_linter("hadolint", "-", text="FROM debian\nUSER nobody\n")


def test_compose_file() -> None:
    schema = ["--builtin-schema", "vendor.compose-spec"]
    assert run_linter("check-jsonschema", *schema, "docker-compose.yml") == ""


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs docker")
def test_compose_file_for_docker_itself() -> None:
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip("needs docker compose")
    command = ["docker", "compose", "--file", ROOT / "docker-compose.yml", "config", "--quiet"]
    environment = {"POSTGRES_PASSWORD": "x", "PATH": str(Path(shutil.which("docker") or "").parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["base", "overlays/example"])
def test_kubernetes_objects(folder: str, tmp_path: Path) -> None:
    objects = tmp_path / "objects.yaml"
    objects.write_text(kustomized(KUBERNETES / folder))
    assert run_linter("kubernetes-validate", "--strict", objects) == ""


def test_keda_objects() -> None:
    objects = kustomized(KUBERNETES / "overlays" / "example")
    assert run_linter("python", "-c", KEDA_KINDS, text=objects) == ""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no shellcheck wheel for this machine")
def test_shell_scripts() -> None:
    scripts = shell_scripts()
    assert {"scripts/setup", "scripts/bundle", "deploy/entrypoint"} <= set(scripts)
    assert run_linter("shellcheck", *scripts) == ""


def test_python_of_the_scripts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--package", "scripts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
