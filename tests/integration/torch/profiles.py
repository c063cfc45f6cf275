"""Profiles of the small model's stages, as `loadmaster profile` takes them, in one process.

    python -m tests.integration.torch.profiles FOLDER REPEAT NAME…

Imported, it needs no PyTorch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.torch.processes import started

MODEL = Path(__file__).parent / "model.py"
CASES = {
    "deferred": ("profiled", 8),
    "native": ("profiled", 8),
    "native line": ("profiled_pairs", 4),
    "fused line": ("profiled_pairs", 4),
    "deferred wide": ("profiled_wide", 4),
    "native uneven": ("profiled_uneven", 6),
}
"""A factory of the model and the number of its stages, by split and stages."""


def profiles(folder: Path, names: list[str], repeat: int = 1) -> dict[str, dict[str, Any]]:
    """The problems that these profiles give, by name, made in a process of their own."""
    arguments = ["tests.integration.torch.profiles", str(folder), str(repeat), *names]
    assert started(arguments).wait() == 0
    return {name: json.loads((folder / f"{name}.profile.json").read_text()) for name in names}


def main() -> None:
    """Write a file per profile."""
    from client.torch_profile.run import run_profile

    folder, repeat, *names = sys.argv[1:]
    for name in names:
        factory, stages = CASES[name]
        profile = run_profile(
            f"{MODEL}:{factory}",
            stages=stages,
            micro_batches=8,
            split=name.partition(" ")[0],
            repeat=int(repeat),
            threads=1,
        )
        Path(folder, f"{name}.profile.json").write_text(json.dumps(profile.problem()))


if __name__ == "__main__":
    main()
