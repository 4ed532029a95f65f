"""Names that belong to kerneldsl."""

from __future__ import annotations

__all__ = ["RESERVED_PREFIX"]

#: Names that begin so belong to kerneldsl; a user's function may not use them.
RESERVED_PREFIX = "kd_"
