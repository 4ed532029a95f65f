"""Memory that the threads of a block share, the names of its parts, and when they may be used.

A part is read and stored only through indices that stay inside it. Between two barriers, either
each thread has elements of its own, all atomics are of one kind, or nobody stores: where that would
not hold any more, a barrier comes first. So programs have no races, whatever names they use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression

__all__ = ["Memories", "Memory", "Part", "Segment"]

#: What an interval of a memory is where it may be anything.
_ANY = "any"
_READ = "read"


@dataclass(frozen=True)
class Part:
    """A name of a memory or a part of it.

    Parameters
    ----------
    name : str
        Its text, an array of `dtype`.
    dtype : str
        Of its elements.
    sizes : tuple of str
        Of its axes.
    own : tuple of str
        Subscripts that name another element in each thread; none where it may be shorter.
    is_sized : bool
        Whether it always has elements.
    is_dense : bool
        Whether they are side by side.
    """

    name: str
    dtype: str
    sizes: tuple[str, ...]
    own: tuple[str, ...] = ()
    is_sized: bool = True
    is_dense: bool = False


@dataclass
class Memory:
    """Shared memory, by all its names.

    Parameters
    ----------
    dtype : str
        Of the elements of its first name.
    size : int
        How many these are.
    parts : list of Part
        Its names.
    each : int
        Elements of one thread, which are side by side.
    """

    dtype: str
    size: int
    parts: list[Part]
    each: int
    #: What has been done since the last barrier: nothing, stores of own elements, atomics, reads.
    done: str = ""


@dataclass(frozen=True)
class Segment:
    """Elements that only one thread uses.

    Parameters
    ----------
    text : str
        Names number `{}` of them.
    dtype, count : str, int
        Their dtype, and how many these are.
    row : str
        An array of them in this order, if there is one.
    """

    text: str
    dtype: str
    count: int
    row: str = ""

    def at(self, number: str) -> str:
        """Return an element."""
        return self.text.format(number if number.isalnum() else f"({number})")


@dataclass
class Memories:
    """All shared memory of a kernel, the barriers between its uses, and what is a thread's own."""

    body: Body
    all: list[Memory] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    @contextmanager
    def owning(self, segments: list[Segment]) -> Iterator[None]:
        """Let statements read and store elements of segments."""
        body = self.body
        known = len(self.segments), len(body.lvalues), len(body.expressions.values)
        self.own(segments)
        yield
        del self.segments[known[0] :]
        del body.lvalues[known[1] :]
        del body.expressions.values[known[2] :]

    def own(self, segments: list[Segment]) -> None:
        """Let all that follows use elements of segments."""
        found = [Expression(s.at(str(k)), s.dtype) for s in segments for k in range(s.count)]
        self.segments += segments
        self.body.lvalues += found
        self.body.expressions.values += found

    def choose(self) -> tuple[Memory, Part]:
        """Return a memory and one of its names."""
        memory = self.body.expressions.choose(self.all)
        return memory, self.body.expressions.choose(memory.parts)

    def barrier(self) -> None:
        """Wait for the block, sometimes with a vote."""
        body, choose = self.body, self.body.expressions.choose
        variables = body.integers()
        if variables and body.expressions.chance(6):
            call = (
                f"kd.syncthreads_{choose(('count', 'and', 'or'))}({body.expressions.condition(1)})"
            )
            body.emit(f"{choose(variables).text} += {call}")
        else:
            body.emit("kd.syncthreads()")
        for memory in self.all:
            memory.done = ""

    def begin(self, memory: Memory, use: str) -> None:
        """Write a barrier if the memory cannot be used in this way before one."""
        if memory.done not in ("", use):
            self.barrier()
        memory.done = use

    def read(self, memory: Memory, own: str = "") -> None:
        """Begin to read elements: any, or those that this thread has stored by `own`."""
        if not own or memory.done != own:
            self.begin(memory, _READ)

    def element(self, part: Part) -> str:
        """Return an element of a part that has some, by an index of any thread."""
        indices = [self._index(size) for size in part.sizes]
        if len(indices) > 1 and self.body.expressions.chance(2):
            return f"{part.name}[{']['.join(indices)}]"
        return f"{part.name}[{', '.join(indices)}]"

    def _index(self, size: str) -> str:
        body, t = self.body, self.body.thread
        if body.expressions.chance(3):
            return body.expressions.index(size)
        step = body.rng.choice((1, 1, 2, 3, 17, 63, 64, 65))
        forms = [f"({t} + {step}) % {size}", f"{t} % {size}", f"{t} // 2 % {size}", f"{t} % 4"]
        forms += [f"{size} - 1 - {t} % {size}", "0", "-1", f"({t} ^ {step}) % {size}"]
        if size.isdigit() and int(size) >= body.threads:
            forms += [t, f"{size} - 1 - {t}", f"{t} - {size}", f"{t} // {step}"]
            more = int(size) - body.threads
            forms += [f"{t} + {min(step, more)}", f"min({t} + {step}, {size} - 1)"] * 3
            forms += [f"max({t} - {step}, 0)", f"{t} + {more}"]
            if body.threads % 128 == 0:
                forms += [f"{t} ^ 64", f"{t} ^ {step & 63}"]
        if not size.isdigit() or int(size) < 4:
            forms.remove(f"{t} % 4")
        return body.expressions.choose(forms)

    @contextmanager
    def loop(self, header: str, *names: str) -> Iterator[None]:
        """Open a loop of the whole block, with a barrier at its beginning or its end if needed."""
        body, is_late = self.body, self.body.expressions.chance(2)
        if not is_late and any(memory.done for memory in self.all):
            self.barrier()
        before = [memory.done for memory in self.all]
        values = [Expression(name, "int64") for name in names]
        with body.block(header, *values, uniform=names), self._names():
            if is_late:
                self.barrier()
            yield
            if not is_late and any(memory.done for memory in self.all):
                self.barrier()
        self._join(before)

    @contextmanager
    def branch(self, header: str) -> Iterator[None]:
        """Open a branch of the whole block."""
        before = [memory.done for memory in self.all]
        with self.body.block(header), self._names():
            yield
        self._join(before)

    @contextmanager
    def _names(self) -> Iterator[None]:
        """Forget names of parts that are new."""
        known = [len(memory.parts) for memory in self.all]
        yield
        for memory, count in zip(self.all, known, strict=True):
            del memory.parts[count:]

    def _join(self, before: list[str]) -> None:
        for memory, earlier in zip(self.all, before, strict=True):
            if earlier and memory.done != earlier:
                memory.done = _ANY if memory.done else earlier
