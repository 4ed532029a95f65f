"""A process that runs a range of programs and tells of each in lines of JSON.

Before each run it says what it begins, so that the one that ends the process is known. One that
takes too long writes where it stands to the standard error, before it is killed.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import linecache
import sys
import time
from typing import Any

__all__ = ["PATIENCE", "main"]

#: Seconds after which a run has hung.
PATIENCE = 180


def _say(**fields: Any) -> None:
    faulthandler.dump_traceback_later(PATIENCE - 10)
    print(json.dumps(fields), flush=True)


def main(first: int, count: int, targets: list[str], share: float) -> None:
    """Run the programs of `count` seeds from `first` on."""
    from tests.fuzz.kernels import generate
    from tests.fuzz.outcomes import check_program

    for seed in range(first, first + count):
        start = time.process_time()
        _say(seed=seed, target="generator", variant="")
        program = generate(seed)

        def begin(target: str, variant: str, seed: int = seed) -> None:
            _say(seed=seed, target=target, variant=variant)

        outcomes = list(check_program(program, targets, share=share, begin=begin))
        seconds = time.process_time() - start
        _say(
            seed=seed,
            seconds=seconds,
            features=sorted(program.features),
            outcomes=[o.as_json() for o in outcomes],
        )
        for name in [n for n in linecache.cache if n.startswith("<generated")]:
            del linecache.cache[name]
        if seed % 50 == 0:
            gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), float(sys.argv[4]))
