"""``numba.cuda.extending``: numba.extending's names; overloads are for kernels unless they say."""

from __future__ import annotations

from functools import partial

from numba import extending
from numba.extending import models as core_models

__all__ = ["core_models", "overload", "overload_attribute", "overload_method"]

overload = partial(extending.overload, target="cuda")
overload_attribute = partial(extending.overload_attribute, target="cuda")
overload_method = partial(extending.overload_method, target="cuda")
