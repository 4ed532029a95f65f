"""Code of kernels that a program brings along: CUDA C++, PTX or a cubin."""

from __future__ import annotations

import re
from dataclasses import field, fields

from kerneldsl.contract.cuda_options import DEFAULT_CUDA_OPTIONS, CudaOptions
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["CodeModule", "DeviceCode", "parameters_in_text", "place_of_entry"]


@dataclass(frozen=True, eq=False)
class CodeModule:
    """One source or one compiled file. Its kernels share its variables.

    Parameters
    ----------
    form : CodeForm
        What it is.
    name : str
        Its absolute path, or a name such as ``<saxpy>`` of what is in no file.
    contents : bytes
        The text in UTF-8, or the binary.
    options : CudaOptions
        How a source is compiled.
    written_in : str
        The file of Python that has the text, for messages.
    """

    form: CodeForm
    name: str
    contents: bytes
    options: CudaOptions = DEFAULT_CUDA_OPTIONS
    written_in: str = ""
    _entries: list[str] = field(default_factory=list, init=False, repr=False)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock, init=False, repr=False)

    @cached_property
    def digest(self) -> str:
        """Digest of the contents."""
        import hashlib  # which takes milliseconds: a launch imports it while the driver starts

        return hashlib.sha256(self.contents).hexdigest()

    @property
    def is_text(self) -> bool:
        """True if the contents are a source, or PTX."""
        return self.form in (CodeForm.CUDA, CodeForm.PTX)

    @property
    def text(self) -> str:
        """The contents as text."""
        return self.contents.decode()

    @property
    def entries(self) -> tuple[str, ...]:
        """The kernels that were named so far, which a source is compiled with together."""
        return tuple(self._entries)

    def declare(self, entry: str) -> DeviceCode:
        """Name a kernel of the module."""
        with self._lock:
            if entry not in self._entries:
                self._entries.append(entry)
        return DeviceCode(self, entry)


@dataclass(frozen=True, eq=False)
class DeviceCode:
    """One kernel of a module.

    Parameters
    ----------
    module : CodeModule
        The module.
    entry : str
        The kernel's name. Of CUDA C++ it is a name expression, such as ``scale<float>``.
    """

    module: CodeModule
    entry: str

    def identity(self) -> dict[str, str]:
        """Say what compiled code depends on, apart from headers and the compiler."""
        module = self.module
        options = {
            f"option {each.name}": str(getattr(module.options, each.name))
            for each in fields(module.options)
        }
        return {
            "code": f"{module.form} {module.digest}",
            "code is in": module.name,
            "entry": self.entry,
            "entries": ", ".join(module.entries),
            **options,
        }


#: The end of a declaration: ``x``, ``x[]``, ``x[3] = {}``.
_PARAMETER = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^][]*\]\s*)*(?:=.*)?$", re.DOTALL)


def place_of_entry(code: DeviceCode) -> tuple[int, int]:
    """Return the line of a kernel in its source, from 1, and the column of its name, from 0."""
    if code.module.is_text:
        name = re.escape(code.entry.partition("<")[0].rpartition("::")[2].strip())
        for number, line in enumerate(code.module.text.splitlines(), 1):
            found = re.search(rf"\b{name}\s*\(", line)
            if found is not None:
                return number, found.start()
    return 1, 0


def parameters_in_text(code: DeviceCode) -> tuple[str, ...]:
    """Return the names of a kernel's parameters, if its source is simple enough to read them."""
    if code.module.form is not CodeForm.CUDA:
        return ()
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code.module.text, flags=re.DOTALL)
    name = re.escape(code.entry.partition("<")[0].rpartition("::")[2].strip())
    found = re.findall(rf"\b{name}\s*\(([^()]*)\)\s*\{{", text)
    if len(found) != 1:  # another function of the name may have its parameters in another order
        return ()
    names = [_PARAMETER.search(each) for each in found[0].split(",")]
    return tuple(match[1] for match in names if match is not None)
