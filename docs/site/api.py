"""The reference: a page for each kind of public names, made from the packages' ``__all__``.

A page of ``kerneldsl`` holds the names whose modules are of one kind; other packages with public
names, and each family of the library, have a page of their own. A name that is on an earlier page
is not described again.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

import kerneldsl
import stdlib_kernels
from docs.site.entries import as_rst, automodule, entry, first_sentence, names_in
from docs.site.examples import families
from kerneldsl.kernels.kernel import DeviceFunction, Kernel

__all__ = ["MOST_USED", "Page", "documented_name", "most_used", "pages", "public_names"]

#: What a page is called, and the modules whose names of ``kerneldsl`` it holds.
_KINDS = {
    "Kernels and launches": "kerneldsl.kernels kerneldsl.launch",
    "Kernels from expressions": "kerneldsl.symbolic",
    "Shipping kernels": "kerneldsl.shipping",
    "Places of a thread": "kerneldsl.language.intrinsics.places",
    "Arrays in memory": "kerneldsl.language.intrinsics.memory",
    "Barriers and fences": "kerneldsl.language.intrinsics.barriers",
    "Warps": "kerneldsl.language.intrinsics.lanes",
    "Groups and chains": (
        "kerneldsl.language.intrinsics.groups kerneldsl.language.intrinsics.chains"
    ),
    "Atomics": "kerneldsl.language.intrinsics.atomics",
    "Tiles": "kerneldsl.language.intrinsics.tiles kerneldsl.language.intrinsics.matrix",
    "Numbers and bits": "kerneldsl.language.intrinsics.values",
    "Vectors": "kerneldsl.language.intrinsics.vectors",
    "PTX in kernels": "kerneldsl.language.intrinsics.expert",
    "libdevice": "kerneldsl.language.intrinsics.libdevice",
    "Element types": "numpy ml_dtypes kerneldsl.language.packed_numbers",
    "Arrays and memory": "kerneldsl.memory",
    "Streams, events and graphs": "kerneldsl.streams",
    "Devices and placement": "kerneldsl.placement kerneldsl.contract",
    "Plans and spaces": "kerneldsl.planner",
    "Errors": "kerneldsl.errors",
    "Statistics": "kerneldsl.statistics",
    "Profiling": "kerneldsl.profiling",
    "The machine": "kerneldsl.tools kerneldsl",
}
#: Names that a reader looks for first; on a page they are first.
_FIRST = (
    *("kernel", "func", "Kernel", "Launch", "BoundLaunch", "tune", "DeviceFunction"),
    *("grid", "gridsize", "threadIdx", "blockIdx", "blockDim", "gridDim"),
    *("shared", "local", "const", "syncthreads", "atomic", "warp", "block", "tile"),
    *("to_device", "empty", "zeros", "DeviceArray", "Stream", "Event", "use", "devices"),
    *("float32", "float64", "int32", "int64", "KernelError"),
)
#: Of these the index of the reference has a table.
MOST_USED = (
    *("kernel", "Kernel.forall", "Kernel.__getitem__", "func", "grid", "threadIdx", "blockIdx"),
    *("shared", "syncthreads", "atomic", "block", "warp", "tile", "to_device", "empty"),
    *("Launch.plan", "Launch.time", "Kernel.explain", "use", "Stream", "synchronize", "profile"),
)
#: Packages whose public names are the concern of the project alone.
_INTERNAL = {"kerneldsl.analysis", "kerneldsl.cards"}
#: Families of the library in the order of their pages, and what they are called there.
_FAMILIES = {
    "reduce": "Reductions",
    "scan": "Scans",
    "elementwise": "Elementwise functions",
    "sort": "Sorting and searching",
    "histogram": "Histograms",
    "compact": "Selection",
    "movement": "Rearranging",
    "rows": "Softmax and norms of rows",
    "linalg": "Matrix products",
    "quantized": "Quantized products",
    "stencil": "Filters of neighbours",
    "random": "Random arrays",
    "imaging": "Images",
    "array_api": "Array API",
}
_TARGETS = ("cpu", "cuda", "null")


@dataclass(frozen=True)
class Page:
    """One page of the reference."""

    name: str
    """Of its file, without the ending."""
    title: str
    intro: str
    objects: dict[str, Any]
    kernels: dict[str, Any] = field(default_factory=dict)
    """Kernels and device functions that the objects launch."""

    @property
    def names(self) -> list[str]:
        """Every dotted name that has an entry here."""
        found = {**self.objects, **self.kernels}
        return [name for one, value in found.items() for name in names_in(one, value)]

    def text(self) -> str:
        """Return the page as reStructuredText."""
        parts = [_heading(self.title, "="), self.intro, _table(self.objects)]
        parts += [entry(name, value) for name, value in self.objects.items()]
        if self.kernels:
            parts += [_heading("Kernels and device functions", "-"), _OF_KERNELS]
            parts += [entry(name, value) for name, value in self.kernels.items()]
        return "\n".join(parts)


_OF_KERNELS = "What the functions above launch; another kernel may call the device functions.\n"


@cache
def pages() -> tuple[Page, ...]:
    """Return the pages of the reference, in their order."""
    made: list[Page] = [*_pages_of_kinds()]
    described = {id(value) for page in made for value in page.objects.values()}
    for module in _packages(kerneldsl):
        objects = {
            name: value for name, value in _objects(module).items() if id(value) not in described
        }
        if objects:
            made.append(_page_of(module, objects))
            described |= {id(value) for value in objects.values()}
    made += [
        _page_of(module, _objects(module), _kernels_of(module))
        for module in sorted(_packages(stdlib_kernels), key=_place_of_family)
    ]
    return (*made, _page_of_targets())


def public_names() -> set[str]:
    """Return every public name, as a program imports it; of several of one object the first."""
    modules = [kerneldsl, *_packages(kerneldsl), *_packages(stdlib_kernels)]
    names: dict[int, str] = {}
    for module in modules:
        for name, value in _objects(module).items():
            if not isinstance(value, ModuleType):
                names.setdefault(id(value), name)
    return set(names.values())


@cache
def _names_of_objects() -> dict[int, str]:
    """Return the name of each object's entry by its identity; every object lives on."""
    return {
        id(value): name
        for page in pages()
        for name, value in {**page.objects, **page.kernels}.items()
        if value is not None  # newaxis of the array API
    }


