"""The Dockerfile's steps, run in a folder of this machine, make an environment that solves.

What only Docker can do (base images, users, layers) is left out; everything that is installed,
removed and compiled is done by the steps that the Dockerfile has.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from planner.version import __version__
from scripts.licences import in_image
from scripts.prune_wheels import megabytes
from tests.dockerfile import (
    Builder,
    environment_of,
    exec_form,
    image_environment,
    read_dockerfile,
)
from tests.e2e.checkout import ROOT, bare_environment, copy_checkout
from tests.problems import uniform_document

pytestmark = [pytest.mark.slow, pytest.mark.packaging, pytest.mark.timeout(1200)]

# What Debian's slim image has: these come with its package manager.
LIBRARIES_OF_THE_BASE_IMAGE = re.compile(
    r"(ld-linux-\w+-?\w*|lib(c|m|dl|rt|pthread|util|resolv|z|gcc_s|stdc\+\+))\.so\.\d+$"
)
# Alternatives of numba's threads, which the service does not use and numba does without.
OPTIONAL_LIBRARIES = {"libtbb.so.12", "libgomp.so.1.0.0"}
SHARDING_EXAMPLE = ROOT / "planner" / "examples" / "sharding" / "gpt-3.6b-layer-4xA100.json"
MAX_MEGABYTES = 750
"""Of the environment; the base image adds about 120."""

VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
SOLVE = """
import json, sys
from planner.pipeline.request import resolve_request
from planner.pipeline.solve import run
from planner.progress import SilentReporter, never
body = json.load(sys.stdin)
result = run(resolve_request(body).spec, SilentReporter(), never)
json.dump(result["document"]["certificate"], sys.stdout)
"""
SHARD = """
import json, sys
from planner.sharding.request import resolve_request
from planner.sharding.solve import run
from planner.progress import SilentReporter, never
body = json.load(sys.stdin)
result = run(resolve_request(body).spec, SilentReporter(), never, None, 60.0)
json.dump(result["document"], sys.stdout)
"""


class Image:
    """What the steps made, and how its programs are run."""

    def __init__(self, folder: Path) -> None:
        builder_stage, self.stage = read_dockerfile()
        checkout = copy_checkout(folder / "checkout")
        root = folder / "root"
        program = folder / "bin" / "python"
        program.parent.mkdir()
        program.symlink_to(python_of(self.stage.image))
        version = subprocess.check_output([program, "-c", VERSION], text=True).strip()
        environment = bare_environment()
        environment["PATH"] = f"{program.parent}:{environment['PATH']}"
        self.builder = Builder(checkout, root, environment, version)
        self.builder.run(builder_stage)
        self.environment_folder = root / "opt" / "loadmaster"
        self.environment = image_environment(self.builder, self.stage)
        self.entrypoint = checkout / "deploy" / "entrypoint"

    def run(self, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """A command by way of the entry point, as in a container."""
        return subprocess.run(
            [str(self.entrypoint), *command],
            cwd=self.environment_folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
        )

    def solve(self, script: str, body: dict[str, Any]) -> dict[str, Any]:
        """What a planner in the image makes of a body."""
        done = self.run("python", "-c", script, text=json.dumps(body))
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def python_of(image: str) -> Path:
    """An interpreter of the image's version, or this one where the machine has none of that."""
    version = image.partition(":")[2].partition("-")[0]
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *installed.glob(f"{version}.*/bin/python3")]
    for candidate in filter(None, candidates):
        command = [candidate, "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return Path(done.stdout.strip())
    return Path(sys.base_prefix) / "bin" / "python3"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


def test_it_is_small(image: Image, record_property: Any) -> None:
    size = megabytes(image.environment_folder)
    record_property("megabytes", round(size))
    print(f"the environment of the image has {size:.0f} MB")
    assert 300 < size < MAX_MEGABYTES


def test_what_is_listed_is_in_it_with_its_licence(image: Image) -> None:
    # As THIRD-PARTY-LICENSES.md lists it for the image's own Python.
    listed = dict(in_image(f"{sys.version_info.major}.{sys.version_info.minor}"))
    installed = {
        canonicalize_name(found.name): found.version
        for found in importlib.metadata.distributions(path=[str(site_packages(image))])
    }
    assert installed.pop("loadmaster") == __version__
    assert installed == listed
    for pattern in (
        "cbcbox/cbc_dist/share/doc/*/LICENSE",
        "loadmaster-*.dist-info/licenses/LICENSE",
    ):
        assert list(site_packages(image).glob(pattern)), pattern


def test_nothing_but_the_service_and_its_packages_is_in_it(image: Image) -> None:
    packages = {path.name for path in site_packages(image).iterdir()}
    assert {"app", "client", "embedded", "migrations", "planner", "workers"} <= packages
    assert not {"pip", "setuptools", "tests", "pytest", "benchmarks"} & packages
    assert not list(site_packages(image).glob("__editable__*"))
    assert not list(image.environment_folder.rglob("cbc_dist_debug*"))


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")
def test_every_library_it_loads_is_in_it_or_in_the_base_image(image: Image) -> None:
    libraries = list(image.environment_folder.rglob("*.so*"))
    own = {path.name for path in libraries}
    programs = image.environment_folder.glob("lib/**/*_dist*/bin/*")
    missing = set()
    for path in [*libraries, *programs]:
        if path.is_symlink():
            assert path.resolve().is_file(), path
            continue
        done = subprocess.run(["readelf", "-d", path], capture_output=True, text=True)
        missing |= set(re.findall(r"NEEDED.*\[(.*)\]", done.stdout)) - own
    left = {name for name in missing if not LIBRARIES_OF_THE_BASE_IMAGE.fullmatch(name)}
    assert left <= OPTIONAL_LIBRARIES


@pytest.mark.parametrize("engine", ["cbc", "highs", "cp_sat"])
def test_every_engine_solves_a_pipeline(image: Image, engine: str) -> None:
    problem = uniform_document(devices=2, micro_batches=3, limit=9)
    solver = {"engine": engine, "time_limit_s": 60}
    certificate = image.solve(SOLVE, {"problem": problem, "solver": solver})
    assert certificate["proven_optimal"]


@pytest.mark.parametrize("engine", ["cbc", "highs"])
def test_a_sharding_plan_is_solved(image: Image, engine: str) -> None:
    body = json.loads(SHARDING_EXAMPLE.read_text())
    del body["name"]
    body |= {"solver": {"engine": engine, "time_limit_s": 60}}
    document = image.solve(SHARD, body)
    assert document["certificate"]


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs /proc")
def test_cbc_of_any_cpu_is_in_it_too(image: Image) -> None:
    # What a CPU without AVX2 would choose.
    image.environment["CBCBOX_BUILD"] = "generic"
    try:
        test_every_engine_solves_a_pipeline(image, "cbc")
    finally:
        del image.environment["CBCBOX_BUILD"]


@pytest.mark.parametrize("process", ["worker", "python"])
def test_compiled_code_is_found_where_it_may_be_added_to(image: Image, process: str) -> None:
    writable = image.builder.root / "tmp" / "compiled"
    shutil.rmtree(writable, ignore_errors=True)
    done = image.run(process, "--help")
    assert done.returncode == 0, done.stderr
    before = files_of(writable)
    assert any(name.endswith(".nbc") for name in before)
    problem = uniform_document(devices=3, micro_batches=6, limit=9)
    image.solve(SOLVE, {"problem": problem, "solver": {"search_iterations": 40}})
    assert files_of(writable) == before, "compiled again: the image's code is for another CPU"
    assert not list(site_packages(image).rglob("*.nb[ic]"))
    assert environment_of(image.stage)["NUMBA_CPU_NAME"] == "generic"


def test_commands_and_health_checks_start(image: Image) -> None:
    assert exec_form(image.stage.all_of("CMD")[0]) == ["api"]
    assert "--factory" in image.run("api", "--help").stdout
    assert image.run("loadmaster", "--version").returncode == 0
    options, _, command = image.stage.all_of("HEALTHCHECK")[0].partition("CMD ")
    assert "--timeout=" in options
    # Nothing runs here: both say so.
    assert image.run(*exec_form(command)).returncode == 1
    assert image.run("python", "-m", "workers.health").returncode == 1


def test_the_migration_runs(image: Image) -> None:
    database = image.builder.root / "data" / "loadmaster.db"
    done = image.run("migrate")
    assert done.returncode == 0, done.stderr
    assert database.is_file()


def test_nothing_is_written_outside_of_tmp_and_data(image: Image) -> None:
    # What the tests before this one did has left no trace in the installed environment.
    code = "import app.main, workers.celery_app, planner.pipeline.solve"
    newest = max(path.stat().st_mtime for path in image.environment_folder.rglob("*"))
    assert image.run("python", "-c", code).returncode == 0
    assert max(p.stat().st_mtime for p in image.environment_folder.rglob("*")) == newest


def files_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def site_packages(image: Image) -> Path:
    return next(image.environment_folder.glob("lib/python3.*/site-packages"))
