"""Generated programs are what they are said to be: one for a seed, without races, of any names."""

from __future__ import annotations

import ast
import math
import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.fuzz.differences import compare
from tests.fuzz.kernels import generate
from tests.fuzz.names import renamed
from tests.fuzz.outcomes import expected_results
from tests.fuzz.program import Array, Program
from tests.support.extent import examples, sample

_SEEDS = range(60)
#: At least so many of a thousand programs hold each of these.
_PER_THOUSAND = {
    "element kernel": 140,
    "block kernel": 300,
    "forall": 120,
    "3-d": 80,
    "barrier function": 200,
    "barrier function in an augmented assignment": 30,
    "barrier function in a condition": 20,
    "barrier function in an operand": 20,
    "barrier function in a subscript": 10,
    "barrier function in a target": 4,
    "barrier function in a tuple": 20,
    "barrier in a loop": 20,
    "captured array": 100,
    "captured flag around a barrier": 3,
    "debug": 80,
    "divergent barrier": 15,
    "early return": 80,
    "early return of a block": 10,
    "elements taken at places": 50,
    "extreme scalar": 18,
    "guarded division": 30,
    "group": 100,
    "groups": 300,
    "halo tile": 10,
    "hint for caches": 150,
    "lanes": 300,
    "load at an edge": 18,
    "more than ten calls": 10,
    "operation of a group": 30,
    "atomic in an expression": 1,
    "packed numbers": 15,
    "places of a sorted tile": 25,
    "range at limits": 16,
    "ring buffer": 14,
    "runtime stride": 15,
    "serial loop": 15,
    "sort with values": 6,
    "stencil": 24,
    "tile along an axis": 15,
    "tile function": 60,
    "tile in a branch": 25,
    "tile in a loop": 35,
    "tile of a shared array": 15,
    "tile of packed numbers": 20,
    "tile of threads": 30,
    "tile stored by a function": 30,
    "tiles": 300,
    "tuple target": 50,
    "tuple target around a barrier": 4,
    "variable of two types": 40,
    "vector": 28,
    "vectors of a block": 20,
    "view near a barrier": 4,
    "warp exchange": 60,
    "warp kernel": 15,
    "warp loop": 5,
    "warp reduction": 30,
    "atomic on a part": 8,
    "break in a row": 3,
    "dynamic shared memory by two names": 25,
    "memory kernel": 150,
    "named part of a shared array": 120,
    "names that change places": 4,
    "neighbour's element": 14,
    "one array as two arguments": 40,
    "one of two shared arrays": 12,
    "overlap kernel": 40,
    "overlapping arguments": 90,
    "parts of a local array": 15,
    "recurrence through two names": 40,
    "replaced exchange": 6,
    "rows": 4,
    "segment of a thread": 3,
    "shared plane": 35,
    "tuple of shared arrays": 10,
    "unused exchange": 5,
}

#: The program of a seed, which several tests look at.
_program = cache(generate)


def _programs() -> list[Program]:
    return [p for p in map(_program, _SEEDS) if not p.is_divergent]


def test_a_seed_gives_one_program() -> None:
    """The same text and arguments each time, and other ones for other seeds."""
    programs = [_program(s) for s in _SEEDS]
    assert programs == [generate(s) for s in _SEEDS]
    assert len({program.text for program in programs}) == len(_SEEDS)
    first, second = generate(3).arguments(0), generate(3).arguments(0)
    assert not compare([first], [second])


@pytest.mark.full
def test_programs_hold_what_codes_hold() -> None:
    """Every construct that a part of the compiler turns on is met often enough."""
    counts = Counter(f for seed in range(1000) for f in _program(seed).features)
    few = {f: counts[f] for f, least in _PER_THOUSAND.items() if counts[f] < least}
    assert not few


#: Words of each level, as a program writes them.
_WORDS = {
    "lanes": r"kd\.\w+_sync\(|kd\.lanemask_lt\(",
    "groups": r"kd\.(warp|block)\.\w+\(",
    "tiles": r"kd\.tile\.\w+\(",
}


