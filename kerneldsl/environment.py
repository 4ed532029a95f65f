"""The environment variables that kerneldsl reads, all of them, and its logger.

================== =======================================================================
``KERNELDSL_TARGET``  where kernels run when neither arguments nor ``kd.use`` say: ``cpu``,
                      ``cuda``, ``cuda:1``, ``null``; read at each such decision
``KERNELDSL_DEBUG``   ``1`` compiles kernels as with ``debug=True``; read when a kernel is decorated
``KERNELDSL_LOG``     ``debug``, ``info``, ``warning``…: print the log to standard error; read when
                      the first kernel is decorated
================== =======================================================================
"""

from __future__ import annotations

import logging
import os

__all__ = ["configure_logging", "debug_is_on", "logger", "target_spec"]

#: What was compiled, loaded, staged and launched, in which time, and why a fallback happened.
logger = logging.getLogger("kerneldsl")

_FALSE = frozenset({"", "0", "false", "no", "off"})
_handler: logging.Handler | None = None


def target_spec() -> str | None:
    """The target that ``KERNELDSL_TARGET`` names, or ``None``."""
    return os.environ.get("KERNELDSL_TARGET", "").strip() or None


def debug_is_on() -> bool:
    """Whether ``KERNELDSL_DEBUG`` asks for debug mode."""
    return os.environ.get("KERNELDSL_DEBUG", "").strip().lower() not in _FALSE


def configure_logging() -> None:
    """Send the log to standard error at the level that ``KERNELDSL_LOG`` names.

    Without the variable nothing is configured: the logger ``kerneldsl`` is the application's. An
    unknown level is reported and taken as ``debug``.
    """
    global _handler  # noqa: PLW0603 -- one handler for the process
    name = os.environ.get("KERNELDSL_LOG", "").strip()
    if not name or _handler is not None:
        return
    level = logging.getLevelNamesMapping().get(name.upper())
    _handler = logging.StreamHandler()
    _handler.setFormatter(logging.Formatter("%(asctime)s kerneldsl %(levelname)s %(message)s"))
    logger.addHandler(_handler)
    logger.setLevel(logging.DEBUG if level is None else level)
    if level is None:
        logger.warning("KERNELDSL_LOG=%s is no logging level; taken as debug", name)
