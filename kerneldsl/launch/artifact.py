"""From a specialization to its code: compiled, or taken from what an earlier process compiled."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kerneldsl.cache.disk import DiskCache, Found, counters, disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import Reason, UncacheableError
from kerneldsl.contract import Artifact, Compiler, Specialization, UnusableCodeError
from kerneldsl.errors import KernelError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import user_places
from kerneldsl.language.kinds import Kind, format_signature
from kerneldsl.launch.nesting import refuse_deep_nesting
from kerneldsl.launch.recorded import is_recording, note
from kerneldsl.launch.shipping_packages import may_be_shipped
from kerneldsl.launch.state import KernelState
from kerneldsl.utilities.address_space import out_of_addresses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.frame_room import call_with_room
from kerneldsl.utilities.progress import said_after_a_moment
from kerneldsl.utilities.untrusted import parse_json
from kerneldsl.utilities.whole_imports import import_whole

__all__ = ["compile_or_load", "find_artifact", "find_key", "notes_on"]

#: Section of what this module adds to a target's own.
_MADE = "made"
#: Kernels in which uint64 and signed integers meet, with the arguments for which they do, and
#: whether a result may differ. Code that is typed once for several mappings is marked in all of
#: their entries.
_mixing: WeakKeyDictionary[FunctionUnit, dict[tuple[Kind, ...], bool]] = WeakKeyDictionary()
#: Kernels that are known to lose no values, with the arguments for which they lose none.
_lossless: WeakKeyDictionary[FunctionUnit, set[tuple[Kind, ...]]] = WeakKeyDictionary()


class _Made(NamedTuple):
    """Notes of an entry on its code, beside the sections of the target."""

    compile_s: float = 0.0
    #: Whether a uint64 may become an int64, which is said again by each process.
    mixes_signs: bool = False
    #: Whether values may get lost, which is said again by each process.
    loses_values: bool = True


def find_artifact(
    state: KernelState, compiler: Compiler, specialization: Specialization
) -> Artifact:
    """Return compiled code, made the first time."""
    found = state.artifacts.get_or_make(
        (compiler.name, specialization), lambda: _make(state, compiler, specialization)
    )
    note(compiler, specialization, found)
    return found


def _make(state: KernelState, compiler: Compiler, specialization: Specialization) -> Artifact:
    started = time.perf_counter()
    with said_after_a_moment(lambda: _work(compiler, specialization)):
        artifact, how = compile_or_load(compiler, specialization)
    elapsed = time.perf_counter() - started
    # Once for the same arguments, however many mappings are compiled for them.
    if all(known.kinds != specialization.kinds for _, known in tuple(state.compile_s)):
        _tell_of_losses(specialization)
    state.compile_s[compiler.name, specialization] = elapsed
    logger.debug(
        "%s %s(%s) for %s%s in %.1f ms",
        how,
        specialization.unit.qualname,
        format_signature(specialization.kinds),
        compiler.name,
        f" {specialization.arch}" if specialization.arch else "",
        elapsed * 1e3,
    )
    return artifact


def _work(compiler: Compiler, specialization: Specialization) -> str:
    """Say what is compiled, for one who waits."""
    name, kinds = specialization.unit.qualname, format_signature(specialization.kinds)
    return f"compiling {name}({kinds}) for {specialization.arch or compiler.name} …"


def compile_or_load(compiler: Compiler, specialization: Specialization) -> tuple[Artifact, str]:
    """Return the code of a specialization, and ``"shipped"``, ``"found"`` or ``"compiled"``.

    While launches are recorded, it is always compiled.

    Raises
    ------
    KernelError
        As :meth:`Compiler.compile` and :func:`~kerneldsl.launch.shipped.find_shipped`.
    """
    try:
        with refuse_deep_nesting(None), user_places(specialization.unit):
            return call_with_room(_compile_or_load, compiler, specialization)
    except MemoryError as error:
        unit = specialization.unit
        refused = out_of_addresses(f"compiling {unit.qualname}", unit.locate(unit.tree))
        if refused is None or isinstance(error, KernelError):
            raise
        raise refused from error
    except (ImportError, AttributeError) as error:
        from kerneldsl.lowering.numba_internals.moved import moved_name

        moved = moved_name(error)
        if moved is None:
            raise
        raise moved from error


def _compile_or_load(compiler: Compiler, specialization: Specialization) -> tuple[Artifact, str]:
    if is_recording():
        return _compile(compiler, specialization), "compiled"
    if may_be_shipped():
        from kerneldsl.launch.shipped import find_shipped

        shipped = find_shipped(compiler, specialization)
        if shipped is not None:
            _take_notes(compiler, specialization, _read_notes(shipped.notes))
            return shipped.artifact, "shipped"
    cache = disk_cache()
    key = _key(compiler, specialization) if cache.is_on else None
    if key is None:
        return _compile(compiler, specialization), "compiled"
    started = time.perf_counter()
    found = cache.look_up(key)
    if found is None:
        with cache.compiling(key, compiler.expect_code) as found:
            if found is None:
                return _compile_and_keep(cache, key, compiler, specialization), "compiled"
    try:
        artifact = compiler.restore(specialization, found.entry.sections)
    except UnusableCodeError as error:
        cache.reject(found, str(error))
        return _compile_and_keep(cache, key, compiler, specialization), "compiled"
    made = _made_in(found)
    counters.saved(made.compile_s - (time.perf_counter() - started))
    _take_notes(compiler, specialization, made)
    return artifact, "found"


def _take_notes(compiler: Compiler, specialization: Specialization, made: _Made) -> None:
    """Warn as compiling would, and note what it would find."""
    if made.mixes_signs:
        _tell_of_signs(compiler, specialization)
    if not made.loses_values:
        _lossless.setdefault(specialization.unit, set()).add(specialization.kinds)


def _compile_and_keep(
    cache: DiskCache, key: Key, compiler: Compiler, specialization: Specialization
) -> Artifact:
    started = time.perf_counter()
    artifact = _compile(compiler, specialization)
    _keep(cache, key, compiler, artifact, specialization, time.perf_counter() - started)
    return artifact


def _compile(compiler: Compiler, specialization: Specialization) -> Artifact:
    if specialization.code is not None:  # nothing of it is analyzed, and Numba has no part in it
        return compiler.compile(specialization)
    from kerneldsl.analysis.chains import check_published_values
    from kerneldsl.lowering.mixed_signs import MIXED_SIGNS

    check_published_values(specialization.unit, specialization.kinds)
    before = MIXED_SIGNS.count
    import_whole("numba")
    artifact = compiler.compile(specialization)
    if MIXED_SIGNS.count > before:
        _tell_of_signs(compiler, specialization)
    return artifact


def _tell_of_signs(compiler: Compiler, specialization: Specialization) -> None:
    """Warn of changed signs, once for the same arguments, however much is compiled for them."""
    from kerneldsl.launch.sign_warnings import warn_of_sign_changes  # few kernels need it

    known = _mixing.setdefault(specialization.unit, {})
    if specialization.kinds not in known:
        known[specialization.kinds] = warn_of_sign_changes(compiler, specialization)


def _tell_of_losses(specialization: Specialization) -> None:
    """Warn of lost values; a note of the entry spares the search for them."""
    if not _is_lossless(specialization):
        from kerneldsl.launch.value_warnings import warn_of_lost_values

        warn_of_lost_values(specialization)


def _is_lossless(specialization: Specialization) -> bool:
    return specialization.kinds in _lossless.get(specialization.unit, ())


def find_key(compiler: Compiler, specialization: Specialization, *, anew: bool = False) -> Key:
    """Return the key of a specialization's code.

    Parameters
    ----------
    compiler : Compiler
        What compiles it.
    specialization : Specialization
        What is compiled.
    anew : bool
        Look at everything again that may have changed while the code was made.

    Raises
    ------
    UncacheableError
        If such code is not kept.
    """
    from kerneldsl.cache.specialization import key_of

    if anew:
        from kerneldsl.cache.remembered import looking_anew

        with looking_anew():
            identity = compiler.code_identity(specialization)
    else:
        identity = compiler.code_identity(specialization)
    if identity is None:
        raise UncacheableError(f"the target {compiler.name!r} does not cache such code")
    return key_of(specialization, compiler.code_family, identity, anew=anew)


def _key(compiler: Compiler, specialization: Specialization) -> Key | None:
    try:
        return find_key(compiler, specialization)
    except UncacheableError as error:
        logger.debug("cache: %s is not stored: %s", specialization.unit.qualname, error)
        counters.missed(Reason.UNCACHEABLE)
        return None


def _keep(
    cache: DiskCache,
    key: Key,
    compiler: Compiler,
    artifact: Artifact,
    specialization: Specialization,
    elapsed_s: float,
) -> None:
    sections = compiler.dump(artifact)
    if sections is None:
        logger.debug("cache: %s is valid in this process alone", specialization.unit.qualname)
        return
    try:
        # The environment or a library may have changed while it was compiled: then it is unknown
        # which of the two states the code is of.
        is_same = find_key(compiler, specialization, anew=True) == key
    except UncacheableError as error:
        logger.debug("cache: %s is not stored: %s", specialization.unit.qualname, error)
        return
    if is_same:
        cache.keep(key, {**sections, _MADE: _made(specialization, elapsed_s)})


def _made(specialization: Specialization, elapsed_s: float) -> bytes:
    """Return what is of use to a reader of the list of entries, and changes no code."""
    unit = specialization.unit
    about = {
        "kernel": f"{unit.module}.{unit.qualname}",
        "compile_s": round(elapsed_s, 6),
        **notes_on(specialization),
    }
    return json.dumps(about).encode()


def notes_on(specialization: Specialization) -> dict[str, bool]:
    """Return what the warnings of a kernel depend on, after this process has compiled it."""
    from kerneldsl.launch.value_warnings import lost_values

    unit = specialization.unit
    mixes_signs = _mixing.get(unit, {}).get(specialization.kinds, False)
    if not any(lost_values(specialization)):
        _lossless.setdefault(unit, set()).add(specialization.kinds)
    return {
        **({"mixes_signs": True} if mixes_signs else {}),
        **({"loses_values": False} if _is_lossless(specialization) else {}),
    }


def _made_in(found: Found) -> _Made:
    try:
        about = parse_json(found.entry.sections[_MADE])
        seconds = about["compile_s"]
    except (KeyError, ValueError, TypeError):  # of no consequence for the code
        return _Made()
    is_duration = isinstance(seconds, float) and 0.0 <= seconds < math.inf
    return _read_notes(about)._replace(compile_s=seconds if is_duration else 0.0)


def _read_notes(about: Mapping[str, Any]) -> _Made:
    return _Made(0.0, about.get("mixes_signs") is True, about.get("loses_values") is not False)
