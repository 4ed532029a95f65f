"""``numba.cuda.cudadecl``: where programs register the types of their calls and attributes."""

from kerneldsl.lowering.numba_internals.vocabulary import typing_registry as registry

__all__ = ["register", "register_attr", "register_global", "registry"]

register = registry.register
register_attr = registry.register_attr
register_global = registry.register_global
