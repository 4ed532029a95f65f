"""Decorate a class as `dataclasses.dataclass` does, in a tenth of the time.

The decorator of the standard library compiles the text of up to six methods of each class. That
takes half a millisecond, and a first launch imports fifty classes. Here only ``__init__`` is
compiled, when the first object is made. The standard library collects the fields, so `fields`,
`replace` and `asdict` work as usual.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass as _collect_fields  # noqa: TID251 -- what this one uses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from dataclasses import dataclass  # noqa: TID251 -- for type checkers it is this one

__all__ = ["dataclass"]

#: Options that are implemented here.
_OPTIONS = {"repr", "eq", "frozen", "slots"}
#: Names in the text of ``__init__`` that no field has.
_SET, _FACTORY, _DEFAULT, _MAKE = "_kd_set", "_kd_factory", "_kd_default_", "_kd_make_"


class _Factory:
    """Default value of a parameter: the field's factory is called."""

    def __repr__(self) -> str:
        return "<factory>"


_HAS_FACTORY = _Factory()

if not TYPE_CHECKING:

    def dataclass(cls=None, /, **options):
        """Return a class with the methods of a dataclass.

        Parameters
        ----------
        cls : type, optional
            The class. It is left to the standard library if it inherits fields, or if a field is no
            parameter.
        **options : bool
            As for `dataclasses.dataclass`.
        """
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        has_bases = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        has_others = any(
            isinstance(each, dataclasses.Field) and not each.init for each in vars(cls).values()
        )
        if has_bases or has_others or not options.keys() <= _OPTIONS:
            return _collect_fields(cls, **options)
        return _decorate(cls, **options)


def _decorate(
    cls: Any, *, repr: bool = True, eq: bool = True, frozen: bool = False, slots: bool = False
) -> Any:
    # With slots, this is another class.
    made = _collect_fields(cls, init=False, repr=False, eq=False, slots=slots)
    params = made.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = True, repr, eq, frozen
    fields = dataclasses.fields(made)
    methods: list[Callable[..., Any]] = []
    if repr:
        methods.append(_repr_of([each.name for each in fields if each.repr]))
    if eq:
        values = _values_of([each.name for each in fields if each.compare])
        methods.append(_eq_of(values))
        # In a class that has an __eq__, Python has set it to None.
        if vars(made).get("__hash__") is None:
            made.__hash__ = _hash_of(values) if frozen else None
    if frozen:
        methods += _setters_of(made, frozenset(each.name for each in fields))
    given = vars(made)
    if "__init__" not in given:
        made.__init__ = _Init(made)
    if frozen and slots and "__getstate__" not in given:
        made.__getstate__, made.__setstate__ = _get_state, _set_state
    for method in methods:
        if method.__name__ not in given:
            method.__module__ = made.__module__
            method.__qualname__ = f"{made.__qualname__}.{method.__name__}"
            setattr(made, method.__name__, method)
    return made


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads some attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda each: tuple(getattr(each, name) for name in names)


def _repr_of(names: Iterable[str]) -> Callable[..., Any]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _eq_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[..., Any]:
    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _hash_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[..., Any]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _setters_of(cls: Any, names: frozenset[str]) -> Iterable[Callable[..., Any]]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _get_state(self: Any) -> list[Any]:
    """Return what pickles and copies a frozen object with slots."""
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: Iterable[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


class _Init:
    """Method ``__init__`` of a class, until it is used."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = vars(self._cls)["__init__"]
        if made is self:  # no other thread has written it meanwhile
            self._cls.__init__ = made = _write_init(self._cls)
        return made.__get__(instance, owner)


def _write_init(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    names: dict[str, Any] = {_SET: object.__setattr__, _FACTORY: _HAS_FACTORY}
    parameters, rows = ["self"], []
    for each in fields:
        name = value = each.name
        default = ""
        if each.default_factory is not dataclasses.MISSING:
            names[_MAKE + name] = each.default_factory
            value = f"{_MAKE}{name}() if {name} is {_FACTORY} else {name}"
            default = f"={_FACTORY}"
        elif each.default is not dataclasses.MISSING:
            names[_DEFAULT + name] = each.default
            default = f"={_DEFAULT}{name}"
        parameters.append(name + default)
        is_frozen = cls.__dataclass_params__.frozen
        rows.append(f"{_SET}(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        rows.append("self.__post_init__()")
    body = "\n ".join(rows) or "pass"
    exec(f"def __init__({', '.join(parameters)}):\n {body}", names)
    made = names["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {**{each.name: each.type for each in fields}, "return": None}
    return made
