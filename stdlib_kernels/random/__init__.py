"""Random arrays of a counter-based generator, by NumPy's names.

=============  ====================================================================================
`default_rng`  makes a `Generator` of a seed
`Generator`    draws arrays: `random`, `normal`, `integers`, `choice`, `permutation` and others
`State`        what a generator comes to: a key and a counter
=============  ====================================================================================
"""

from stdlib_kernels.random.draws import State
from stdlib_kernels.random.generator import Generator, default_rng

__all__ = ["Generator", "State", "default_rng"]
