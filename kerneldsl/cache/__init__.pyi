"""Written by docs/library_stubs.py."""

from kerneldsl.cache.management import (
    clear as clear,
    entries as entries,
    export as export,
    import_ as import_,
    is_on as is_on,
    path as path,
    prune as prune,
    reset_stats as reset_stats,
    stats as stats,
    verify as verify,
)

__all__: list[str]
