"""Fork waits for what another thread does in LLVM.

llvmlite lets one thread at a time into LLVM, by a lock that it does not show. In a child that is
forked while another thread links or unloads code, that lock would never be released.
"""

from __future__ import annotations

from llvmlite.binding.ffi import lib

from kerneldsl.utilities.locks import no_fork

__all__: list[str] = []

no_fork.take_also(lib._lock._lock, is_inner=True)