def documented_name(dotted: str) -> str | None:
    """Return the name under which the reference has what a dotted name means, members included.

    Parameters
    ----------
    dotted : str
        A module and names in it, such as ``kerneldsl.memory.arrays.DeviceArray.copy``.

    Returns
    -------
    str or None
        None for what has no entry.
    """
    if any(dotted == f"kerneldsl.{name}" for name in kerneldsl.__all__):
        return dotted
    parts = dotted.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            value: Any = import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for at, part in enumerate(parts[count:], count):
            value = getattr(value, part, None)
            name = _names_of_objects().get(id(value))
            if name is not None:
                return ".".join([name, *parts[at + 1 :]])
        return None
    return None


def _pages_of_kinds() -> Iterator[Page]:
    homes = {name: module for module, names in kerneldsl._MODULES.items() for name in names.split()}
    homes["__version__"] = "kerneldsl"
    kinds = {module: title for title, modules in _KINDS.items() for module in modules.split()}
    found: dict[str, dict[str, Any]] = {title: {} for title in _KINDS}
    for name, home in homes.items():
        value = getattr(kerneldsl, name)
        if not isinstance(value, ModuleType):  # which has a page of its own
            found[_kind_of(home, kinds)][f"kerneldsl.{name}"] = value
    for title, objects in found.items():
        slug = title.lower().replace(",", "").replace(" ", "-")
        family = families().get(slug)
        intro = "" if family is None else family.text()
        yield Page(slug, title, intro, dict(sorted(objects.items(), key=_order)))


