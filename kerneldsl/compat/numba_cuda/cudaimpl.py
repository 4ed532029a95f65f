"""``numba.cuda.cudaimpl``: where programs register the LLVM code of their calls and attributes."""

from kerneldsl.lowering.numba_internals.vocabulary import lowering_registry as registry

__all__ = ["lower", "lower_attr", "lower_cast", "lower_constant", "registry"]

lower = registry.lower
lower_attr = registry.lower_getattr
lower_cast = registry.lower_cast
lower_constant = registry.lower_constant
