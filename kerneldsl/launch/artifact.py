"""Code of a specialization: compiled now, or read from the cache of an earlier process."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from kerneldsl.contract import Artifact, Compiler, Specialization, UnusableCodeError
from kerneldsl.contract.findings import (
    NO_BARRIERS,
    BarrierFacts,
    Finding,
    finding_text,
    from_numbers,
    notes_of,
    numbered,
    read_notes,
)
from kerneldsl.errors import KernelWarning
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import user_place
from kerneldsl.language.kinds import Kind, format_signature
from kerneldsl.launch.compile_errors import compile_error
from kerneldsl.launch.recorded import note, recordings
from kerneldsl.launch.state import KernelState
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.modules import import_whole, may_be_shipped
from kerneldsl.utilities.progress import said_after_a_moment
from kerneldsl.utilities.untrusted import parse_json

if TYPE_CHECKING:
    from kerneldsl.cache.disk import DiskCache, Found
    from kerneldsl.cache.key import Key

__all__ = [
    "barriers_of",
    "call_with_room",
    "compile_or_load",
    "find_artifact",
    "find_key",
    "notes_on",
]

#: Name of the section that this module adds to a target's sections.
_MADE = "made"
#: Key of the findings in it, and in the metadata of shipped code.
_FINDINGS = "findings"
#: Arguments for which a kernel has been warned of.
_warned: WeakKeyDictionary[FunctionUnit, set[tuple[Kind, ...]]] = WeakKeyDictionary()
#: Barrier facts of kernels, by the family of the compiler and the kinds of the arguments.
_barriers: WeakKeyDictionary[FunctionUnit, dict[tuple[str, tuple[Kind, ...]], BarrierFacts]] = (
    WeakKeyDictionary()
)


class _Made(NamedTuple):
    """Notes of an entry on its code, beside the sections of the target."""

    compile_s: float = 0.0
    #: Warnings about the kernel, which each process shows.
    findings: tuple[Finding, ...] = ()
    #: Facts about the kernel's barriers that launches depend on.
    barriers: BarrierFacts = NO_BARRIERS


def find_artifact(
    state: KernelState, compiler: Compiler, specialization: Specialization
) -> Artifact:
    """Return compiled code, made the first time."""
    found = state.artifacts.get_or_make(
        (compiler.name, specialization), lambda: _make(state, compiler, specialization)
    )
    if recordings:
        note(compiler, specialization, found)
    return found


def _make(state: KernelState, compiler: Compiler, specialization: Specialization) -> Artifact:
    started = time.perf_counter()
    store = state.store
    key = None if store is None else _key(compiler, specialization)
    is_stored = key is None or store.bring(key, specialization.kinds)
    with said_after_a_moment(lambda: _work(compiler, specialization)):
        artifact, how = compile_or_load(compiler, specialization)
    if not is_stored:
        store.keep(key, specialization.unit.reads)
    elapsed = time.perf_counter() - started
    if artifact.work is not None:
        state.works[compiler.name, specialization.kinds, None] = artifact.work
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

    - raises `KernelError` as :meth:`Compiler.compile` and
      :func:`~kerneldsl.launch.shipped.find_shipped`.
    """
    try:
        artifact, how, findings = call_with_room(_compile_or_load, compiler, specialization)
        _warn(specialization, findings)
    except Exception as error:
        raised = compile_error(error, specialization.unit)
        if raised is error:
            raise
        raise raised from error
    return artifact, how


def _compile_or_load(
    compiler: Compiler, specialization: Specialization
) -> tuple[Artifact, str, tuple[Finding, ...]]:
    """Return also what to warn of, which code from an earlier process brings along."""

    def compiled(artifact: Artifact) -> tuple[Artifact, str, tuple[Finding, ...]]:
        return artifact, "compiled", artifact.findings

    if recordings:
        return compiled(_compile(compiler, specialization))
    if may_be_shipped():
        from kerneldsl.launch.shipped import find_shipped

        shipped = find_shipped(compiler, specialization)
        if shipped is not None:
            _take_barriers(compiler, specialization, _barriers_in(shipped.notes, specialization))
            return shipped.artifact, "shipped", _findings_in(shipped.notes, specialization)
    from kerneldsl.cache.disk import counters, disk_cache

    cache = disk_cache()
    key = _key(compiler, specialization) if cache.is_on else None
    if key is None:
        return compiled(_compile(compiler, specialization))
    started = time.perf_counter()
    found = cache.look_up(key)
    if found is None:
        with cache.compiling(key, compiler.expect_code) as found:
            if found is None:
                return compiled(_compile_and_keep(cache, key, compiler, specialization))
    try:
        artifact = compiler.restore(specialization, found.entry.sections)
    except UnusableCodeError as error:
        cache.reject(found, str(error))
        return compiled(_compile_and_keep(cache, key, compiler, specialization))
    made = _made_in(found, specialization)
    counters.saved(made.compile_s - (time.perf_counter() - started))
    _take_barriers(compiler, specialization, made.barriers)
    return artifact, "found", made.findings


