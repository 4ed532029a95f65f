"""Decorate a class as `dataclasses.dataclass` does, in a tenth of the time.

The decorator of the standard library compiles the text of up to six methods of each class. That
takes half a millisecond, and a first launch imports fifty classes. Here only ``__init__`` is
compiled, when the first object is made. Fields are collected when they are needed, by the standard
library, so `fields`, `replace` and `asdict` work as usual.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass as _complete  # noqa: TID251 -- what this one uses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from dataclasses import dataclass  # noqa: TID251 -- for type checkers it is this one

__all__ = ["dataclass", "field_names", "write_methods"]

#: Options that are implemented here.
_OPTIONS = {"repr", "eq", "frozen", "slots"}
#: Prefixes of annotations that name no field, and of fields that are no attributes.
_OF_CLASS, _OTHER_FIELDS = ("ClassVar", "typing.ClassVar"), ("InitVar", "KW_ONLY", "dataclasses.")
_FIELDS = "__dataclass_fields__"
_LATE = (_FIELDS, "__dataclass_params__")
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

        - `cls`: the class. It is left to the standard library if it inherits fields, or if a field
          is no parameter, or an annotation no text.
        - `**options`: as for `dataclasses.dataclass`.
        """
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        return _decorate(cls, **options) if _is_simple(cls, options) else _complete(cls, **options)


def field_names(value: object) -> tuple[str, ...] | None:
    """Return the names of an object's fields, without collecting them; ``None`` if it has none."""
    known = vars(type(value)).get(_FIELDS)
    if isinstance(known, _Late):
        return tuple(known.names)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    return tuple(each.name for each in dataclasses.fields(value))


def _is_simple(cls: type, options: Mapping[str, bool]) -> bool:
    """Return whether all is implemented here; what is not is left to the standard library."""
    types = vars(cls).get("__annotations__", {}).values()
    values = vars(cls).values()
    return (
        type(cls) is type
        and options.keys() <= _OPTIONS
        and all(isinstance(each, str) and not each.startswith(_OTHER_FIELDS) for each in types)
        and all(each.init for each in values if isinstance(each, dataclasses.Field))
        and not any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
    )


def _decorate(
    cls: Any, *, repr: bool = True, eq: bool = True, frozen: bool = False, slots: bool = False
) -> Any:
    types = vars(cls).get("__annotations__", {})
    names = [name for name, each in types.items() if not each.startswith(_OF_CLASS)]
    defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
    special = {n: each for n, each in defaults.items() if isinstance(each, dataclasses.Field)}
    for name, field in special.items():
        if field.default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, field.default)
    made = _with_slots(cls, names) if slots else cls
    options = {"init": True, "repr": repr, "eq": eq, "frozen": frozen}
    for attribute in _LATE:
        setattr(made, attribute, _Late(made, attribute, names, defaults, options))
    methods: list[Callable[..., Any]] = []
    if repr:
        methods.append(_repr_of([n for n in names if n not in special or special[n].repr]))
    if eq:
        values = _values_of([n for n in names if n not in special or special[n].compare])
        methods.append(_eq_of(values))
        # Python has set it to None in a class with an __eq__.
        if vars(made).get("__hash__") is None:
            made.__hash__ = _hash_of(values) if frozen else None
    if frozen:
        methods += _setters_of(made, frozenset(names))
    given = vars(made)
    if "__init__" not in given:
        made.__init__ = _Init(made, names, defaults, is_frozen=frozen)
    if "__match_args__" not in given:
        setattr(made, "__match_args__", tuple(names))  # noqa: B010 -- mypy has it as final
    if frozen and slots and "__getstate__" not in given:
        made.__getstate__, made.__setstate__ = _get_state, _set_state
    for method in methods:
        if method.__name__ not in given:
            method.__module__ = made.__module__
            method.__qualname__ = f"{made.__qualname__}.{method.__name__}"
            setattr(made, method.__name__, method)
    return made


def _with_slots(cls: type, names: Sequence[str]) -> Any:
    """Return a class with slots for some names, else like another one."""
    left_out = {*names, "__dict__", "__weakref__"}
    body = {name: each for name, each in vars(cls).items() if name not in left_out}
    made = type(cls.__name__, cls.__bases__, {**body, "__slots__": tuple(names)})
    made.__qualname__ = cls.__qualname__
    return made


class _Late:
    """An attribute that functions of the standard library read, until one of these is read."""

    def __init__(
        self,
        cls: Any,
        attribute: str,
        names: Sequence[str],
        defaults: Mapping[str, Any],
        options: Mapping[str, bool],
    ) -> None:
        self._cls = cls
        self._attribute = attribute
        self.names = names
        self._defaults = defaults
        self._options = options

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls = self._cls
        if vars(cls)[self._attribute] is self:  # no other thread has collected them meanwhile
            types = {name: cls.__annotations__[name] for name in self.names}
            # A class without a docstring would get its signature as one.
            body = {"__module__": cls.__module__, "__doc__": "…", "__annotations__": types}
            # No method is requested, so nothing is compiled.
            made = type(cls.__name__, (), {**body, **self._defaults})
            found: Any = _complete(made, init=False, repr=False, eq=False)
            for option, value in self._options.items():
                setattr(found.__dataclass_params__, option, value)
            for attribute in _LATE:
                setattr(cls, attribute, getattr(found, attribute))
        return getattr(cls, self._attribute)


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


#: Methods of classes without objects so far.
_unwritten: WeakSet[_Init] = WeakSet()


def write_methods(is_over: Callable[[], bool]) -> None:
    """Write the methods that are written later otherwise, until a function returns true."""
    for each in list(_unwritten):
        if is_over():
            return
        each.__get__(None, each._cls)


class _Init:
    """Method ``__init__`` of a class, until it is used."""

    def __init__(
        self, cls: Any, names: Sequence[str], defaults: Mapping[str, Any], *, is_frozen: bool
    ) -> None:
        self._cls = cls
        self._names = names
        self._defaults = defaults
        self._is_frozen = is_frozen
        _unwritten.add(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = vars(self._cls)["__init__"]
        if made is self:  # no other thread has written it meanwhile
            self._cls.__init__ = made = self._write()
        return made.__get__(instance, owner)

    def _write(self) -> Any:
        cls = self._cls
        names: dict[str, Any] = {_SET: object.__setattr__, _FACTORY: _HAS_FACTORY}
        parameters, rows = ["self"], []
        for name in self._names:
            value, given = name, ""
            default = self._defaults.get(name, dataclasses.MISSING)
            if isinstance(default, dataclasses.Field):
                if default.default_factory is not dataclasses.MISSING:
                    names[_MAKE + name] = default.default_factory
                    value = f"{_MAKE}{name}() if {name} is {_FACTORY} else {name}"
                    given = f"={_FACTORY}"
                default = default.default
            if default is not dataclasses.MISSING:
                names[_DEFAULT + name] = default
                given = f"={_DEFAULT}{name}"
            parameters.append(name + given)
            is_set = f"{_SET}(self, {name!r}, {value})" if self._is_frozen else None
            rows.append(is_set or f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            rows.append("self.__post_init__()")
        body = "\n ".join(rows) or "pass"
        exec(f"def __init__({', '.join(parameters)}):\n {body}", names)
        made = names["__init__"]
        made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
        types = {name: cls.__annotations__[name] for name in self._names}
        made.__annotations__ = {**types, "return": None}
        return made
