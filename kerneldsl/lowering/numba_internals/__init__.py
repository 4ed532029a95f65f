"""Everything that kerneldsl uses of Numba and llvmlite beyond their documented interfaces.

Every module that may import Numba may use what is documented:

- the names of ``numba`` itself (``types``, ``errors``, ``config``, ``njit``, …)
- ``numba.extending``, and ``numba.core.cgutils``, which "Extending Numba" uses
- ``llvmlite.ir`` and ``llvmlite.binding``
- methods without an underscore of the typing and target contexts, data models and builders that
  extensions get

All else is private, changes without notice, and is imported here alone;
``tests/unit/lowering/test_numba_internals.py`` checks that. Two modules cannot import Numba,
because programs may start without it: ``kerneldsl/cache/overloads.py`` and
``targets/cpu/runtime/threads.py``. They read it from ``sys.modules`` or load a file of it.

=====================  ============================================================================
`compiling`            passes, flags, the compiler's lock
`host_code`            the CPU's contexts, code libraries for this processor
`device_target`        a GPU as a target of Numba's, with `device_functions`, `device_code`,
                       `calling`
`scalar_lowerings`     operations on numbers that are not Numba's to lower
`arrays`, `operators`  Numba's structure of arrays; declarations of operators
`text`, `llvm`         the text of modules that Numba lowered; what llvmlite has no class for
`regions`              modules, flags and passes of code from the region IR; with `line_marks`
`llvm_lock`            llvmlite's lock, for which fork waits
`vocabulary`           signatures and dtypes, as programs of numba.cuda write them
`moved`                the error if a release has moved a name
=====================  ============================================================================

``docs/releases.md`` says what a new release takes.
"""

from __future__ import annotations

__all__: list[str] = []
