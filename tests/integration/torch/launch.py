"""One of the processes that a test or a benchmark starts: runs all cases of a folder and writes
what came of them."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.integration.torch import padded, stock


def main():
    folder = Path(sys.argv[1])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=ranks
    )
    cases = json.loads((folder / "cases.json").read_text())
    found = {name: stock.run(case, rank) for name, case in cases.get("stock", {}).items()}
    found |= {name: padded.time_steps(case, rank) for name, case in cases.get("timed", {}).items()}
    # All of that was PyTorch and the files alone.
    assert not [name for name in sys.modules if name.startswith(("client", "planner"))]
    from tests.integration.torch import planned

    found |= {name: planned.run(case, rank) for name, case in cases.get("planned", {}).items()}
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


main()
