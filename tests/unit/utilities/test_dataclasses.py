"""The project's decorator makes what the standard library's makes, and compiles nothing at once."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from kerneldsl.utilities.dataclasses import dataclass, write_methods

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
    {"frozen": True, "repr": False, "eq": False, "slots": True},
]


def _plain() -> type:
    class Plain:
        """Three fields."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)

    return Plain


def _chosen() -> type:
    class Chosen:
        """Fields that are not compared or shown, a check, and methods of its own."""

        a: int
        b: float = field(default=1.5, compare=False)
        c: str | None = field(default=None, repr=False)

        def __post_init__(self) -> None:
            if self.a == 0:
                raise ValueError("no zero")

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return f"<{self.a}>"

    return Chosen


def _one() -> type:
    class One:
        """One field."""

        a: int

    return One


def _none() -> type:
    class Nothing:
        """No field."""

    return Nothing


def _own_eq() -> type:
    class Own:
        """A comparison of its own."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

    return Own


CLASSES = [_plain, _chosen, _one, _none, _own_eq]


def _outcome(
    action: Callable[[Any], Any], cls: type, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Return what an action gives; of an error its class, of one of attributes the text, too."""
    try:
        found = action(cls(*args, **named))
    except Exception as error:  # noqa: BLE001 -- compared
        return type(error), str(error) if isinstance(error, AttributeError) else ""
    return found if isinstance(found, str | bool | int | tuple | list | dict) else repr(found)


def _set(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda each: setattr(each, name, value)


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "repr": lambda each: re.sub(" at 0x.*>", "", repr(each)),
    "parameters": lambda each: str(inspect.signature(type(each))),
    "annotations": lambda each: type(each).__init__.__annotations__,
    "names": lambda each: [
        (getattr(type(each), name).__qualname__, getattr(type(each), name).__module__)
        for name in ("__init__", "__repr__", "__eq__")
    ],
    "match_args": lambda each: type(each).__match_args__,
    "params": lambda each: [
        getattr(type(each).__dataclass_params__, name)
        for name in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
    ],
    "fields": lambda each: [
        (f.name, f.type, f.init, f.repr, f.compare) for f in dataclasses.fields(each)
    ],
    "asdict": dataclasses.asdict,
    "equal": lambda each: each == copy.copy(each),
    "other": lambda each: each == 3,
    "replaced": lambda each: each == dataclasses.replace(each, a=5),
    "hash": lambda each: hash(each) == hash(copy.copy(each)),
    "hashable": lambda each: type(each).__hash__ is None,
    "set": _set("a", 3),
    "set another": _set("other", 3),
    "delete": lambda each: delattr(each, "a"),
    "state": lambda each: repr(each.__reduce_ex__(4)[2]),
    "deep": lambda each: dataclasses.asdict(copy.deepcopy(each)),
    "dict": lambda each: hasattr(each, "__dict__"),
    "doc": lambda each: type(each).__doc__,
}
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, "x"), {}),
    ((), {"a": 2, "b": "y"}),
    ((1, "x", [3]), {}),
    ((1, 2, 3, 4), {}),
    ((0,), {}),
    ((1,), {"z": 2}),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", CLASSES, ids=lambda make: make.__name__[1:])
def test_it_behaves_as_the_standard_librarys(
    make: Callable[[], type], options: dict[str, bool]
) -> None:
    classes = [decorate(**options)(make()) for decorate in (dataclass, dataclasses.dataclass)]
    for name, action in ACTIONS.items():
        is_other = name == "set another" or (make is _none and name in ("set", "delete"))
        if is_other and options.get("frozen") and options.get("slots"):
            continue  # theirs asks the class without slots, and raises a TypeError
        for args, named in ARGUMENTS:
            found, expected = (_outcome(action, cls, args, named) for cls in classes)
            assert found == expected, (name, args, named)


@dataclass(frozen=True, slots=True)
class Sent:
    a: int
    b: tuple[int, ...] = ()


@dataclass(frozen=True)
class Derived(Sent):
    c: int = 3


def test_objects_are_pickled() -> None:
    for each in (Sent(1, (2,)), Derived(1, (2,), 4)):
        again = pickle.loads(pickle.dumps(each))  # noqa: S301 -- its own
        assert again == each
        assert hash(again) == hash(each)


def test_inherited_fields_are_the_standard_librarys() -> None:
    assert repr(Derived(1)) == "Derived(a=1, b=(), c=3)"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        Derived(1).a = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclass(type("Thawed", (Sent,), {}))


def test_fields_that_are_no_parameters() -> None:
    @dataclass
    class Counted:
        a: int
        n: list[int] = field(default_factory=list, init=False)

    assert Counted(1).n == []
    with pytest.raises(TypeError):
        Counted(1, [2])  # type: ignore[call-arg]


def test_an_object_that_contains_itself() -> None:
    @dataclass
    class Ring:
        other: Any = None

    ring = Ring()
    ring.other = ring
    assert repr(ring).endswith("Ring(other=...)")


def test_a_class_is_compiled_by_its_first_object(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    original = builtins.exec
    monkeypatch.setattr(
        builtins, "exec", lambda text, *args: (texts.append(text), original(text, *args))
    )
    made = dataclass(frozen=True, slots=True)(_plain())
    assert not texts
    assert dataclasses.fields(made)
    made(1), made(2)
    assert sum("self" in each for each in texts) == 1


def test_a_launch_decorates_with_it() -> None:
    program = (
        "import dataclasses, sys\n"
        "from kerneldsl import utilities\n"
        "slow, original = [], dataclasses._process_class\n"
        "def note(cls, init, *args, **named):\n"
        "    of = cls.__module__\n"
        "    compiles = of.startswith(('kerneldsl.lowering', 'kerneldsl.ir'))\n"  # takes far longer
        "    if init and of.startswith('kerneldsl') and not compiles:\n"
        "        slow.append(cls.__qualname__)\n"
        "    return original(cls, init, *args, **named)\n"
        "dataclasses._process_class = note\n"
        "import numpy as np, kerneldsl as kd\n"
        "from stdlib_kernels import sum\n"
        "with kd.use('null:0'): sum(np.ones(1000, np.float32))\n"
        "print(slow)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "['SourceLocation']\n"


def test_methods_are_written_ahead_until_time_is_over():
    @dataclass
    class Late:
        """One field."""

        a: int

    written = vars(Late)["__init__"]
    write_methods(lambda: True)
    assert vars(Late)["__init__"] is written
    write_methods(lambda: False)
    assert inspect.isfunction(vars(Late)["__init__"])
    assert Late(3).a == 3
