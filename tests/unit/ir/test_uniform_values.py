"""Which values and places are uniform, form by form; and that simulated threads agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.contract.findings import BarrierFacts
from tests.support.extent import examples, full_beyond
from tests.support.read_kernels import barriers_of
from tests.support.uniform_kernels import SIGNATURE, kernel_text, load_kernels, run_recorded

SHARED = "s = kd.shared.array(8, np.int64)\ns[t] = t\nkd.syncthreads()\n"
LOCAL = "mine = kd.local.array(4, np.int64)\nfor k in range(4):\n    mine[k] = t * k\n"

#: Statements before, and a value that is uniform.
UNIFORM = [
    ("", "n"),
    ("", "n + x.size * 2"),
    ("", "x.shape[0] + q.shape[1] + q.strides[0] + x.ndim + x.nbytes"),
    ("", "len(x)"),
    ("v = x[1:n]", "v.size"),
    ("v = x[1:n]", "v.shape[0] + len(v)"),
    ("v = q[t]", "v.size"),
    ("", "q[t].size + len(q[t, 1:n])"),
    ("i = min(t, n)", "q[i].size"),
    ("i = kd.grid(1)\nif i >= n:\n    i = n - 1", "q[i].size"),
    ("i, j = kd.grid(2)\nif i >= n:\n    i = 0", "q[i].size"),
    ("", "q.T.size + q.T.shape[0]"),
    ("", "x.reshape(2, 4).shape[1]"),
    ("h, w = q.shape", "h * w"),
    ("shape = q.shape", "shape[1]"),
    ("a, b = t, n", "b"),
    ("(a, b), c = (t, n), 1", "b"),
    ("", "(1, n)[1]"),
    ("", "len((1, t))"),
    ("", "x[0]"),
    ("", "x.sum() + np.sum(x) + sum(x)"),
    ("", "3 in x"),
    ("a = 0\nfor v in x:\n    a += v", "a"),
    ("a = 0\nfor i, v in enumerate(x):\n    a += i", "a"),
    ("a, b = x[:2]", "a + b"),
    ("", "0 < n < 9"),
    ("", "n and x.size"),
    ("", "x.size if n > 2 else q.size"),
    ("", "(x if n > 2 else y).size"),
    ("", "np.int32(n) + int(n) + math.floor(1.5)"),
    ("kind = np.int32", "kind(n)"),
    ("", "TABLE[n] + TABLE.size + PAIR[1]"),
    ("", "extent(x)"),
    ("", "extent(q[t])"),
    ("", "element(x, n)"),
    ("", "early(n)"),
    ("", "from_loop(n, n)"),
    ("", "view_of(x, n).size"),
    ("", "plain_sum_of(n, 2)"),
    ("", "plain_total(x)"),
    ("", "kd.blockIdx.x + kd.blockDim.x + kd.gridDim.x + kd.gridsize(1) + kd.warpsize"),
    ("", "kd.syncthreads_count(t > 2)"),
    ("", "kd.uniform(n + 0 * t)"),
    (SHARED, "s[0]"),
    (SHARED, "s.sum()"),
    (SHARED + "c = s[0]\nkd.syncthreads()\ns[t] = 0", "c"),
    (SHARED + "c = s[0]\nkd.syncthreads()\ns[t] = 0", "max(c, 1)"),
    (SHARED + "c = s[0]\nkd.syncthreads()\ns[t] = 0", "plain_sum_of(c, 1)"),
    (
        "s = kd.shared.array(8, np.int64)\nv = s.reshape(2, 4)\nv[0, 0] = 1\nkd.syncthreads()",
        "v[0, 0]",
    ),
    ("s = kd.shared.array(8, np.int64)\ns[0] = 1\n", "kd.syncthreads_or(t) + s[0]"),
    (LOCAL, "mine.size + len(mine) + mine.shape[0]"),
    (LOCAL + "view = mine[1:n]", "view.size"),
    ("a = t\na = n", "a"),
    ("a = 0\nfor i in range(n):\n    if i == 2:\n        break\n    a += 1", "a"),
    ("a = 0\nfor i in range(t):\n    b = n", "a"),
    ("pair = (x, y)\np, r = pair", "p.size"),
    ("p, r = x, y\nfor i in range(n):\n    p, r = r, p", "p.size"),
]

#: Statements before, and a value that is not uniform, or cannot be known to be.
VARYING = [
    ("", "t"),
    ("", "n + t"),
    ("", "kd.laneid"),
    ("", "kd.grid(1)"),
    ("", "kd.grid(2)[1]"),
    ("v = x[t:]", "v.size"),
    ("v = x[t:]", "v.shape[0]"),
    ("v = x[t:]", "len(v)"),
    ("v = x[::t + 1]", "v.size"),
    ("v = x[::t + 1]", "v.strides[0]"),
    ("cut = slice(0, t)\nv = x[cut]", "v.size"),
    ("v = q[1, t:]", "v.size"),
    ("", "q[1:, t:].shape[1]"),
    ("", "q[t:].T.size"),
    ("", "x[t:].reshape(1, -1).size"),
    ("", "x.reshape(t % 2 + 1, -1).shape[0]"),
    ("", "np.size(x[t:])"),
    ("", "np.shape(x[t:])[0]"),
    ("", "np.asarray(x[t:]).size"),
    ("", "x[t:].nbytes"),
    ("", "(x if t < 3 else x[1:]).size"),
    ("v = x\nif t < 3:\n    v = x[1:]", "v.size"),
    ("v = x\nfor i in range(t):\n    v = x[1:]", "v.size"),
    ("", "(x, x[1:])[t % 2].size"),
    ("pair = (x, x[2:])\nv = pair[t % 2]", "v.size"),
    ("v = (x, x[2:])[t % 2]\nw = v[1:]", "w.size"),
    ("", "x.shape[t % 1 + 0] + t"),
    ("", "(1, 2)[t % 2]"),
    ("", "PAIR[t % 2]"),
    ("", "TABLE[t]"),
    ("", "len(range(t))"),
    ("", "range(0, t).stop"),
    ("", "slice(0, t).stop"),
    ("", "3 in range(t)"),
    ("", "x[t]"),
    ("", "x[t:].sum()"),
    ("", "np.sum(x[t:])"),
    ("", "np.sum(q[t])"),
    ("", "sum(q[t])"),
    ("", "q[t].argmax()"),
    ("", "t in x"),
    ("", "3 in x[t:]"),
    ("", "x[t:] is x"),
    ("", "n and t"),
    ("", "t and n"),
    ("", "n or t"),
    ("", "(t > 2) or n"),
    ("", "1 if t > 2 else 2"),
    ("", "n if n > 2 else t"),
    ("", "0 < t < 3"),
    ("", "n < 5 < t"),
    ("", "not t"),
    ("", "-t"),
    ("", "min(1, 2, t)"),
    ("", "divmod(t, 2)[0]"),
    ("", "(1, 2) < (1, t)"),
    ("", "((1,) + (t,))[1]"),
    ("", "complex(1, t).imag"),
    ("", "np.int32(t)"),
    ("kind = np.int32", "kind(t)"),
    ("a, b = n, t", "b"),
    ("(a, b), c = (1, t), 2", "b"),
    ("a, (b, c) = 1, (2, t)", "c"),
    ("a = b = t", "b"),
    ("a: int = t", "a"),
    ("a = n\na += t", "a"),
    ("a = 0\nif t > 2:\n    a = 1", "a"),
    ("a = 0\nif t > 2:\n    pass\nelse:\n    a = 1", "a"),
    ("a = 0\nfor i in range(t):\n    a = i", "a"),
    ("for i in range(t + 1):\n    pass", "i"),
    ("i = t\nfor i in range(n):\n    pass", "i"),
    ("for i in range(0, 9, t + 1):\n    pass", "i"),
    ("a = 0\nwhile a < t:\n    a += 1", "a"),
    ("a = 0\nfor i in range(n):\n    if i == t:\n        break\n    a += 1", "a"),
    ("a = 0\nfor i in range(n):\n    if i == t:\n        continue\n    a += 1", "a"),
    ("a = 0\nfor i in range(n):\n    a = t\n    if n > 2:\n        break\n    a = 0", "a"),
    ("a = 0\nfor i in range(n):\n    a = t\n    if n > 2:\n        continue\n    a = 0", "a"),
    ("a = 0\nb = 0\nfor i in range(n):\n    b = a\n    a = t", "b"),
    ("for v in (n, t):\n    pass", "v"),
    ("for a, b in ((1, t), (2, n)):\n    pass", "b"),
    ("for a, b in zip(q[t], x):\n    pass", "a"),
    ("for i, v in enumerate(x, t):\n    pass", "i"),
    ("for v in q[t]:\n    pass", "v"),
    (LOCAL, "mine[1]"),
    (LOCAL, "mine.sum()"),
    (LOCAL, "np.sum(mine)"),
    (LOCAL, "sum(mine)"),
    (LOCAL, "max(mine)"),
    (LOCAL, "3 in mine"),
    (LOCAL, "mine[1:3].sum()"),
    (LOCAL, "mine.reshape(2, 2)[0, 1]"),
    (LOCAL, "mine.T.sum()"),
    (LOCAL, "mine[1, ...] + 1"),
    (LOCAL, "(mine, mine)[0][1]"),
    (LOCAL + "view = mine[1:]", "view[0]"),
    (LOCAL + "a, b = mine[:2]", "b"),
    (LOCAL + "a = 0\nfor v in mine:\n    a += v", "a"),
    (LOCAL + "a = 0\nfor i, v in enumerate(mine):\n    a += v", "a"),
    (LOCAL + "a = 0\nfor u, v in zip(x, mine):\n    a += v", "a"),
    (LOCAL, "element(mine, 1)"),
    (LOCAL, "plain_total(mine)"),
    (LOCAL, "kd.atomic.add(mine, 0, 1)"),
    ("", "kd.atomic.add(y, 0, 1)"),
    ("kd.atomic.add(y, 0, 1)", "y[0]"),
    ("kd.atomic.add(y, 0, 1)", "y.sum()"),
    ("kd.atomic.add(y, 0, 1)", "np.sum(y)"),
    ("kd.atomic.add(y, 0, 1)", "sum(y)"),
    ("kd.atomic.add(y, 0, 1)", "max(y)"),
    ("kd.atomic.add(y, 0, 1)", "5 in y"),
    ("kd.atomic.add(y, 0, 1)", "y[:3].sum()"),
    ("kd.atomic.add(y, 0, 1)", "element(y, 0)"),
    ("kd.atomic.add(y, 0, 1)", "plain_total(y)"),
    ("kd.atomic.add(y, 0, 1)\na, b = y[:2]", "a"),
    ("kd.atomic.add(y, 0, 1)\na = 0\nfor v in y:\n    a += v", "a"),
    ("a = 0\nfor v in y:\n    a += v\n    kd.atomic.add(y, 7, 1)", "a"),
    ("v = y[0:]\nkd.atomic.add(v, 0, 1)", "y[0]"),
    ("v = y.reshape(2, 4)\nv[0, t % 2] = t", "y[0]"),
    ("v = (y, y)\nv[0][0] = t", "y[0]"),
    ("v = y.T\nv[0] = t", "y[0]"),
    ("v = view_of(y, 0)\nv[0] = t", "y[0]"),
    ("y.fill(t)", "y[0]"),
    ("np.add(y, t, y)", "y[0]"),
    ("y[:] = t", "y[0]"),
    ("y[0] += t", "y[0]"),
    ("for y[0] in range(t):\n    pass", "y[0]"),
    ("for v in q:\n    v[0] = t", "q[0, 0]"),
    ("for i, v in enumerate(q):\n    v[0] = t", "q[0, 0]"),
    ("for u, v in zip(x, q):\n    v[0] = t", "q[0, 0]"),
    ("put(y, 0, t)", "y[0]"),
    ("", "put_and_get(y, t)"),
    ("", "y[0] + kd.atomic.add(y, 0, 1) * 0"),
    ("a = y[0]\nkd.atomic.add(y, 0, 1)", "a"),
    ("s = kd.shared.array(2, np.int64)\ns[0] = t", "s[0]"),
    ("s = kd.shared.array(2, np.int64)\nkd.syncthreads()\na = s[0]\ns[0] = t", "a"),
    (
        "s = kd.shared.array(2, np.int64)\ns[0] = 1\n"
        "kd.syncthreads()\na = kd.syncthreads_or(t) + s[0]\ns[0] = t",
        "a",
    ),
    ("", "own_index(n)"),
    ("", "early(t)"),
    ("", "from_loop(t, n)"),
    ("", "changes_argument(n)"),
    ("", "view_of(x, t).size"),
    ("", "extent(x[t:])"),
    ("", "element(x, t)"),
    ("", "own_total(n)"),
    ("", "plain_sum_of(n, t)"),
    ("", "plain_total(x[t:])"),
]


def _rows(table: list[tuple[str, str]]) -> list[Any]:
    """Rows as parameters; a quick run takes a third of them."""
    rows = [
        pytest.param(before, value, id=f"{number}-{value}")
        for number, (before, value) in enumerate(table)
    ]
    return full_beyond(rows, rows[::3])


def _facts(body: str, folder: Path) -> BarrierFacts:
    return barriers_of(load_kernels(kernel_text(body), folder)["kernel"], SIGNATURE)


def _problems(body: str, folder: Path) -> tuple[Any, ...]:
    return _facts(body, folder).problems


def _guarded(before: str, value: str) -> str:
    return f"{before}\nprobe = {value}\nif probe > 5:\n    kd.syncthreads()\n"


@pytest.mark.parametrize(("before", "value"), _rows(UNIFORM))
def test_uniform_values_may_steer_a_barrier(before: str, value: str, tmp_path: Path) -> None:
    assert _problems(_guarded(before, value), tmp_path) == ()


@pytest.mark.parametrize(("before", "value"), _rows(VARYING))
def test_other_values_may_not(before: str, value: str, tmp_path: Path) -> None:
    assert len(_problems(_guarded(before, value), tmp_path)) == 1


#: A barrier in each of these is not reached by all threads together.
DIVERGENT_PLACES = [
    "for i in range(x[t:].size):\n    kd.syncthreads()",
    "for v in x[t:]:\n    kd.syncthreads()",
    "for i, v in enumerate(x[t:]):\n    kd.syncthreads()",
    "for u, v in zip(x, x[t:]):\n    kd.syncthreads()",
    "a = 0 < t < kd.syncthreads_count(1)",
    "a = t and kd.syncthreads_or(1)",
    "a = kd.syncthreads_or(1) if t else 0",
    "while n > 0:\n    n -= t\n    kd.syncthreads()",
    "for i in range(n):\n    if i == t:\n        break\n    kd.syncthreads()",
    "for i in range(n):\n    if i == t:\n        continue\n    kd.syncthreads()",
]


@pytest.mark.parametrize("body", DIVERGENT_PLACES)
def test_divergent_places(body: str, tmp_path: Path) -> None:
    assert len(_problems(body, tmp_path)) == 1


#: All threads reach the barrier in each of these.
UNIFORM_PLACES = [
    "for i in range(q[t].size):\n    kd.syncthreads()",
    LOCAL + "for v in mine:\n    kd.syncthreads()",
    "for i, v in enumerate(x):\n    if i == 2:\n        kd.syncthreads()",
    LOCAL + "for i, v in enumerate(mine):\n    if i == 2:\n        kd.syncthreads()",
    "for v in x:\n    kd.syncthreads()\n    x[t] = t\n    kd.syncthreads()",
    "if t > 3:\n    return\nkd.syncthreads()",
    "for i in range(n):\n    for j in range(t):\n        pass\n    kd.syncthreads()",
    "a = 0 < n < kd.syncthreads_count(1)",
]


@pytest.mark.parametrize("body", UNIFORM_PLACES)
def test_uniform_places(body: str, tmp_path: Path) -> None:
    assert _problems(body, tmp_path) == ()


def test_what_an_index_takes_out_of_a_tuple_of_arrays_varies_in_shape(tmp_path: Path) -> None:
    body = "for i in range(pair[t % 2].size):\n    kd.syncthreads()\n"
    kernel = load_kernels(kernel_text(body, ("pair",)), tmp_path)["kernel"]
    assert barriers_of(kernel, "int64[:, ::1]").problems == ()
    assert len(barriers_of(kernel, "(int64[:, ::1], int64[:, ::1])").problems) == 1


def test_a_number_does_not_overlap_an_array(tmp_path: Path) -> None:
    body = "y[t] = 1\nfor i in range(n + 1):\n    kd.syncthreads()\n"
    assert _facts(body, tmp_path).problems_if_overlapping == ()


def test_a_reduction_may_read_an_overlapping_argument(tmp_path: Path) -> None:
    body = "y[t] = 1\nif x.sum() > 3:\n    kd.syncthreads()\n"
    facts = _facts(body, tmp_path)
    assert facts.problems == ()
    assert len(facts.problems_if_overlapping) == 1
    assert facts.overlap_matters


def test_contents_of_an_own_array_are_not_proved_but_may_agree(tmp_path: Path) -> None:
    (problem,) = _problems(LOCAL + "for v in mine:\n    if v:\n        kd.syncthreads()", tmp_path)
    assert not problem.is_provable
    assert "a thread's own array" in "\n".join(problem.chain)


# -- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "value"), _rows(UNIFORM))
def test_threads_agree_on_what_is_uniform(before: str, value: str, tmp_path: Path) -> None:
    compared = run_recorded(kernel_text(_guarded(before, value)), tmp_path)
    assert compared is not None
    assert compared > 0


@pytest.mark.parametrize("body", UNIFORM_PLACES)
def test_threads_meet_at_uniform_places(body: str, tmp_path: Path) -> None:
    assert run_recorded(kernel_text(body), tmp_path) is not None


@pytest.mark.parametrize(("before", "value"), _rows(VARYING))
def test_threads_agree_on_what_else_is_uniform(before: str, value: str, tmp_path: Path) -> None:
    assert run_recorded(kernel_text(f"{before}\nprobe = {value}"), tmp_path) is not None


class _Writer:
    """Writes random statements over a few numbers, views, and memory of each kind.

    A form is a function, so that of all forms only the chosen one is written.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int = 2) -> str:
        atoms = ["t", "n", "a", "b", "c", "2", "5", "x.size", "v.size", "w.size", "len(v)"]
        part, array = partial(self.number, depth - 1), self.array
        compound: list[Callable[[], str]] = [
            lambda: f"({part()} + {part()})",
            lambda: f"({part()} * {part()} % 11)",
            lambda: f"min({part()}, {part()})",
            lambda: f"({part()} if {part()} > {(bound := part())} else {bound})",
            lambda: f"({part()} and {part()})",
            lambda: f"({part()} < {part()} < {part()})",
            lambda: f"({part()}, {part()})[{part()} % 2]",
            lambda: f"{array()}[{part()} % 4]",
            lambda: f"{array()}.sum()",
            lambda: f"np.sum({array()})",
            lambda: f"({part()} in {array()})",
            lambda: f"q[{part()} % 4, {part()} % 8]",
            lambda: f"q[{part()} % 4].size",
            lambda: f"{array()}[{part()} % 3:].size",
            lambda: f"({array()}, {array()})[{part()} % 2].size",
            lambda: f"early({part()})",
            lambda: f"from_loop({part()}, {part()} % 5)",
            lambda: f"element({array()}, {part()} % 4)",
            lambda: f"extent({array()})",
            lambda: f"changes_argument({part()})",
            lambda: f"plain_sum_of({part()}, {part()})",
            lambda: f"plain_total({array()})",
        ]
        chosen = self.random.choice([*atoms, *(compound if depth else ())])
        return chosen if isinstance(chosen, str) else chosen()

    def array(self) -> str:
        return self.random.choice(["x", "y", "s", "mine", "y[1:6]", "s.T"])

    def statement(self, depth: int, in_loop: bool) -> list[str]:
        name, number, array = self.random.choice("abc"), self.number, self.array
        forms: list[Callable[[], list[str]]] = [
            lambda: [f"{name} = {number()} % 16"],
            lambda: [f"{name} += {number()} % 4"],
            lambda: [f"a, b = {number(1)}, {number(1)}"],
            lambda: [f"b, c = {array()}[:2]"],
            lambda: [f"(a, b), c = ({number(0)}, {number(0)}), {number(0)}"],
            lambda: [f"v = {array()}[{number(1)} % 3:]"],
            lambda: [f"w = v if {number(1)} > 3 else y"],
            lambda: ["v, w = w, v"],
            lambda: [f"{array()}[{number(1)} % 4] = {number(1)}"],
            lambda: [f"kd.atomic.add({array()}, {number(0)} % 4, 1)"],
            lambda: [f"put({array()}, {number(0)} % 4, {number(0)})"],
            lambda: ["kd.syncthreads()"],
            lambda: ["kd.syncthreads()"],
            lambda: [f"{name} = kd.syncthreads_count({number(1)} > 3) + s[0]"],
        ]
        if in_loop:
            jump = self.random.choice(["break", "continue"])
            forms += [lambda: [f"if {number(1)} > 4:", f"    {jump}"]]
        if depth:
            inner = partial(self.block, depth - 1, in_loop)
            looped = partial(self.block, depth - 1, True)
            forms += [
                lambda: [f"if {number(1)} > 4:", *inner()],
                lambda: [f"if {number(1)} > 4:", *inner(), "else:", *inner()],
                lambda: [f"for {name} in range({number(1)} % 4):", *looped()],
                lambda: [f"for {name} in {array()}:", *looped()],
                lambda: [f"for a, b in enumerate({array()}):", *looped()],
                lambda: [f"for a, b in zip({array()}, {array()}):", *looped()],
                lambda: [f"for {name} in ({number(0)}, {number(0)}):", *looped()],
                lambda: [f"if {number(1)} > 9:", "    return"],
            ]
        return self.random.choice(forms)()

    def block(self, depth: int, in_loop: bool) -> list[str]:
        count = self.random.randint(1, 4)
        lines = [line for _ in range(count) for line in self.statement(depth, in_loop)]
        return ["    " + line for line in lines]

    def program(self) -> str:
        start = [
            "s = kd.shared.array(8, np.int64)",
            "s[t] = t",
            "s[t + 2] = 1",
            "mine = kd.local.array(8, np.int64)",
            "for k in range(8):",
            "    mine[k] = t * k",
            "a, b, c = 0, n, 1",
            "v, w = x, y",
            "kd.syncthreads()",
        ]
        body = [line for _ in range(8) for line in self.statement(2, in_loop=False)]
        return "\n".join([*start, *body])


def test_threads_agree_in_random_programs(tmp_path: Path) -> None:
    count = examples(300)
    compared = accepted = 0
    for seed in range(count):
        found = run_recorded(kernel_text(_Writer(seed).program()), tmp_path)
        if found is not None:
            accepted += 1
            compared += found
    assert accepted > count // 3
    assert compared > 16 * count
