"""Written by docs/library_stubs.py."""
from stdlib_kernels.random.generator import Generator as Generator
from stdlib_kernels.random.draws import State as State
from stdlib_kernels.random.generator import default_rng as default_rng

__all__: list[str]
