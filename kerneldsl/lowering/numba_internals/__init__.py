"""Everything that kerneldsl uses of Numba and llvmlite beyond their documented interfaces.

Documented, and so for every module that may import Numba: the names of ``numba`` itself
(``types``, ``errors``, ``config``, ``njit``, …), ``numba.extending``, ``numba.core.cgutils`` (which
"Extending Numba" uses), ``llvmlite.ir`` and ``llvmlite.binding``, and the methods without an
underscore of what these hand to an extension: typing and target contexts, data models, builders.
All else is private, changes without notice, and is imported here alone;
``tests/unit/lowering/test_numba_internals.py`` holds that. What cannot import Numba, because it
stands before the lowering or in a start without Numba, reads it from ``sys.modules`` or loads a
file of it: ``kerneldsl/cache/overloads.py`` and ``targets/cpu/runtime/threads.py``.

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
`moved`                what is said when a release has moved a name
=====================  ============================================================================

``docs/releases.md`` says what a new release takes.
"""

from __future__ import annotations

__all__: list[str] = []
