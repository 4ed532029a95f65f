"""Whatever a public call is given, an error is ours, no file is left, and nothing hangs."""

from __future__ import annotations

import faulthandler
import inspect
import os
import pickle
import warnings

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelError, KernelWarning
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.launch.tuning_policy import policy_scope
from kerneldsl.utilities import tracebacks
from stdlib_kernels import (
    compact,
    elementwise,
    histogram,
    imaging,
    linalg,
    movement,
    reduce,
    rows,
    scan,
    sort,
)
from tests.support.extent import full_beyond
from tests.support.odd_values import ODD

_SECONDS = 120
#: What only stores what it is given, and what means the process: the tests below look at those.
_RECORDS = {
    "Activity",
    "Backend",
    "Check",
    "DeviceInfo",
    "DeviceStatistics",
    "ErrorEntry",
    "HostShare",
    "KernelStatistics",
    "LaunchPlan",
    "Measurement",
    "MemoryStatistics",
    "PlanAlternative",
    "PoolStatistics",
    "ProfileSummary",
    "RankedDevice",
    "Ranking",
    "Report",
    "Score",
    "SourceLocation",
    "Statistics",
    "SummaryRow",
    "Timing",
    # Made by other calls; nobody else calls them.
    "BoundLaunch",
    "CudaKernel",
    "CudaModule",
    "Device",
    "DeviceArray",
    "DeviceFunction",
    "Graph",
    "Kernel",
    "Launch",
    "Profile",
    "ShippedKernels",
}


#: Parameters that are functions.
_CALLED = {"where", "shared", "covers", "progress", "op", "f"}


@kd.kernel
def axpy(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i]


@kd.kernel(space=kd.Space(block=[32, 64], tile=[1, 2]))
def spaced(x, *, tile):
    i = kd.grid(1)
    if i < x.size:
        x[i] = tile


def is_ours(error):
    """Return whether an error is of kerneldsl, or of Python's about the call itself."""
    if isinstance(error, (KernelError, KernelWarning)):
        return True
    # A wrong number of arguments or an unknown keyword: raised where the call is written.
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    where = frame.tb_frame.f_code.co_filename
    is_of_call = where in (__file__, tracebacks.__file__) and "argument" in str(error)
    return isinstance(error, TypeError) and is_of_call


