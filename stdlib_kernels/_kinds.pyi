"""Kinds of arrays in the stubs of the library."""

from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

class _Foreign(Protocol):
    """An array of another library, which shares its memory by DLPack."""

    def __dlpack_device__(self) -> tuple[Any, Any]: ...
    @property
    def device(self) -> Any: ...

Host: TypeAlias = np.ndarray[Any, Any]
Foreign = TypeVar("Foreign", bound=_Foreign)
ArrayLike: TypeAlias = npt.ArrayLike
Number: TypeAlias = int | float | complex | np.number[Any] | np.bool_
Ints: TypeAlias = int | tuple[int, ...]
Axis: TypeAlias = Ints | None