def _warn(specialization: Specialization, findings: tuple[Finding, ...]) -> None:
    """Warn of findings, once for the same arguments, however much is compiled for them."""
    kernel, kinds = specialization.unit, specialization.kinds
    if not findings or kinds in _warned.get(kernel, ()):
        return
    _warned.setdefault(kernel, set()).add(kinds)
    for finding in findings:
        unit, node = finding.place
        where = user_place(unit.locate(node), kernel)
        text = f"{unit.qualname}: {finding_text(finding)}"
        try:
            # A call without a registry shows the warning for each compilation.
            warnings.warn_explicit(text, KernelWarning, where.filename, where.lineno)
        except KernelWarning as error:  # a filter made it an error, which has no line by itself
            error.add_note("  at " + where.render().replace("\n", "\n  "))
            raise


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
    import_whole("numba")
    artifact = compiler.compile(specialization)
    _note_barriers(compiler, specialization, artifact.barriers)
    return artifact


def barriers_of(compiler: Compiler, specialization: Specialization) -> BarrierFacts:
    """Return what is known of the barriers of a kernel, once its code is found."""
    known = _barriers.get(specialization.unit, {})
    return known.get((compiler.code_family, specialization.kinds), NO_BARRIERS)


def _note_barriers(compiler: Compiler, specialization: Specialization, facts: BarrierFacts) -> None:
    known = _barriers.setdefault(specialization.unit, {})
    known[compiler.code_family, specialization.kinds] = facts


def _take_barriers(compiler: Compiler, specialization: Specialization, facts: BarrierFacts) -> None:
    """Refuse or warn of barriers as compiling would, and note what it would find."""
    _note_barriers(compiler, specialization, facts)
    compiler.check_barriers(facts.problems)


def find_key(compiler: Compiler, specialization: Specialization, *, anew: bool = False) -> Key:
    """Return the key of a specialization's code.

    - `compiler`: compiler of the specialization.
    - `specialization`: the specialization to compile.
    - `anew`: look at everything again that may have changed while the code was made.
    - raises `UncacheableError` if such code is not kept.
    """
    from kerneldsl.cache.key import key_of
    from kerneldsl.cache.reasons import UncacheableError

    if anew and specialization.code is not None:
        from kerneldsl.cache.remembered import rechecking_files

        with rechecking_files():
            identity = compiler.code_identity(specialization)
    else:
        identity = compiler.code_identity(specialization)
    if identity is None:
        raise UncacheableError(f"the target {compiler.name!r} does not cache such code")
    return key_of(specialization, compiler.code_family, identity, anew=anew)


def _key(compiler: Compiler, specialization: Specialization) -> Key | None:
    from kerneldsl.cache.disk import counters
    from kerneldsl.cache.reasons import Reason, UncacheableError

    try:
        return find_key(compiler, specialization)
    except UncacheableError as error:
        logger.debug("cache: %s is not stored: %s", specialization.unit.qualname, error)
        counters.count_miss(Reason.UNCACHEABLE)
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
    from kerneldsl.cache.reasons import UncacheableError

    try:
        # The environment or a library may have changed while it was compiled: then it is unknown
        # which of the two states the code is of.
        is_same = find_key(compiler, specialization, anew=True) == key
    except UncacheableError as error:
        logger.debug("cache: %s is not stored: %s", specialization.unit.qualname, error)
        return
    if is_same:
        cache.keep(key, {**sections, _MADE: _made(artifact, elapsed_s)})


def _made(artifact: Artifact, elapsed_s: float) -> bytes:
    """Return what is of use to a reader of the list of entries, and changes no code."""
    unit = artifact.specialization.unit
    about = {
        "kernel": f"{unit.module}.{unit.qualname}",
        "compile_s": round(elapsed_s, 6),
        **notes_on(artifact),
    }
    return json.dumps(about).encode()


def notes_on(artifact: Artifact) -> dict[str, Any]:
    """Return what is stored with compiled code: what to warn of and to check when it is loaded."""
    unit = artifact.specialization.unit
    findings = {_FINDINGS: numbered(artifact.findings, unit)} if artifact.findings else {}
    return findings | notes_of(artifact.barriers, unit)


def _made_in(found: Found, specialization: Specialization) -> _Made:
    try:
        about = parse_json(found.entry.sections[_MADE])
        seconds = about["compile_s"]
    except (KeyError, ValueError, TypeError):  # of no consequence for the code
        return _Made()
    is_duration = isinstance(seconds, float) and 0.0 <= seconds < math.inf
    findings = _findings_in(about, specialization)
    barriers = _barriers_in(about, specialization)
    return _Made(seconds if is_duration else 0.0, findings, barriers)


def _findings_in(notes: Mapping[str, Any], specialization: Specialization) -> tuple[Finding, ...]:
    return from_numbers(notes.get(_FINDINGS), specialization.unit)


def _barriers_in(notes: Mapping[str, Any], specialization: Specialization) -> BarrierFacts:
    try:
        return read_notes(notes, specialization.unit)
    except (ValueError, TypeError, LookupError):  # written by another program
        return NO_BARRIERS


_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Words of the frame. The chunk is the power of two above it, in which as many more are left over.
_FRAME_WORDS = 65_000


def call_with_room(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function; its own calls share one large chunk of frames.

    CPython lays frames into chunks of 16 KiB. Calls that cross the end of one allocate a chunk, and
    free it again. Numba's passes do that hundreds of thousands of times in a compilation. That is a
    fifth of the processor time, in system calls and page faults. The frame of this call is so large
    that it gets a chunk of a mebibyte, in which the calls below find room.
    """
    return function(*args, **kwargs)


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=_FRAME_WORDS)
