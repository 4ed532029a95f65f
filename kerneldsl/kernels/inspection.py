"""Show the compiled forms of a kernel, for arguments or a signature, without a device."""

from __future__ import annotations

import inspect
import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    LaunchConfigError,
    SourceUnavailableError,
)
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.launch.dimensions import read_dim3
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldsl.contract import Artifact, Compiler, Dim3, Resources, Specialization
    from kerneldsl.contract.abi import LaunchMode
    from kerneldsl.explain import Explanation
    from kerneldsl.launch.dispatch import Dispatcher
    from kerneldsl.launch.shape import LaunchShape

__all__ = ["InspectionMixin"]


def _writer_of(form: str) -> str:
    """Return the name of the target that writes a form of code."""
    # Decorating a function imports as little of kerneldsl as it can.
    from kerneldsl.placement.registry import target_writing

    return target_writing(form)


class InspectionMixin:
    """The inspecting methods of :class:`~kerneldsl.kernels.kernel.Kernel`.

    Each takes the arguments of a launch, or one signature such as ``"float32, float32[::1]"``. A
    kernel that declares a signature needs neither. These options follow by keyword:

    ``forall`` : int, optional
        Rank of the extent, 1 to 3, for the code of ``kernel.forall``. By default the code is that
        of ``kernel[grid, block]``.
    ``block`` : int or tuple of int, optional
        The block, for targets that compile for one; by default the decorator's. For a kernel with
        a space it selects the member.
    ``arch`` : str, optional
        Architecture, such as ``"sm_90"``; by default the device's, or the target's choice. If the
        target of the device does not compile for it, the target that writes PTX is used.
    ``target`` : str, optional
        Name of the target.

    All raise the errors of compilation: `KernelTypingError`, `BarrierDivergenceError` and so on.
    """

    if TYPE_CHECKING:

        @property
        def _dispatcher(self) -> Dispatcher: ...

        def _read_shape(self, extent: tuple[int, ...], block: Any) -> LaunchShape: ...

        def _member_of_block(self, block: Any) -> InspectionMixin: ...

    _block: Dim3 | None
    function: Any

    @property
    def source(self) -> str:
        """The source text of the Python function.

        Raises
        ------
        SourceUnavailableError
            If it is not found.
        """
        try:
            return inspect.getsource(self.function)
        except OSError as error:
            raise SourceUnavailableError(
                f"the source of {self.function.__qualname__} cannot be found",
                value=self.function,
                remedy="Write the function in a file, or in a cell of a notebook",
            ) from error

    @shorten_errors
    def ptx(self, *args: Any, ptx_version: str | None = None, **options: Any) -> str:
        """Return the PTX; needs no GPU and no CUDA toolkit.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        ptx_version : str, optional
            PTX ISA version such as ``"8.7"``. By default one that supports the architecture.
        **options
            ``forall``, ``block``, ``arch`` and ``target``, as :class:`Kernel` describes them.

        Returns
        -------
        str

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> text = double.ptx("float32[::1]", arch="sm_90")
        >>> ".target sm_90" in text, "ld.global" in text
        (True, True)
        """
        return self._text("ptx", _writer_of("ptx"), args, options, ptx_version)

    @shorten_errors
    def llvm(self, *args: Any, **options: Any) -> str:
        """Return the LLVM IR, by default for the target of the current device.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        **options
            ``forall``, ``block``, ``arch`` and ``target``.

        Returns
        -------
        str

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> "define" in double.llvm("float32[::1]", target="cuda", arch="sm_90")
        True
        """
        return self._text("llvm", None, args, options)

    @shorten_errors
    def cpu_source(self, *args: Any, **options: Any) -> str:
        """Return the regions that the CPU target compiles, as text.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        **options
            ``forall`` and ``block``.

        Returns
        -------
        str

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> double.cpu_source("float32[::1]", forall=1).startswith("kernel double")
        True
        """
        return self._text("source", _writer_of("source"), args, options)

    def typed_source(self, *args: Any, **options: Any) -> str:
        """Return the kernel in normal form with the type of each value, and the functions it calls.

        The expressions and variables of each statement follow it, typed by the rules of the current
        device's target, or of the option ``target``. Nothing is compiled.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        **options
            ``forall``, ``block``, ``arch`` and ``target``.

        Returns
        -------
        str

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> "float32" in double.typed_source("float32[::1]", forall=1)
        True
        """
        compiler, specialization = self.specialization(*args, **options)
        typed = compiler.typed_unit(specialization.unit, specialization.kinds)
        return "\n\n".join(unit.source() for unit in typed.reachable()) + "\n"

    @shorten_errors
    def explain(
        self,
        *args: Any,
        block: int | tuple[int, ...] | None = None,
        grid: int | tuple[int, ...] | None = None,
        forall: int | tuple[int, ...] | None = None,
        sizes: Mapping[str, Any] | None = None,
        arch: str | None = None,
        shared_bytes: int = 0,
        occupancy: bool = True,
        **unknown: Any,
    ) -> Explanation:
        """Explain what a launch would do on a GPU, without a GPU.

        Parameters
        ----------
        *args
            Arguments, or a signature. Elements of NumPy arrays that the kernel does not write are
            read, so that indices computed from them are known.
        block, grid : int or tuple of int, optional
            The launch. By default the grid covers the largest array that the kernel writes.
        forall : int or tuple of int, optional
            The extent of a launch by ``kernel.forall``, with one index for each thread.
        sizes : mapping, optional
            For a signature: the names of parameters, with the value of a number or the shape of an
            array. Other sizes are assumed; `Explanation.assumed` lists them.
        arch : str, optional
            Architecture such as ``"sm_90"``, which need not be present: a large card of it is
            assumed. By default that of the first GPU, or of such a card.
        shared_bytes : int
            Dynamic shared memory of a block, in bytes.
        occupancy : bool
            Whether to compile the kernel, for what the optimizing passes did and, if an assembler
            is installed, for its number of registers.

        Returns
        -------
        Explanation
            Accesses with their requests, sectors and wavefronts; branches; arithmetic and its
            roofline; and findings with their places in the source.

        Raises
        ------
        ToolMissingError
            If SymPy is not installed.
        ArgumentTypeError
            If an option is unknown, or `sizes` does not map names to numbers and shapes.
        ArgumentValueError
            If a name in `sizes` is not a parameter, or a shape has another rank or a negative
            extent. If `sizes` is given together with arguments, or `forall` with `grid`.
        LaunchConfigError
            If the device does not support the block, the grid or so much shared memory.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def transpose(x, y):
        ...     i, j = kd.grid(2)
        ...     y[j, i] = x[i, j]
        >>> sizes = {"x": (1024, 1024), "y": (1024, 1024)}
        >>> found = transpose.explain(
        ...     "float32[:, ::1], float32[:, ::1]",
        ...     forall=(1024, 1024), block=(32, 8), sizes=sizes, arch="sm_90", occupancy=False,
        ... )
        >>> [(each.text, each.operation, str(each.stride)) for each in found.accesses]
        [('x[i, j]', 'load', '1'), ('y[j, i]', 'store', 'y.shape[1]')]
        """
        if unknown:
            known = "block, grid, forall, sizes, arch, shared_bytes and occupancy"
            self._refuse_option(sorted(unknown)[0], known, "explain")
        from kerneldsl.explain.explain import explain_kernel, explained_device
        from kerneldsl.language.signatures import is_signature
        from kerneldsl.launch.artifact import find_artifact
        from kerneldsl.launch.dimensions import check_limits, read_extent, read_shared_bytes

        if forall is not None and grid is not None:
            raise ArgumentValueError(
                f"explain was given forall={safe_repr(forall)} and grid={safe_repr(grid)}",
                value=(forall, grid),
                limit="A launch by forall has the grid that covers its extent",
                remedy="Leave one of them out",
            )
        target = _writer_of("ptx")
        device = explained_device(target, arch)
        extent = None if forall is None else read_extent(forall)
        options: dict[str, Any] = {
            "forall": None if extent is None else len(extent),
            "block": block,
            "arch": device.arch,
            "target": target,
        }
        block_dim = self._block if block is None else read_dim3(block, "block_dim")
        grid_dim = None if grid is None else read_dim3(grid, "grid_dim")
        dynamic_bytes = read_shared_bytes(shared_bytes)
        compiler, specialization = self.specialization(*args, **options)
        static_bytes = specialization.traits.static_shared_bytes
        check_limits(device, grid_dim, block_dim, static_bytes, dynamic_bytes, extent)
        state = self._member_of_block(block)._dispatcher.state()
        is_typed = not args or (len(args) == 1 and is_signature(args[0]))
        return explain_kernel(
            compiler,
            specialization,
            None if is_typed else args,
            device,
            compiled=partial(find_artifact, state, compiler) if occupancy else None,
            block=block_dim,
            grid=grid_dim,
            extent=extent,
            sizes=sizes,
            shared_bytes=dynamic_bytes,
        )

    @shorten_errors
    def asm(self, *args: Any, **options: Any) -> str:
        """Return the assembly, by default of the CPU target.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        **options
            ``forall``, ``block``, ``arch`` and ``target``.

        Returns
        -------
        str
        """
        return self._text("asm", _writer_of("asm"), args, options)

    @shorten_errors
    def resources(self, *args: Any, **options: Any) -> Resources:
        """Return registers, spills, local and shared memory, by default for the CUDA target.

        Parameters
        ----------
        *args
            Arguments, or a signature.
        **options
            ``forall``, ``block``, ``arch`` and ``target``.

        Returns
        -------
        Resources

        Raises
        ------
        ToolMissingError
            If no assembler is installed, and no driver can load the code.
        """
        return self.artifact(*args, **{"target": _writer_of("ptx"), **options}).resources()

    @shorten_errors
    def artifact(
        self,
        *args: Any,
        forall: int | None = None,
        block: int | tuple[int, ...] | None = None,
        arch: str | None = None,
        target: str | None = None,
        ptx_version: str | None = None,
    ) -> Artifact:
        """Return the compiled code with its forms, entry name and timings."""
        member = self._member_of_block(block)
        asked = member._asked_for(args, forall, block, arch, target, ptx_version)
        from kerneldsl.launch.artifact import find_artifact

        state, specialization = member._dispatcher.specialize(*asked)
        return find_artifact(state, asked[0], specialization)

    def _asked_for(
        self,
        args: tuple[Any, ...],
        forall: int | None,
        block: int | tuple[int, ...] | None,
        arch: str | None,
        target: str | None,
        ptx_version: str | None,
    ) -> tuple[Compiler, tuple[Any, ...], LaunchMode, Dim3 | None, str | None, str | None]:
        """Return the compiler and the arguments of the dispatcher."""
        from kerneldsl.contract.abi import EXPLICIT, LaunchMode
        from kerneldsl.launch.request import check_arch
        from kerneldsl.placement.devices import current_device
        from kerneldsl.placement.registry import get_target

        if forall is not None and as_int(forall) not in (1, 2, 3):
            raise LaunchConfigError(
                f"forall is {safe_repr(forall)}",
                value=forall,
                limit="It must be the extent's rank: 1, 2 or 3",
            )
        check_arch(arch)
        mode = EXPLICIT if forall is None else LaunchMode(operator.index(forall))
        block_dim = self._block if block is None else read_dim3(block, "block_dim")
        if target is None:
            device = current_device()
            maker = device.compiler
            if arch is not None and not maker.compiles_for(arch):
                maker = get_target(_writer_of("ptx")).compiler
            arch = device.arch if arch is None else arch
        else:
            maker = get_target(target).compiler
            # The device's architecture: code that launches have compiled is shown, and inspected
            # code serves them.
            here = get_target(target).devices()
            if arch is None and here:
                arch = here[0].arch
        if arch is not None and not maker.compiles_for(arch):
            raise ArgumentValueError(
                f"arch is {safe_repr(arch)}",
                value=arch,
                limit=f"The target {maker.name!r} does not compile for that architecture",
                remedy="Leave arch out, or look at a GPU's code by .ptx(…, arch='sm_90')",
            )
        return maker, args, mode, block_dim, arch, ptx_version

    @shorten_errors
    def specialization(
        self,
        *args: Any,
        forall: int | None = None,
        block: int | tuple[int, ...] | None = None,
        arch: str | None = None,
        target: str | None = None,
        ptx_version: str | None = None,
    ) -> tuple[Compiler, Specialization]:
        """Return the compiler and the specialization of :meth:`artifact`."""
        member = self._member_of_block(block)
        asked = member._asked_for(args, forall, block, arch, target, ptx_version)
        return asked[0], member._dispatcher.specialize(*asked)[1]

    @shorten_errors
    def launched(
        self,
        *args: Any,
        extent: tuple[int, ...],
        block: int | tuple[int, ...] | None = None,
        arch: str | None = None,
        target: str | None = None,
    ) -> tuple[Compiler, tuple[Specialization, ...]]:
        """Return the compiler and the specializations of a launch over an extent.

        It is planned as the launch would be. A signature has two specializations: that of aligned
        device arrays that do not overlap, and that of NumPy arrays, for copies without such
        promises.
        """
        from kerneldsl.launch.pipeline import may_compile
        from kerneldsl.placement.registry import get_target

        # A name alone may be that of a GPU which is not there.
        usual = _writer_of("ptx")
        if target is not None:
            get_target(target)  # what is none is refused, before it is compared
        named = usual if target is None else target
        device = named if arch is None or named != usual else None
        shape = self._read_shape(extent, block)
        request = self._dispatcher.request(shape, args, device, None if device else arch)
        return request.device.compiler, may_compile(request)

    def _text(
        self,
        form: str,
        target: str | None,
        args: tuple[Any, ...],
        options: dict[str, Any],
        ptx_version: str | None = None,
    ) -> str:
        try:
            artifact = self.artifact(
                *args, **{"target": target, "ptx_version": ptx_version, **options}
            )
        except TypeError as error:
            unknown = set(options) - {"forall", "block", "arch", "target"}
            if isinstance(error, ArgumentTypeError) or not unknown:
                raise
            self._refuse_option(sorted(unknown)[0], "forall, block, arch and target", form)
        try:
            return artifact.text(form)
        except ValueError as error:
            raise ArgumentValueError(str(error), value=form) from error

    def _refuse_option(self, name: str, options: str, method: str) -> NoReturn:
        """Refuse an option that a method does not have."""
        parameter = inspect.signature(self.function).parameters.get(name)
        is_constant = parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
        raise ArgumentTypeError(
            f"unknown option {name!r}",
            limit=f"Options are {options}",
            remedy=f"Give compile-time parameters beforehand: .member({name}=…).{method}(…)"
            if is_constant
            else None,
        ) from None
