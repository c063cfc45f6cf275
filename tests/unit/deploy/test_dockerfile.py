"""What the image has to be: pinned, small, without root, able to run read-only."""

from __future__ import annotations

import json
import re

from planner.version import __version__
from tests.dockerfile import DOCKERFILE, Stage, environment_of, exec_form, read_dockerfile

ROOT = DOCKERFILE.parent
IGNORED = (ROOT / ".dockerignore").read_text().split()


def stages() -> tuple[Stage, Stage]:
    builder, runtime = read_dockerfile()
    return builder, runtime


def test_both_stages_have_the_same_pinned_base() -> None:
    builder, runtime = stages()
    assert builder.image == runtime.image
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", runtime.image)
    # The pruned folder has the version in its name.
    version = runtime.image.split(":")[1].split("-")[0]
    assert set(re.findall(r"python(3\.\d+)", " ".join(builder.all_of("RUN")))) == {version}


def test_it_runs_as_a_user_with_a_number() -> None:
    # Kubernetes checks `runAsNonRoot` against a number only.
    _, runtime = stages()
    assert runtime.all_of("USER") == ["10001:10001"]
    last = [each.keyword for each in runtime.instructions]
    assert last.index("USER") > max(i for i, keyword in enumerate(last) if keyword == "RUN")


def test_packages_come_from_the_lock_with_their_hashes() -> None:
    builder, _ = stages()
    installs = re.findall(r"pip install [^&]+", " && ".join(builder.all_of("RUN")))
    assert len(installs) == 2
    assert "--require-hashes --requirement requirements/runtime.lock" in installs[0]
    assert "--no-deps" in installs[1]
    assert "--editable" not in installs[1]
    assert all("--no-cache-dir" in install for install in installs)


def test_nothing_needs_a_shell_to_start() -> None:
    _, runtime = stages()
    assert exec_form(runtime.all_of("ENTRYPOINT")[0]) == ["loadmaster-entrypoint"]
    assert exec_form(runtime.all_of("CMD")[0]) == ["api"]
    health = runtime.all_of("HEALTHCHECK")[0].partition("CMD ")[2]
    assert exec_form(health)[:2] == ["python", "-m"]
    assert runtime.all_of("STOPSIGNAL") == ["SIGTERM"]


def test_nothing_is_downloaded_but_locked_packages() -> None:
    for stage in stages():
        assert stage.all_of("ADD") == []
        assert not re.search(r"\b(curl|wget|apt-get|git)\b", " ".join(stage.all_of("RUN")))


def test_compiled_code_is_for_the_cpu_that_it_is_used_on() -> None:
    builder, runtime = stages()
    assert environment_of(builder)["NUMBA_CPU_NAME"] == "generic"
    assert environment_of(runtime)["NUMBA_CPU_NAME"] == "generic"


def test_what_is_copied_is_sent_to_docker_and_nothing_secret_is() -> None:
    assert IGNORED[0].startswith("#")
    sent = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    assert "*" in IGNORED
    builder, runtime = stages()
    copied = set()
    for words in builder.all_of("COPY") + runtime.all_of("COPY"):
        options = [word for word in words.split() if word.startswith("--")]
        if not any(option.startswith("--from") for option in options):
            copied |= set(words.split()[len(options) : -1])
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_every_package_of_the_project_is_in_it() -> None:
    builder, _ = stages()
    packages = re.search(r"include = (\[.*\])", (ROOT / "pyproject.toml").read_text())
    assert packages is not None
    copied = " ".join(builder.all_of("COPY"))
    for package in json.loads(packages[1]):
        name = package.rstrip("*")
        assert f"{name} {name}/" in copied


def test_the_version_stands_where_images_are_named() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    assert f"loadmaster:{__version__}}}" in compose