def test_lanes_groups_and_tiles_are_in_a_quarter_of_the_programs() -> None:
    """Of each level at least one word is there, so that the kernels mix them."""
    programs = [_program(seed) for seed in range(examples(300, 150))]
    for level, words in _WORDS.items():
        found = [bool(re.search(words, program.text)) for program in programs]
        assert found == [level in program.features for program in programs], level
        assert sum(found) >= len(programs) / 4, level
    mixed = [p for p in programs if _WORDS.keys() <= p.features]
    assert len(mixed) >= len(programs) / 12


def test_blocks_are_of_odd_sizes() -> None:
    """One thread, less than a warp, partial warps, many warps; one block and several."""
    programs = [p for p in map(_program, range(examples(600, 300))) if "tiles" in p.features]
    sizes = {math.prod(p.block) for p in programs if p.block}
    assert sizes >= {1, 7, 33, 96, 100, 256}
    assert {math.prod(p.grid) > 1 for p in programs if p.grid} == {True, False}
    arrays = [a for p in programs for a in p.parameters if isinstance(a, Array)]
    assert any(0 in shape for array in arrays for shape in array.shapes)


def test_threads_may_run_in_any_order() -> None:
    """The oracle's results are the same with the threads reversed and other undefined memory."""
    for program in sample(_programs(), 4):
        forward = expected_results(program)
        difference = compare(forward, expected_results(program, is_reversed=True))
        assert not difference, f"program {program.seed}: {difference}"


def test_a_race_is_found() -> None:
    """Threads that write one element without a barrier do not pass for a program."""
    text = "def kernel(out):\n    out[0] = kd.threadIdx.x\n"
    racing = Program(0, text, (Array("out", "int64", ((1,), (1,)), "output"),), (1,), (4,))
    assert compare(expected_results(racing), expected_results(racing, is_reversed=True))


def test_names_do_not_matter() -> None:
    """A renamed program has other names and the same results."""
    for program in sample(_programs(), 4):
        other = replace(program, text=renamed(program.text, random.Random(program.seed)))
        assert other.text != program.text
        difference = compare(expected_results(program), expected_results(other))
        assert not difference, f"program {program.seed}: {difference}"


@pytest.mark.parametrize("seed", range(5))
def test_renaming_keeps_what_python_means(seed: int) -> None:
    """Builtins that are used keep their names, and no two variables share one."""
    functions = ("def g(a, b):", "    c = max(a, b)", "    return c + K")
    text = "\n".join(("K = 2", *functions, "def kernel(x):", "    x[0] = g(1, K)"))
    made = ast.parse(renamed(text, random.Random(seed)))
    _, function, kernel = made.body
    assert isinstance(function, ast.FunctionDef)
    assert isinstance(kernel, ast.FunctionDef)
    names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    assert "max" in names
    assert len(names) == 5
    assert kernel.name == "kernel"
    namespace: dict[str, object] = {}
    exec(compile(made, "renamed", "exec"), namespace)
    out = [0]
    namespace["kernel"](out)  # type: ignore[operator]
    assert out == [4]


def test_there_are_names_for_a_function_that_reads_many() -> None:
    constants = [f"K{n}" for n in range(30)]
    lines = [f"{name} = {n}" for n, name in enumerate(constants)]
    text = "\n".join([*lines, "def kernel(x):", f"    a = b = c = {' + '.join(constants)}"])
    for seed in range(examples(400)):
        made = ast.parse(renamed(text, random.Random(seed)))
        names = {n.id for n in ast.walk(made) if isinstance(n, ast.Name)}
        assert len(names) == 33, f"seed {seed}"


def test_data_sets_differ_in_poison_and_scalars() -> None:
    """Outputs begin poisoned; a limit is at the end of its type in some programs."""
    programs = _programs()
    for program in programs:
        for parameter, value in zip(program.parameters, program.arguments(1), strict=True):
            if isinstance(parameter, Array) and parameter.role == "output":
                is_float = value.dtype.kind == "f"
                assert np.isnan(value).all() if is_float else (value != 0).all()
    limits = {a for p in programs for a in p.arguments(0) if type(a) is int}
    assert 2**63 - 1 in limits
    assert -(2**63) in limits
