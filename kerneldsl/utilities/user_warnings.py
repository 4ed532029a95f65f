"""Warnings that show the user's line, from however deep they come."""

from __future__ import annotations

import sys
import warnings

from kerneldsl.utilities.tracebacks import OWN_FOLDERS

__all__ = ["warn_user"]


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the nearest line of code that is not of this distribution."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
