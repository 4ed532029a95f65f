"""Runs a CUDA entry's optimized LLVM module on the host, one thread of the grid after the other.

Registers that name a thread become variables which a loop sets. Only kernels without barriers, warp
operations and libdevice can be run so; what is tested is which indices a thread works on, and that
LLVM, trusting what it was promised, still does what the kernel says.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from targets.cuda.compile.artifact import CudaArtifact

__all__ = ["SimulatedGrid"]

_REGISTERS = [f"{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"]
_TYPES = {
    "bool": ("i8", ctypes.c_uint8),
    "int8": ("i8", ctypes.c_int8),
    "uint8": ("i8", ctypes.c_uint8),
    "int16": ("i16", ctypes.c_int16),
    "uint16": ("i16", ctypes.c_uint16),
    "int32": ("i32", ctypes.c_int32),
    "uint32": ("i32", ctypes.c_uint32),
    "int64": ("i64", ctypes.c_int64),
    "uint64": ("i64", ctypes.c_uint64),
    "float32": ("float", ctypes.c_float),
    "float64": ("double", ctypes.c_double),
    "pointer": ("ptr", ctypes.c_void_p),
}
_DECLARATION = re.compile(r"^declare [^\n]*@llvm\.nvvm\.read\.ptx\.sreg[^\n]*\n", re.MULTILINE)
_CALL = re.compile(r"(?:tail )?call ([^@\n]*)@llvm\.nvvm\.read\.ptx\.sreg\.([a-z.]+)\(\)")
_READ = re.compile(r'(?:tail )?call i32 asm sideeffect "mov\.u32 \$0, %([a-z.]+);", "=r"\(\)')
_SAME = re.compile(r'(?:tail )?call i64 asm "mov\.b64 \$0, \$1;", "=l,l"\(i64 ([^)]+)\)[^\n]*')


class SimulatedGrid:
    """An entry that can be run here.

    Parameters
    ----------
    artifact : CudaArtifact
        The compiled kernel.
    """

    def __init__(self, artifact: CudaArtifact) -> None:
        self.artifact = artifact
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
        module = llvm.parse_assembly(self._host_text(str(machine.target_data)))
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        parameters = [_TYPES[p.dtype][1] for p in artifact.layout.parameters]
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8, *parameters)
        self._run = signature(self._engine.get_function_address("run_grid"))

    def run(
        self,
        grid_dim: Sequence[int],
        block_dim: Sequence[int],
        values: Sequence[Any],
        *,
        blocks: tuple[int, int] | None = None,
    ) -> None:
        """Run the threads of a grid.

        Parameters
        ----------
        grid_dim, block_dim : sequence of int
            Blocks, and threads of a block, along x, y and z.
        values : sequence
            The flat parameters, the extent included.
        blocks : tuple of int, optional
            The first block to run and the one after the last, counted with x fastest.
        """
        first, last = blocks or (0, grid_dim[0] * grid_dim[1] * grid_dim[2])
        self._run(*grid_dim, *block_dim, first, last, *values)

    def _host_text(self, layout: str) -> str:
        """The module with another triple, variables for registers, and the loop over threads."""
        text = _DECLARATION.sub("", self.artifact.text("llvm"))
        text = _CALL.sub(r"call i32 @register.\2()", text)
        text = _READ.sub(r"call i32 @register.\1()", text)
        text = _SAME.sub(r"add i64 \1, 0", text)
        text = text.replace("define ptx_kernel", "define internal")
        text = re.sub('^target triple = "[^"]*"', "", text, flags=re.MULTILINE)
        text = re.sub(
            '^target datalayout = "[^"]*"',
            f'target datalayout = "{layout}"',
            text,
            flags=re.MULTILINE,
        )
        assert "nvvm" not in text, re.findall(r"[^\n]*nvvm[^\n]*", text)
        return text + "".join(_VARIABLE.format(name=name) for name in _REGISTERS) + self._loop()

    def _loop(self) -> str:
        types = [_TYPES[p.dtype][0] for p in self.artifact.layout.parameters]
        pointer = "ptr addrspace(1)"
        declared = [f"{pointer if each == 'ptr' else each} %p{i}" for i, each in enumerate(types)]
        arguments = "".join(f", {each}" for each in declared)
        call = f'call void @"{self.artifact.entry_name}"({", ".join(declared)})'
        return _LOOP.format(arguments=arguments, call=call)


_VARIABLE = """
@value.{name} = internal global i32 0
define internal i32 @register.{name}() {{
  %value = load i32, ptr @value.{name}
  ret i32 %value
}}
"""

_LOOP = """
define internal void @set_ids(i64 %flat, ptr %x, ptr %y, ptr %z, i64 %nx, i64 %ny) {{
  %ix = urem i64 %flat, %nx
  %rest = udiv i64 %flat, %nx
  %iy = urem i64 %rest, %ny
  %iz = udiv i64 %rest, %ny
  %x32 = trunc i64 %ix to i32
  %y32 = trunc i64 %iy to i32
  %z32 = trunc i64 %iz to i32
  store i32 %x32, ptr %x
  store i32 %y32, ptr %y
  store i32 %z32, ptr %z
  ret void
}}

define void @run_grid(i64 %gx, i64 %gy, i64 %gz, i64 %bx, i64 %by, i64 %bz, i64 %first,
                      i64 %last{arguments}) {{
  %bxy = mul i64 %bx, %by
  %threads = mul i64 %bxy, %bz
  %gx32 = trunc i64 %gx to i32
  %gy32 = trunc i64 %gy to i32
  %gz32 = trunc i64 %gz to i32
  %bx32 = trunc i64 %bx to i32
  %by32 = trunc i64 %by to i32
  %bz32 = trunc i64 %bz to i32
  store i32 %gx32, ptr @value.nctaid.x
  store i32 %gy32, ptr @value.nctaid.y
  store i32 %gz32, ptr @value.nctaid.z
  store i32 %bx32, ptr @value.ntid.x
  store i32 %by32, ptr @value.ntid.y
  store i32 %bz32, ptr @value.ntid.z
  br label %block_test
block_test:
  %block = phi i64 [ %first, %0 ], [ %next_block, %block_end ]
  %has_block = icmp ult i64 %block, %last
  br i1 %has_block, label %block_begin, label %done
block_begin:
  call void @set_ids(i64 %block, ptr @value.ctaid.x, ptr @value.ctaid.y, ptr @value.ctaid.z,
                     i64 %gx, i64 %gy)
  br label %thread_test
thread_test:
  %thread = phi i64 [ 0, %block_begin ], [ %next_thread, %thread_begin ]
  %has_thread = icmp ult i64 %thread, %threads
  br i1 %has_thread, label %thread_begin, label %block_end
thread_begin:
  call void @set_ids(i64 %thread, ptr @value.tid.x, ptr @value.tid.y, ptr @value.tid.z, i64 %bx,
                     i64 %by)
  {call}
  %next_thread = add i64 %thread, 1
  br label %thread_test
block_end:
  %next_block = add i64 %block, 1
  br label %block_test
done:
  ret void
}}
"""