def _order(item: tuple[str, Any]) -> tuple[int, str]:
    """Return the place of a name on its page: names that are looked for first, then all others."""
    name = item[0].rpartition(".")[2]
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def most_used() -> str:
    """Return the table of the names that are used most, as reStructuredText."""
    rows = []
    for name in MOST_USED:
        value = attrgetter(name)(kerneldsl)
        shown = "Kernel[grid, block]" if name.endswith("__getitem__") else name
        sentence = as_rst(first_sentence(f"kerneldsl.{name}", value))
        rows.append(f"   * - :py:obj:`{shown} <kerneldsl.{name}>`\n     - {sentence}")
    return "\n".join([".. list-table::\n   :class: names\n   :widths: auto\n", *rows, ""])


def _kind_of(module: str, kinds: dict[str, str]) -> str:
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        kind = kinds.get(".".join(parts[:count]))
        if kind is not None and (count > 1 or len(parts) == 1):
            return kind
    raise LookupError(f"no page of the reference is for names of {module}: add it to _KINDS")


def _packages(root: ModuleType) -> list[ModuleType]:
    """Return the packages directly in another that have public names."""
    names = sorted(
        f"{root.__name__}.{one.name}" for one in pkgutil.iter_modules(root.__path__) if one.ispkg
    )
    modules = (import_module(name) for name in names if name not in _INTERNAL)
    return [module for module in modules if getattr(module, "__all__", ())]


def _objects(module: ModuleType) -> dict[str, Any]:
    names: Iterable[str] = module.__all__
    values = {f"{module.__name__}.{name}": getattr(module, name) for name in sorted(names)}
    return {name: value for name, value in values.items() if not _is_borrowed(value, module)}


def _is_borrowed(value: Any, module: ModuleType) -> bool:
    """Return whether a family of the library only repeats a function of another family."""
    home = getattr(value, "__module__", None) or ""
    is_library = home.startswith(stdlib_kernels.__name__ + ".")
    return inspect.isfunction(value) and is_library and not home.startswith(module.__name__ + ".")


def _kernels_of(family: ModuleType) -> dict[str, Any]:
    """Return the kernels and device functions of a family's modules that have a name to use."""
    found = {}
    for one in pkgutil.iter_modules(family.__path__, f"{family.__name__}."):
        for name, value in vars(import_module(one.name)).items():
            is_kernel = isinstance(value, Kernel | DeviceFunction)
            if is_kernel and value.__module__ == one.name and not name.startswith("_"):
                found[f"{one.name}.{name}"] = value
    return found


def _page_of(
    module: ModuleType, objects: dict[str, Any], kernels: dict[str, Any] | None = None
) -> Page:
    intro = automodule(module.__name__, ":no-members:")
    family = module.__name__.removeprefix("stdlib_kernels.")
    words = _FAMILIES.get(family)
    title = module.__name__ if words is None else f"{words} ({family})"
    return Page(module.__name__, title, intro, objects, kernels or {})


def _place_of_family(module: ModuleType) -> int:
    family = module.__name__.rpartition(".")[2]
    if family not in _FAMILIES:
        raise LookupError(f"{module.__name__} has no title: add it to _FAMILIES")
    return list(_FAMILIES).index(family)


def _page_of_targets() -> Page:
    intro = "".join(
        f"{_heading(name, '-')}\n{automodule(f'targets.{name}', ':no-members:')}\n"
        for name in _TARGETS
    )
    about = (
        'Programs name a target, as in ``kd.use("cuda")``, and import none. What a target must do '
        "is :doc:`kerneldsl.contract`.\n\n"
    )
    return Page("targets", "Targets", about + intro, {})


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _table(objects: dict[str, Any]) -> str:
    if not objects:
        return ""
    rows = [
        f"   * - :py:obj:`{name.removeprefix('kerneldsl.')} <{name}>`\n"
        f"     - {as_rst(first_sentence(name, value))}"
        for name, value in objects.items()
    ]
    head = ".. list-table::\n   :class: names\n   :widths: auto\n"
    return "\n".join([head, *rows, ""])