def problem_of(label, call, /, *args, **named):
    """Return what a call raised that is not ours, in words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = call(*args, **named)
            if made is not None and not isinstance(made, np.ndarray):
                repr(made)
    except Exception as error:  # noqa: BLE001 -- that is what is looked for
        is_of_index = isinstance(error, IndexError) and "item__" in label
        if not is_ours(error) and not is_of_index:
            deepest = error.__traceback__
            while deepest.tb_next is not None:
                deepest = deepest.tb_next
            where = f"{deepest.tb_frame.f_code.co_filename}:{deepest.tb_lineno}"
            return f"{type(error).__name__}: {str(error)[:100]} at {where}"
    return None


def parameters_of(call):
    """Return the names of the parameters that can be given one by one, and of those that must."""
    try:
        signature = inspect.signature(call)
    except (ValueError, TypeError):
        return {}
    return {
        name: p
        for name, p in signature.parameters.items()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


#: Good values of parameters that have to be given.
GOOD = {
    "shape": 3,
    "fill_value": 1.0,
    "array": np.arange(3.0),
    "obj": np.arange(3.0),
    "destination": np.zeros(3),
    "source": np.zeros(3),
    "device": "cpu",
    "peer": "cpu",
    "policy": "warn",
    "name": "cpu",
    "block": [32],
    "value": 1.0,
    "index": 0,
    "other": None,
    "nbytes": 8,
    "error": KernelError("no error"),
    "dtype": np.float64,
    "function": lambda x: None,
}


def arguments(call, odd_name, odd):
    """Return arguments, all good but one; ``None`` if a good one is missing."""
    args, named = [], {}
    for name, p in parameters_of(call).items():
        if name == odd_name:
            value = odd
        elif p.default is not p.empty:
            continue
        elif name in GOOD:
            value = GOOD[name]
        else:
            value = 1
        if p.kind is p.POSITIONAL_ONLY:
            args.append(value)
        else:
            named[name] = value
    return args, named


def attack(call, label):
    """Call with each odd value in the place of each parameter; return what went wrong."""
    found = []
    for name in parameters_of(call):
        for kind, odd in ODD.items():
            if name in _CALLED and callable(odd):
                continue  # what a function of the caller's raises is the caller's
            args, named = arguments(call, name, odd)
            if problem := problem_of(label, call, *args, **named):
                found.append(f"{label}({name}=<{kind}>): {problem}")
    return found


def attack_positions(call, label, count):
    """Call with one to `count` odd values alike."""
    return [
        f"{label}({kind} * {n}): {problem}"
        for n in range(1, count + 1)
        for kind, odd in ODD.items()
        if (problem := problem_of(label, call, *[odd] * n))
    ]


def report(found):
    """Fail with all that was found, a line each."""
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    cache, here = tmp_path / "cache", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(cache))
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    try:
        with kd.use("cpu"), kd.fallback("never"):
            yield
        # What is the name of a file may be one.
        assert set(os.listdir(here)) <= {ODD["text"], ODD["surrogate"]}
        assert sorted(os.listdir(tmp_path)) in (["cache", "here"], ["here"])
    finally:
        faulthandler.cancel_dump_traceback_later()


def is_plain_call(name):
    value = getattr(kd, name)
    return (
        callable(value)
        and name not in _RECORDS
        and name not in INTRINSICS
        and not (isinstance(value, type) and issubclass(value, (BaseException, np.generic)))
        and not name.startswith("_")
    )


PUBLIC = [name for name in kd.__all__ if is_plain_call(name)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_calls(name):
    call = getattr(kd, name)
    process_wide = kd.placement.devices._choices, kd.placement.fallback._choices, policy_scope
    before = [(scope.process_wide, tuple(scope._plain)) for scope in process_wide]
    try:
        report(attack(call, name))
    finally:
        for scope, (value, plain) in zip(process_wide, before, strict=True):
            scope.process_wide, scope._plain[:] = value, plain


def bound():
    return axpy.forall(3).bind(1.0, np.ones(3), np.zeros(3))


PTX = ".version 8.0\n.target sm_80\n.address_size 64\n"
LINKED = PTX.encode()

#: What a program holds, made anew for each method.
OBJECTS = {
    "kernel": lambda: axpy,
    "spaced": lambda: spaced,
    "member": lambda: spaced.member(block=32, tile=1),
    "launch": lambda: axpy.forall(3),
    "bound": bound,
    "array": lambda: kd.zeros((2, 3)),
    "scalar": lambda: kd.zeros(()),
    "stream": kd.Stream,
    "stream_pool": lambda: kd.StreamPool(2),
    "event": lambda: kd.Event().record(),
    "memory_pool": kd.MemoryPool,
    "space": lambda: kd.Space(block=[32, 64], tile=[1, 2]),
    "error_log": kd.ErrorLog,
    "cache": lambda: kd.cache,
    "plan": lambda: axpy.forall(3).plan(1.0, np.ones(3), np.zeros(3)),
    "mapping": kd.ElementMapping,
    "cuda_module": lambda: kd.module(PTX),
}
#: Methods that are a whole program of their own, or wait.
_LEFT_OUT = {"time", "function"}
#: What the package calls itself, with what it has made.
_INTERNAL = {
    "as_numpy",
    "check_open",
    "check_writable",
    "mark_foreign_use",
    "note_use",
    "over",
    "seal",
    "allocate",
    "axes_of",
    "blocks",
    "shared_bytes",
    "subset",
    "tile",
}
_SPECIAL = ("__getitem__", "__setitem__", "__array__", "__call__")


def methods():
    for label, make in OBJECTS.items():
        with kd.use("cpu"):
            made = make()
        names = getattr(made, "__all__", None) or [
            *(n for n in dir(made) if not n.startswith("_")),
            *(n for n in _SPECIAL if hasattr(type(made), n)),
        ]
        for name in names:
            if (
                name not in _LEFT_OUT | _INTERNAL
                and (label, name) != ("error_log", "record")
                and callable(getattr(made, name, None))
            ):
                yield label, name


METHODS = [pytest.param(*each) for each in methods()]
#: An array's reductions are the library's, of which a quick run takes `reduce.var`: each compiles a
#: kernel for every odd value that is good.
_REDUCTIONS = {"all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var"}
QUICK_METHODS = [each for each in METHODS[::3] if each.values[1] not in _REDUCTIONS]


@pytest.mark.parametrize(("label", "name"), full_beyond(METHODS, QUICK_METHODS))
def test_methods(label, name):
    make = OBJECTS[label]

    def call(*args, **named):
        return getattr(make(), name)(*args, **named)

    call.__signature__ = signature_of(getattr(make(), name))
    found = attack(call, f"{label}.{name}")
    if any(p.kind is p.VAR_POSITIONAL for p in call.__signature__.parameters.values()):
        found += attack_positions(call, f"{label}.{name}", 3)
    report(found)


def signature_of(method):
    try:
        return inspect.signature(method)
    except (ValueError, TypeError):
        return inspect.Signature()


FAMILIES = (compact, elementwise, histogram, imaging, linalg, movement, reduce, rows, scan, sort)
LIBRARY = {
    f"{family.__name__.split('.')[-1]}.{name}": getattr(family, name)
    for family in FAMILIES
    for name in family.__all__
}
#: Good values of the library's parameters.
GOOD_ARRAYS = {
    **{"x": np.arange(6.0), "y": np.arange(6.0), "a": np.ones((2, 3)), "b": np.ones((3, 2))},
    **{"image": np.zeros((4, 5), np.uint8), "sigma": 1.0, "identity": 0},
    **{"op": lambda a, b: a, "f": lambda v: v, "condition": np.arange(6) > 2},
}


@pytest.mark.parametrize("name", full_beyond(LIBRARY, ["reduce.var", "movement.roll"]))
def test_library_functions(name, monkeypatch):
    for parameter, good in GOOD_ARRAYS.items():
        monkeypatch.setitem(GOOD, parameter, good)
    if name == "histogram.bincount":
        monkeypatch.setitem(GOOD, "x", np.arange(6))
    if name == "imaging.grey":
        monkeypatch.setitem(GOOD, "image", np.zeros((4, 5, 3), np.uint8))
    call = LIBRARY[name]
    if name == "elementwise.map":

        def call(f, array, other, dtype=None, out=None):
            return elementwise.map(f, array, other, dtype=dtype, out=out)

        monkeypatch.setitem(GOOD, "f", lambda v, w: v)
    report(attack(call, name))


def test_linked_functions():
    def linked(link=LINKED, signature="float32(float32)", name=None, options=None, pure=True):
        def same(x):
            return x

        return kd.func(link=link, signature=signature, name=name, options=options, pure=pure)(same)

    assert problem_of("func", linked) is None
    report(attack(linked, "func"))


@pytest.mark.parametrize("kind", ["huge", "broken__str__", "all_broken"])
def test_values_of_macros(kind):
    with pytest.raises(kd.ArgumentTypeError, match="the macro WIDTH is"):
        kd.CudaOptions(defines={"WIDTH": ODD[kind]})


@pytest.mark.parametrize("name", ["", ".", ".sub"])
def test_packages_without_a_module_at_their_head(name):
    with pytest.raises(kd.ArgumentValueError, match="there is no package"):
        kd.load_package(name)


def test_launches():
    def launch(a, x, out):
        axpy.forall(3)(a, x, out)

    def explicit(a, x, out):
        axpy[1, 32](a, x, out)

    report([*attack(launch, "forall"), *attack(explicit, "grid")])


def test_files_are_written_where_they_are_asked_for(tmp_path):
    for name in ("", " ", "a\nb", "no/folder/x.tar", str(tmp_path)):
        with pytest.raises(KernelError):
            kd.cache.export(name)
    mine = tmp_path / "here" / "results.csv"
    mine.write_text("1,2,3")
    with pytest.raises(kd.ArgumentValueError, match="not an archive"):
        kd.cache.export(mine)
    assert mine.read_text() == "1,2,3"
    mine.unlink()
    assert kd.cache.export(tmp_path / "here" / "kernels.tar") == 0
    assert kd.cache.export(tmp_path / "here" / "kernels.tar") == 0  # an archive is written anew
    (tmp_path / "here" / "kernels.tar").unlink()


@pytest.mark.parametrize("text", ["bogus", "2", "debug"])
def test_a_word_that_debug_does_not_know(monkeypatch, text):
    monkeypatch.setenv("KERNELDSL_DEBUG", text)
    with pytest.raises(kd.ArgumentValueError, match="KERNELDSL_DEBUG is"):
        kd.kernel(lambda x: None)


@pytest.mark.parametrize("text", ["bogus", "1", "short"])
def test_a_word_that_tracebacks_do_not_know(monkeypatch, text):
    monkeypatch.setenv("KERNELDSL_TRACEBACK", text)
    with pytest.raises(kd.ArgumentValueError, match=r"KERNELDSL_TRACEBACK is .* full, or"):
        kd.kernel(lambda x: None)
    with pytest.raises(kd.UnknownTargetError):  # an error that leaves stays itself
        kd.devices("bogus")


@pytest.mark.parametrize("word", ["full", " FULL ", "", " "])
def test_words_that_tracebacks_know(monkeypatch, word):
    monkeypatch.setenv("KERNELDSL_TRACEBACK", word)
    kd.kernel(lambda x: None)


@pytest.mark.parametrize("word", ["1", "TRUE", " yes ", "on"])
def test_words_that_turn_debug_on(monkeypatch, word):
    monkeypatch.setenv("KERNELDSL_DEBUG", word)
    assert kd.kernel(lambda x: None).options.compile.debug


@pytest.mark.parametrize("arch", ["", 5, object()])
def test_an_architecture_that_is_none(arch):
    for inspect_it in (axpy.ptx, axpy.resources):
        with pytest.raises(kd.ArgumentValueError, match="arch "):
            inspect_it("float64, float64[::1], float64[::1]", arch=arch)


def test_what_belongs_to_a_process_says_so_when_it_is_pickled():
    launch = axpy.forall(3)
    owned = [
        *(launch, launch.bind(1.0, np.ones(3), np.zeros(3)), axpy[1, 32]),
        *(kd.Stream(), kd.StreamPool(2), kd.MemoryPool(), kd.Event()),
    ]
    for each in owned:
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            with pytest.raises(kd.ArgumentTypeError, match="It belongs to this process"):
                pickle.dumps(each, protocol)
