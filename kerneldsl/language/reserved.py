"""Names that belong to kerneldsl."""

from __future__ import annotations

__all__ = ["RESERVED_PREFIX", "ROUND_TO_BFLOAT16"]

#: Names that begin so belong to kerneldsl; a user's function may not use them.
RESERVED_PREFIX = "kd_"
#: The function of a module that rounds a float to the bits of a bfloat16, ``i16 (float)``. A target
#: that has an instruction for it links its own definition.
ROUND_TO_BFLOAT16 = "kd_round_to_bfloat16"
