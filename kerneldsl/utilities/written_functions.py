"""Functions with text that this project writes."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Mapping
from typing import Any

__all__ = ["written_function"]


def written_function(name: str, text: str, namespace: Mapping[str, Any], maker: str) -> Any:
    """Compile the text of a function, which stays readable where Python looks for source.

    - `name`: the function that the text defines.
    - `text`: its ``def``, and those of others, if it has them.
    - `namespace`: meanings of the names in the text. The function gets its own dictionary.
    - `maker`: the module that wrote it, which the function calls its own.
    - returns: the same text has the same file name in every process, so that its code is cached.

    Examples
    --------
    >>> import inspect
    >>> f = written_function("f", "def f(x):\\n    return x + 1\\n", {}, "somewhere")
    >>> f(1), inspect.getsource(f).splitlines()[1]
    (2, '    return x + 1')
    """
    file = f"<{maker}: {name} {zlib.crc32(text.encode()):08x}>"
    # An entry without a time is not compared with a file's time by linecache.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {**namespace, "__name__": maker}
    exec(compile(text, file, "exec"), space)
    return space[name]
