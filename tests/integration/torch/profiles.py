"""Profiles of the small model's stages, as `loadmaster profile` takes them, in one process.

    python -m tests.integration.torch.profiles FOLDER
"""

import json
import sys
from pathlib import Path

from client.torch_profile.run import run_profile

MODEL = Path(__file__).parent / "model.py"
CASES = {
    "deferred": ("profiled", 8),
    "native": ("profiled", 8),
    "native line": ("profiled_pairs", 4),
    "fused line": ("profiled_pairs", 4),
    "native uneven": ("profiled_uneven", 6),
}
"""A factory of the model and the number of its stages, by split and stages."""


def main():
    folder = Path(sys.argv[1])
    for name, (factory, stages) in CASES.items():
        profile = run_profile(
            f"{MODEL}:{factory}",
            stages=stages,
            micro_batches=8,
            split=name.partition(" ")[0],
            repeat=1,
            threads=1,
        )
        (folder / f"{name}.profile.json").write_text(json.dumps(profile.problem()))


if __name__ == "__main__":
    main()
