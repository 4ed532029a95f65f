"""The environment variables that kerneldsl reads, all of them, and its logger.

``docs/troubleshooting.md`` lists their values, and `check_environment` checks them when a function
is decorated. Most are read at each use. The exceptions are ``KERNELDSL_DEBUG`` and
``KERNELDSL_DISABLE_PASSES``, which are read when a kernel is decorated, and ``KERNELDSL_LOG``, when
the first one is. ``KERNELDSL_THREADING_LAYER`` is read at the CPU's first launch,
``KERNELDSL_POOL`` when a pool is made, and ``KERNELDSL_LAUNCHER`` when the first launch is
prepared.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.errors import ArgumentValueError, CacheError, KernelError, KernelWarning

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "OFF_WORDS",
    "ON_WORDS",
    "TARGET_KEY",
    "VARIABLES",
    "Variable",
    "cache_folder",
    "check_environment",
    "choice",
    "configure_logging",
    "disabled_passes",
    "fake_gpu_spec",
    "is_known",
    "is_on",
    "logger",
    "named_path",
    "nearest_to",
    "pass_names",
    "stored_variables",
    "target_spec",
    "traceback_is_full",
    "was_reported",
]

#: Words of a variable that is on or off, in lower case; empty is as if it were not set.
ON_WORDS, OFF_WORDS = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_SWITCH = ON_WORDS + OFF_WORDS


class Variable(NamedTuple):
    """An environment variable.

    Parameters
    ----------
    purpose : str
        Its purpose.
    words : tuple of str
        Its valid values, in lower case; empty if it is not a choice.
    otherwise : str
        A sentence with the effect of another value; if empty, such a value is an error.
    reader : str
        ``module:function`` that reads the value at its use, with the value as its only argument. It
        raises a `KernelError` for an invalid value.
    is_path : bool
        Whether it is a path, which `named_path` reads.
    """

    purpose: str
    words: tuple[str, ...] = ()
    otherwise: str = ""
    reader: str = ""
    is_path: bool = False


#: Every variable a user may set. `check_environment`, `summary` and `doctor` read this.
VARIABLES = {
    "KERNELDSL_TARGET": Variable(
        "where kernels run", reader="kerneldsl.placement.devices:check_target_spec"
    ),
    "KERNELDSL_FALLBACK": Variable(
        "what happens when a GPU cannot run a kernel", ("warn", "silent", "never")
    ),
    "KERNELDSL_DEBUG": Variable("checks in kernels", _SWITCH),
    "KERNELDSL_NUMPY_AS_CUPY": Variable("whether NumPy replaces CuPy under the drop-in", _SWITCH),
    "KERNELDSL_DISABLE_PASSES": Variable(
        "optimizing passes of the compiler that do not run",
        reader="kerneldsl.placement.registry:check_pass_names",
    ),
    "KERNELDSL_LOG": Variable(
        "level of the log on standard error",
        tuple(name.lower() for name in logging.getLevelNamesMapping()),
        "It is taken as debug",
    ),
    "KERNELDSL_TRACEBACK": Variable("whether errors show the frames of libraries", ("full",)),
    # The values are in the target's order of preference.
    "KERNELDSL_THREADING_LAYER": Variable(
        "thread pool of the CPU target", ("native", "tbb", "omp", "workqueue", "serial")
    ),
    "KERNELDSL_POOL": Variable("whether device memory comes from pools", _SWITCH),
    "KERNELDSL_LAUNCHER": Variable("whether native code repeats launches", _SWITCH),
    "KERNELDSL_CACHE": Variable(
        "whether compiled kernels are cached on disk", _SWITCH, "It is taken as off"
    ),
    "KERNELDSL_CACHE_DIR": Variable(
        "folder of the disk cache", otherwise="Nothing is written to the cache", is_path=True
    ),
    "KERNELDSL_CACHE_SITE": Variable(
        "second cache folder, only read", otherwise="The site's cache is ignored", is_path=True
    ),
    "KERNELDSL_CACHE_SIZE": Variable(
        "what the folder may hold",
        otherwise="Nothing is cached",
        reader="kerneldsl.cache.settings:read_size",
    ),
    "KERNELDSL_CACHE_KEY_FILE": Variable(
        "file with the secret that cached code is signed with",
        otherwise="Nothing is cached",
        is_path=True,
    ),
    "KERNELDSL_CACHE_SHARED": Variable(
        "whether folders of others are taken", _SWITCH, "It is taken as off"
    ),
    "KERNELDSL_FAKE_GPU": Variable(
        "what detection pretends to find", reader="kerneldsl.tools.detection.report:faked_names"
    ),
}
_PREFIX = "KERNELDSL_"
#: Variables of the project's tests, besides those that have ``TEST`` after the prefix.
_OF_TESTS = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        *("CHECK", "CONFORMANCE_TARGETS", "FAULTS", "FUZZ_PROGRAMS", "OCCUPANCY_CONFIGURATIONS"),
        "REQUIRE_GPU",
    )
)

#: Logger of compilations, loads, copies and launches with their times, and of reasons for
#: fallbacks.
logger = logging.getLogger("kerneldsl")

_TARGET = "KERNELDSL_TARGET"
#: The name as `stored_variables` has it.
TARGET_KEY = os.environ.encodekey(_TARGET)

_handler: logging.Handler | None = None


#: The variables of kerneldsl at the last check.
_checked: dict[str, str] | None = None
#: Texts of errors that were shown as warnings, and unknown variables.
_reported: set[str] = set()


def check_environment() -> None:
    """Check all variables of kerneldsl, once for each state of the environment.

    An invalid value is an error, or for the cache, which never raises one, a warning. An unknown
    variable is a warning with the nearest name, shown once. Functions are decorated after this
    check, so that a program reports a mistake when it starts. Devices and folders are not checked.

    Raises
    ------
    KernelError
        If a variable is a value that it cannot be: an `ArgumentValueError`, or of a target an
        `UnknownTargetError`.
    """
    global _checked  # noqa: PLW0603 -- one environment for the process
    # Names first: this is made at each decoration, and values of others need no decoding.
    present = {name: os.environ.get(name, "") for name in os.environ if name.startswith(_PREFIX)}
    if present == _checked:
        return
    for name, text in sorted(present.items()):
        variable = VARIABLES.get(name)
        if variable is None:
            if not is_known(name):
                _warn_once(name, f"kerneldsl reads no variable {name}. {nearest_to(name)}")
            continue
        try:
            _read(name, variable, text.strip())
        except KernelError as error:
            if not variable.otherwise:
                raise
            words = ", ".join(variable.words)
            remedy = f"Set it to one of {words}" if words else f"{error.limit}. {error.remedy}"
            _warn_once(str(error), f"{error.what}. {variable.otherwise}. {remedy}.")
    _checked = present


def _read(name: str, variable: Variable, text: str) -> None:
    """Raise a `KernelError` if a value is invalid for the variable."""
    word = text.lower()
    if variable.words and word and word not in variable.words:
        raise refused_word(name, word)
    if variable.is_path and text.startswith("~"):  # other errors of a path are found at its use
        named_path(name, text)
    if variable.reader and text:
        from importlib import import_module

        module, _, function = variable.reader.partition(":")
        getattr(import_module(module), function)(text)


def was_reported(error: KernelError) -> bool:
    """Return whether `check_environment` has warned of the same."""
    return str(error) in _reported


def is_known(name: str) -> bool:
    """Return whether a variable with kerneldsl's prefix is known, also to the tests."""
    return name in VARIABLES or name in _OF_TESTS or name.startswith(f"{_PREFIX}TEST_")


