"""Programs that must be refused: a barrier that threads reach unequally often."""

from __future__ import annotations

import random

from tests.fuzz.kernel_parts import HEADER
from tests.fuzz.names import renamed
from tests.fuzz.program import DATA_SETS, Array, Program

__all__ = ["divergent_program"]

_VARYING_LOOPS = (
    ("r = x[t:]", "for k in range(r.size):"),
    ("r = x[:t + 1]", "for e in r:"),
    ("r = x if t < 3 else x[2:]", "for k in range(r.shape[0]):"),
    (
        "r = kd.local.array(4, np.int64)\n    for k in range(4):\n        r[k] = t",
        "for e in r:\n        if e > 4:",
    ),
    ("r = t % 3", "for k in range(r):"),
    ("kd.atomic.add(c, 0, 1)", "for k in range(c[0] % 3):"),
    ("kd.atomic.add(c, 0, 1)", "for e in c:\n        if e > 4:"),
    ("r = t", "if r > 2:"),
    ("r = x[t] % 5", "while r > 2:\n        r -= 1"),
)


def divergent_program(seed: int) -> Program:
    """A barrier that not all threads of a block reach equally often."""
    rng = random.Random(seed)
    before, header = rng.choice(_VARYING_LOOPS)
    depth = 3 if header.count("\n") and header.endswith(":") else 2
    lines = ["@kd.kernel", "def kernel(x, c, out):", "    t = kd.threadIdx.x", f"    {before}"]
    lines += ["    v = 0", f"    {header}", "    " * depth + "kd.syncthreads()"]
    lines += ["    " * depth + "v += 1", "    out[t] = v"]
    text = renamed("\n".join([*HEADER, *lines]) + "\n", rng)
    parameters = (
        Array("x", "int64", ((8,),) * DATA_SETS),
        Array("c", "int64", ((2,),) * DATA_SETS, "counter"),
        Array("out", "int64", ((8,),) * DATA_SETS, "output"),
    )
    features = frozenset({"divergent barrier"})
    return Program(seed, text, parameters, (1,), (8,), is_divergent=True, features=features)
