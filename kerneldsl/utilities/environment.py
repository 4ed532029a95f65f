"""The environment variables that kerneldsl reads, all of them, and its logger.

``docs/troubleshooting.md`` lists their values. Each is read whenever it is needed, except
``KERNELDSL_DEBUG``, which is read when a kernel is decorated, ``KERNELDSL_LOG``, when the first one
is, ``KERNELDSL_THREADING_LAYER`` at the CPU's first launch, ``KERNELDSL_POOL`` when a pool is made,
and ``KERNELDSL_LAUNCHER`` when the first launch is prepared.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from kerneldsl.errors import ArgumentValueError, CacheError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "OFF_WORDS",
    "ON_WORDS",
    "VARIABLES",
    "cache_folder",
    "check_traceback",
    "configure_logging",
    "debug_is_on",
    "fake_gpu_spec",
    "fallback_spec",
    "launcher_is_off",
    "logger",
    "named_path",
    "pool_is_off",
    "target_spec",
    "traceback_is_full",
]

#: Every variable a user may set, and what it is for; `status` and `doctor` read this.
VARIABLES = {
    "KERNELDSL_TARGET": "where kernels run",
    "KERNELDSL_FALLBACK": "what happens when a GPU cannot run a kernel",
    "KERNELDSL_DEBUG": "checks in kernels",
    "KERNELDSL_LOG": "level of the log on standard error",
    "KERNELDSL_TRACEBACK": "whether errors show the frames of libraries",
    "KERNELDSL_THREADING_LAYER": "thread pool of the CPU target",
    "KERNELDSL_POOL": "whether device memory comes from pools",
    "KERNELDSL_LAUNCHER": "whether native code repeats launches",
    "KERNELDSL_CACHE": "whether compiled kernels are cached on disk",
    "KERNELDSL_CACHE_DIR": "folder of the disk cache",
    "KERNELDSL_CACHE_SITE": "second cache folder, only read",
    "KERNELDSL_CACHE_SIZE": "what the folder may hold",
    "KERNELDSL_CACHE_KEY_FILE": "file with the secret that cached code is signed with",
    "KERNELDSL_CACHE_SHARED": "whether folders of others are taken",
    "KERNELDSL_FAKE_GPU": "what detection pretends to find",
}

#: What was compiled, loaded, staged and launched, in which time, and why a fallback happened.
logger = logging.getLogger("kerneldsl")

#: What a variable that is on or off may be, in lower case; empty is as if it were not set.
ON_WORDS, OFF_WORDS = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_handler: logging.Handler | None = None


def target_spec() -> str | None:
    """Return the target that ``KERNELDSL_TARGET`` names, or ``None``."""
    return os.environ.get("KERNELDSL_TARGET", "").strip() or None


def fallback_spec() -> str | None:
    """Return the policy that ``KERNELDSL_FALLBACK`` names, or ``None``."""
    return os.environ.get("KERNELDSL_FALLBACK", "").strip().lower() or None


def fake_gpu_spec() -> str | None:
    """Return what ``KERNELDSL_FAKE_GPU`` says is there; ``""`` is no GPU, ``None`` is no fake."""
    return os.environ.get("KERNELDSL_FAKE_GPU")


def cache_folder() -> Path:
    """Return the folder of the disk cache; it need not exist.

    Raises `CacheError` if neither ``KERNELDSL_CACHE_DIR`` nor the system says where.
    """
    from pathlib import Path

    named = os.environ.get("KERNELDSL_CACHE_DIR", "").strip()
    if named:
        return named_path("KERNELDSL_CACHE_DIR", named)
    try:
        if _is_linux():  # as platformdirs does, without its import
            base = os.environ.get("XDG_CACHE_HOME", "").strip() or Path("~/.cache").expanduser()
            return Path(base, "kerneldsl").absolute()
        from platformdirs import user_cache_path

        return user_cache_path("kerneldsl", appauthor=False).expanduser().absolute()
    except RuntimeError as error:
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "this user"
        raise CacheError(
            "there is no home directory for the cache: HOME is not set, and the system knows none "
            f"of {user}",
            remedy="Set KERNELDSL_CACHE_DIR to a folder that can be written to, or HOME",
        ) from error


def named_path(variable: str, text: str) -> Path:
    """Return the absolute path that a variable names, with ``~`` for a user's home.

    Raises `CacheError` for the home of a user who is not known.
    """
    from pathlib import Path

    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise CacheError(
            f"{variable} is {text!r}, and there is no home directory of that user",
            value=text,
            limit="~ is HOME, or what the system knows of this user; ~name is of a user it knows",
            remedy=f"Set {variable} to a path without ~, or set HOME",
        ) from error


def launcher_is_off() -> bool:
    """Return whether ``KERNELDSL_LAUNCHER`` asks for launches through Python."""
    return os.environ.get("KERNELDSL_LAUNCHER", "").strip().lower() in OFF_WORDS


def _is_linux() -> bool:
    return sys.platform == "linux"


def pool_is_off() -> bool:
    """Return whether ``KERNELDSL_POOL`` asks for memory straight from the driver.

    Raises `ArgumentValueError` if it says neither yes nor no.
    """
    return not _is_on("KERNELDSL_POOL", default=True)


def debug_is_on() -> bool:
    """Return whether ``KERNELDSL_DEBUG`` asks for debug mode.

    Raises `ArgumentValueError` if it says neither yes nor no.
    """
    return _is_on("KERNELDSL_DEBUG", default=False)


def _is_on(name: str, *, default: bool) -> bool:
    """Return whether a variable says yes; refuse what is neither yes nor no."""
    text = os.environ.get(name, "").strip().lower()
    if text and text not in ON_WORDS + OFF_WORDS:
        raise ArgumentValueError(
            f"{name} is {text!r}",
            value=text,
            limit="It must be on or off (1 or 0, true or false, yes or no)",
            remedy="Set it to one of them, or unset it",
        )
    return text in ON_WORDS if text else default


def traceback_is_full() -> bool:
    """Return whether ``KERNELDSL_TRACEBACK`` asks for the frames and causes of libraries.

    It is asked while an error leaves, which another word must not replace by an error of its own:
    `check_traceback` refuses that word before.
    """
    return _traceback_word() == "full"


def check_traceback() -> None:
    """Refuse what ``KERNELDSL_TRACEBACK`` may not be.

    Raises `ArgumentValueError` if it is neither ``full`` nor empty.
    """
    text = _traceback_word()
    if text not in ("", "full"):
        raise ArgumentValueError(
            f"KERNELDSL_TRACEBACK is {text!r}",
            value=text,
            limit="It must be full, or not be set",
            remedy="Set it to full, or unset it",
        )


def _traceback_word() -> str:
    return os.environ.get("KERNELDSL_TRACEBACK", "").strip().lower()


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
        logger.warning("KERNELDSL_LOG=%s is not a logging level; debug is used", name)
