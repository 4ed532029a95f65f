"""The namespace of the Python array API standard 2024.12, for device arrays.

``array.__array_namespace__()`` of a device array returns it. Its functions are those of the
library, or separate kernels. The extension `linalg` has the functions that need no decomposition
of a matrix; the extension `fft` does not exist.

References
----------
Consortium for Python Data API Standards, "Python array API standard", version 2024.12.
"""

from stdlib_kernels.array_api import (
    binary,
    conversion,
    creation,
    dtypes,
    inspection,
    manipulation,
    products,
    ranges,
    reductions,
    searching,
    unary,
)
from stdlib_kernels.array_api import linalg as linalg
from stdlib_kernels.elementwise import clip as clip

#: Versions of the standard that the namespace follows.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
__array_api_version__ = API_VERSIONS[-1]

_PARTS = (
    *(binary, conversion, creation, dtypes, inspection, manipulation),
    *(products, ranges, reductions, searching, unary),
)
#: Names in these modules for the rest of the library only.
_INTERNAL = {"Info", "documented_creation", "last_axis"}
#: Name to its module. The stub for type checkers is made of it.
_HOME = {name: part.__name__ for part in _PARTS for name in part.__all__ if name not in _INTERNAL}
globals().update((name, getattr(part, name)) for part in _PARTS for name in part.__all__)
for _name in _INTERNAL:
    del globals()[_name]
_HOME |= {"clip": "stdlib_kernels.elementwise", "linalg": __name__}

__all__ = sorted({*_HOME, "__array_api_version__"})
