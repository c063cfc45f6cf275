"""The Dockerfile as instructions per stage, and its steps as commands of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[1] / "Dockerfile"


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continued lines joined."""

    keyword: str
    arguments: str


@dataclass
class Stage:
    """What stands between one FROM and the next."""

    image: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all_of(self, keyword: str) -> list[str]:
        """The arguments of every instruction of a kind."""
        return [each.arguments for each in self.instructions if each.keyword == keyword]


def read_dockerfile(path: Path = DOCKERFILE) -> list[Stage]:
    """The stages, in their order."""
    stages: list[Stage] = []
    for instruction in _instructions(path.read_text()):
        if instruction.keyword == "FROM":
            image, _, name = instruction.arguments.partition(" AS ")
            stages.append(Stage(image, name))
        else:
            stages[-1].instructions.append(instruction)
    return stages


def environment_of(stage: Stage) -> dict[str, str]:
    """What its ENV instructions set."""
    pairs = re.findall(r"(\w+)=(\S+)", " ".join(stage.all_of("ENV")))
    return dict(pairs)


def exec_form(arguments: str) -> list[str]:
    """A command that is written as a JSON list; fails for the form that needs a shell."""
    command: list[str] = json.loads(arguments)
    return command


class Builder:
    """Runs a stage's steps below `root` instead of `/`, with the files of a checkout.

    Paths that the steps name are moved there word by word, so a step must write them in full, and
    so is the version in the name of Python's folder.
    """

    def __init__(
        self, checkout: Path, root: Path, environment: Mapping[str, str], python: str
    ) -> None:
        self.root = root
        self._python = python
        self._checkout = checkout
        self._environment = dict(environment)
        self._folder = root

    def moved(self, text: str) -> str:
        """A text with absolute paths of the image as they are here."""
        moved = re.sub(r"(?<![\w./])/(build|opt|tmp|data)\b", rf"{self.root}/\1", text)
        return re.sub(r"\bpython3\.\d+", f"python{self._python}", moved)

    def run(self, stage: Stage) -> None:
        """ENV, WORKDIR, COPY and RUN, in their order."""
        (self.root / "tmp").mkdir(parents=True, exist_ok=True)
        self._environment |= environment_of(stage)
        for instruction in stage.instructions:
            match instruction.keyword:
                case "WORKDIR":
                    self._folder = Path(self.moved(instruction.arguments))
                    self._folder.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(instruction.arguments.split())
                case "RUN":
                    self._run(instruction.arguments)

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        destination = self._folder / target
        for source in (self._checkout / name for name in sources):
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, destination, dirs_exist_ok=True, ignore=ignored)
            else:
                destination.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, destination / source.name)

    def _run(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", self.moved(command)],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def image_environment(builder: Builder, stage: Stage) -> dict[str, str]:
    """The environment of a container of this stage, below the builder's root."""
    values = {name: builder.moved(value) for name, value in environment_of(stage).items()}
    path = values["PATH"].replace("$PATH", os.defpath)
    return values | {"PATH": path, "TMPDIR": f"{builder.root}/tmp"}


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        keyword, _, arguments = line.partition(" ")
        yield Instruction(keyword, arguments.strip())
