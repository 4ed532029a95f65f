"""A little more comfort over llvmlite's builder: memory by offset, calls by address, branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.layout import function_address
from kerneldsl.lowering.numba_internals.llvm import AddressCallee

__all__ = ["DOUBLE", "FLOAT", "I8", "I16", "I32", "I64", "POINTER", "Function"]

POINTER = ir.PointerType()
I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()


class Function:
    """One function that is being written.

    One that `is_internal` is called from this module alone, and may be inlined there.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        result: Any,
        parameters: Sequence[Any],
        *,
        is_internal: bool = False,
    ) -> None:
        self.function = ir.Function(module, ir.FunctionType(result, parameters), name)
        if is_internal:
            self.function.linkage = "internal"
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))

    @property
    def args(self) -> Sequence[Any]:
        found: Sequence[Any] = self.function.args
        return found

    # ------------------------------------------------------------------ memory

    def at(self, address: Any, offset: Any) -> Any:
        """Return the address so many bytes further on."""
        if isinstance(offset, int):
            if offset == 0:
                return address
            offset = I64(offset)
        return self.b.gep(address, [offset], source_etype=I8)

    def load(self, address: Any, offset: Any = 0, kind: Any = I64) -> Any:
        """Load a value of a type from an address and an offset in bytes."""
        return self.b.load(self.at(address, offset), typ=kind, align=1)

    def store(self, value: Any, address: Any, offset: Any = 0) -> None:
        self.b.store(value, self.at(address, offset), align=1)

    def variable(self, value: Any) -> Any:
        """Return room on the stack with a first value."""
        room = self.b.alloca(value.type)
        self.store(value, room)
        return room

    def pointer(self, address: int) -> Any:
        return ir.Constant(I64, address).inttoptr(POINTER)

    # ------------------------------------------------------------------ calls

    def call(self, function: Any, result: Any, *values: Any) -> Any:
        kind = ir.FunctionType(result, [value.type for value in values])
        address = self.b.inttoptr(function, POINTER) if function.type == I64 else function
        return self.b.call(AddressCallee(address, kind), values)

    def python(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of the Python/C API."""
        return self.call(self.pointer(function_address(name)), result, *values)

    # ------------------------------------------------------------------ branches

    def block(self, name: str) -> Any:
        """Return a new block, not yet written."""
        return self.function.append_basic_block(name)

    def when(self, condition: Any, begun: Any, otherwise: Any) -> Any:
        """Branch, and begin the block where a condition holds; returns the branch."""
        branch = self.b.cbranch(condition, begun, otherwise)
        self.b.position_at_end(begun)
        return branch

    def unless(self, condition: Any, begun: Any, otherwise: Any) -> Any:
        """Branch, and begin the block where a condition does not hold; returns the branch."""
        branch = self.b.cbranch(condition, otherwise, begun)
        self.b.position_at_end(begun)
        return branch

    def leave(self, target: Any, begun: Any = None) -> None:
        """Branch to a block, and begin that or another one."""
        self.b.branch(target)
        self.b.position_at_end(target if begun is None else begun)

    def join(self, kind: Any, *incoming: tuple[Any, Any]) -> Any:
        """Return one of several values of a type, by the block that was before."""
        found = self.b.phi(kind)
        for value, block in incoming:
            found.add_incoming(value, block)
        return found

    def forget_error(self, block: Any, target: Any) -> None:
        """Write a block that clears Python's error, and branches away."""
        self.b.position_at_end(block)
        self.python("PyErr_Clear", ir.VoidType())
        self.b.branch(target)

    def equal(self, a: Any, b: Any) -> Any:
        """Return whether two integers or addresses are equal."""
        return self.b.icmp_unsigned("==", a, b)

    def require(self, condition: Any, otherwise: Any) -> None:
        """Go on where a condition holds; else branch away."""
        go_on = self.block("go_on")
        branch = self.b.cbranch(condition, go_on, otherwise)
        branch.set_weights([1000, 1])
        self.b.position_at_end(go_on)

    def require_one(self, answer: Any, otherwise: Any) -> None:
        """Go on where a function of kerneldsl has returned 1; else branch away."""
        self.require(self.equal(answer, I32(1)), otherwise)

    def attribute(self, owner: Any, name: Any, otherwise: Any) -> Any:
        """Get an attribute of an object, a new reference; branch away if there is none."""
        found = self.python("PyObject_GetAttr", POINTER, owner, name)
        self.require(self.b.not_(self.is_null(found)), otherwise)
        return found

    def case(self, switch: Any, number: int, name: str) -> Any:
        """Begin the block of one case of a switch, and return it."""
        block = self.block(name)
        switch.add_case(I64(number), block)
        self.b.position_at_end(block)
        return block

    def refuse(self, bad: Any, *, clears_error: bool = False) -> Any:
        """Write the block that returns 0; give the function, which is complete."""
        self.b.position_at_end(bad)
        if clears_error:
            self.python("PyErr_Clear", ir.VoidType())
        self.b.ret(I32(0))
        return self.function

    def accept(self, bad: Any, *, clears_error: bool = False) -> Any:
        """Return 1 here, and 0 from a block that is written too; give the function."""
        self.b.ret(I32(1))
        return self.refuse(bad, clears_error=clears_error)

    @contextmanager
    def loop(self, count: Any) -> Iterator[Any]:
        """Write the body of a loop over 0, 1… `count` - 1; gives the index."""
        head, body, done = self.block("loop"), self.block("loop_body"), self.block("loop_done")
        before = self.b.block
        self.leave(head)
        index = self.b.phi(I64)
        index.add_incoming(I64(0), before)
        self.when(self.b.icmp_signed("<", index, count), body, done)
        yield index
        index.add_incoming(self.b.add(index, I64(1)), self.b.block)
        self.leave(head, done)

    def copy_words(self, out: Any, source: Any, count: Any, *, together: int = 1) -> None:
        """Copy words of 64 bits; their number is a multiple of `together`."""
        kind = I64 if together == 1 else ir.VectorType(I64, together)
        with self.loop(count if together == 1 else self.b.udiv(count, I64(together))) as i:
            offset = self.b.mul(i, I64(8 * together))
            self.store(self.load(source, offset, kind), self.at(out, offset))

    def is_instance(self, value: Any, kind: type) -> Any:
        """Return whether an object is of exactly a class; an empty (null) slot is not."""
        nothing, some, known = self.block("nothing"), self.block("some"), self.block("known")
        self.unless(self.is_null(value), some, nothing)
        is_kind = self.equal(self.load(value, layout.TYPE), I64(id(kind)))
        self.leave(known, nothing)
        self.leave(known)
        result = self.join(ir.IntType(1), (is_kind, some), (ir.Constant(ir.IntType(1), 0), nothing))
        return result

    def is_null(self, address: Any) -> Any:
        return self.b.icmp_unsigned("==", self.b.ptrtoint(address, I64), I64(0))