def nearest_to(name: str) -> str:
    """Return the remedy for a variable that is not read."""
    from difflib import get_close_matches

    known = [each.removeprefix(_PREFIX) for each in VARIABLES]
    near = get_close_matches(name.removeprefix(_PREFIX), known, n=1, cutoff=0.7)
    return f"Did you mean {_PREFIX}{near[0]}?" if near else f"It reads {', '.join(VARIABLES)}."


def refused_word(name: str, word: str) -> ArgumentValueError:
    """Return the error of a variable that is a word that it cannot be."""
    words = VARIABLES[name].words
    if words == _SWITCH:
        limit = "It must be on or off (1 or 0, true or false, yes or no)"
    elif len(words) > 1:
        limit = f"It must be {', '.join(words[:-1])} or {words[-1]}"
    else:
        limit = f"It must be {words[0]}, or not be set"
    return ArgumentValueError(
        f"{name} is {word!r}",
        value=word,
        limit=limit,
        remedy="Set it to one of them, or unset it" if len(words) > 1 else "Set it so, or unset it",
    )


def _warn_once(of: str, text: str) -> None:
    if of in _reported:
        return
    _reported.add(of)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kerneldsl"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, KernelWarning, stacklevel=level)


def stored_variables() -> dict[Any, Any] | None:
    """Return the dictionary in which `os.environ` stores encoded variables, ``None`` without one.

    Each call of a library function on NumPy arrays reads ``KERNELDSL_TARGET``, which a program may
    set at any time, and native launches compare its entry. Public look-ups of a variable that is
    not set raise and catch an exception. They take 1.1 to 1.9 µs, as long as the whole call. A
    look-up here takes 0.1 µs.
    """
    values = getattr(os.environ, "_data", None)
    return values if type(values) is dict else None


