"""Device functions of a text that this package writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kerneldsl.kernels.decorators import func
from kerneldsl.utilities.written_functions import written_function

__all__ = ["made_functions"]


def made_functions(text: str, module: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions of a text as device functions, by name. They see each other."""
    first, *others = re.findall(r"^def (\w+)", text, re.MULTILINE)
    space = written_function(first, text, namespace, module).__globals__
    made = {name: func(space[name]) for name in (first, *others)}
    space.update(made)
    return made