def target_spec() -> str | None:
    """Return the target that ``KERNELDSL_TARGET`` names, or ``None``."""
    known = stored_variables()
    if known is not None and TARGET_KEY not in known:
        return None
    return os.environ.get(_TARGET, "").strip() or None


def choice(name: str) -> str:
    """Return the word of a variable, in lower case, or ``""``.

    Raises `ArgumentValueError` for a word that is invalid for the variable.
    """
    word = os.environ.get(name, "").strip().lower()
    if word and word not in VARIABLES[name].words:
        raise refused_word(name, word)
    return word


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
            limit="~ is HOME, or the home directory of this user; ~name is that of another user",
            remedy=f"Set {variable} to a path without ~, or set HOME",
        ) from error


def _is_linux() -> bool:
    return sys.platform == "linux"


def disabled_passes() -> tuple[str, ...]:
    """Return the names in ``KERNELDSL_DISABLE_PASSES``, which `check_environment` checks."""
    return pass_names(os.environ.get("KERNELDSL_DISABLE_PASSES", ""))


def pass_names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas, each once, in alphabetical order.

    Examples
    --------
    >>> pass_names("unroll-strides, narrow-addresses,")
    ('narrow-addresses', 'unroll-strides')
    """
    names = {name.strip().lower() for name in text.split(",")}
    return tuple(sorted(names - {""}))


def is_on(name: str, *, default: bool) -> bool:
    """Return whether a variable is on; `default` if it is not set.

    Raises `ArgumentValueError` for a word that is neither on nor off.
    """
    word = choice(name)
    return word in ON_WORDS if word else default


def traceback_is_full() -> bool:
    """Return whether ``KERNELDSL_TRACEBACK`` requests the frames and causes of libraries.

    It is read while an error propagates, and must not replace that error by another one.
    `check_environment` reports an invalid word before.
    """
    return os.environ.get("KERNELDSL_TRACEBACK", "").strip().lower() == "full"


def configure_logging() -> None:
    """Send the log to standard error at the level that ``KERNELDSL_LOG`` names.

    Without the variable nothing is configured: the logger ``kerneldsl`` is the application's. An
    unknown level is taken as ``debug``, which `check_environment` warns of.
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
