"""Pairs of numbers of bits of two words are the same, computed together or each by itself."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from targets.cuda.compile.pack_halves import pack_halves
from tests.support.extent import examples

ml_dtypes = pytest.importorskip("ml_dtypes")
_VALUE = r"(?:%\S+|<[^>]*>|\S+)"


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _rounded(word: int) -> int:
    """Return the bits of the nearest bfloat of a float32."""
    return int(np.uint32(word).view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16))


def _constant(text: str) -> int:
    if text.startswith("0xR"):
        return int(text[3:], 16)
    return _bits(float(text)) if "e+" in text else int(text)


def run(body: str, words: tuple[int, int]) -> int:
    """Return the pair that a function makes of two words, as a word."""
    known: dict[str, int] = dict(zip(("%a", "%b"), words, strict=True))

    def of(text: str) -> int:
        if text.startswith("<"):
            low, high = (of(each.split()[-1]) for each in text[1:-1].split(","))
            return low | high << 16
        return known[text] if text.startswith("%") else _constant(text)

    for line in body.strip().splitlines():
        name, text = line.strip().split(" = ", 1)
        opcode, *_ = text.split()
        width = 0xFFFF if " i16 " in text else 0xFFFFFFFF
        if opcode == "insertelement":
            value, place = re.findall(rf"(?:i16|bfloat) ({_VALUE}), i32 ([01])$", text)[0]
            before = re.findall(rf"<2 x \w+> ({_VALUE}),", text)[0]
            known[name] = (0 if before == "poison" else of(before)) | of(value) << 16 * int(place)
        elif opcode == "call" and "lop3" in text:
            a, b, c = (of(each) for each in re.findall(r"i32 (%\S+?|\d+)[,)]", text))
            known[name] = (a & b) ^ c
        elif opcode == "call":
            parts = re.findall(r"<2 x bfloat> (<[^>]*>|%\S+?)[,)]", text)
            a, b, c = (of(each) for each in parts)
            total = 0
            for shift in (0, 16):
                x, y, z = (
                    np.uint32((each >> shift & 0xFFFF) << 16).view(np.float32) for each in (a, b, c)
                )
                total |= _rounded(_bits(float(np.float64(x) * y + z))) << shift
            known[name] = total
        elif opcode in ("trunc", "zext", "bitcast", "fptrunc"):
            value = of(text.split(" to ")[0].split()[-1])
            known[name] = _rounded(value) if opcode == "fptrunc" else value
            known[name] &= 0xFFFF if opcode == "trunc" else 0xFFFFFFFF
        elif opcode in ("fadd", "fsub"):
            left, right = (
                np.uint32(of(each)).view(np.float32) for each in text.split("float ")[1].split(", ")
            )
            known[name] = _bits(float(left + right if opcode == "fadd" else left - right))
        else:
            left, right = (of(each) for each in text.split(maxsplit=2)[2].split(", "))
            known[name] = (
                width
                & {
                    "lshr": left >> right % 32,
                    "shl": left << right % 32,
                    "and": left & right,
                    "or": left | right,
                    "xor": left ^ right,
                }[opcode]
            )
    return known["%out"]


def numbers(random_number: random.Random, *, is_float: bool) -> str:
    """Return a function that computes a number of each of two words, by the same steps."""
    steps = []
    for bits in (32,) if is_float else (32, 16):
        for _ in range(random_number.randrange(3)):
            step = random_number.choice(["lshr", "shl", "and", "or", "xor"])
            amount = random_number.randrange(1, 12)
            mask = random_number.getrandbits(bits) & random_number.getrandbits(bits)
            steps.append((step, bits, amount if step in ("lshr", "shl") else mask))
        if bits == 32 and not is_float:
            steps.append(("trunc", 32, 0))
    if is_float:
        # In 32 bits, or in 16 that become the upper half.
        is_short = random_number.random() < 0.5
        bits, down = (16, 16) if is_short else (32, 0)
        mask = random_number.choice([0x7F0000, 0x780000, 0x3F0000]) >> down
        power = _bits(2.0 ** random_number.randrange(1, 9)) >> down
        steps += [("trunc", 32, 0)] if is_short else []
        steps += [("and", bits, mask), ("xor", bits, power)]
        steps += [("zext", 16, 0), ("shl", 32, 16)] if is_short else []
    lines = []
    for word in "ab":
        value = f"%{word}"
        for number, (step, bits, by) in enumerate(steps):
            made = f"%{word}{number}"
            what = f"{step} i{bits} {value}"
            what += f" to i{48 - bits}" if step in ("trunc", "zext") else f", {by}"
            lines.append(f"{made} = {what}")
            value = made
        if is_float:
            lines += [
                f"%{word}f = bitcast i32 {value} to float",
                f"%{word}s = fadd float %{word}f, -2.400000e+01",
                f"%{word}n = fptrunc float %{word}s to bfloat",
            ]
            value = f"%{word}n"
        lines.append(f"%{word}v = bitcast {'bfloat' if is_float else 'i16'} {value} to i16")
    kind, low, high = ("bfloat", "%an", "%bn") if is_float else ("i16", "%av", "%bv")
    lines.append(f"%pair = insertelement <2 x {kind}> poison, {kind} {low}, i32 0")
    lines.append(f"%both = insertelement <2 x {kind}> %pair, {kind} {high}, i32 1")
    lines.append(f"%out = bitcast <2 x {kind}> %both to i32")
    return "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize("is_float", [False, True])
def test_pairs_are_the_same(is_float: bool) -> None:
    chosen, count = random.Random(), 0

    def report(noun: str, done: str, found: int = 1, **_: object) -> None:
        nonlocal count
        count += found

    for _ in range(examples(2000)):
        body = numbers(chosen, is_float=is_float)
        head = "define void @f(i32 %a, i32 %b) {\n"
        packed = pack_halves(f"{head}{body}}}\n", report)
        own = packed.removeprefix(head).split("}\n")[0]
        for _ in range(4):
            words = chosen.getrandbits(32), chosen.getrandbits(32)
            assert run(own, words) == run(body, words), body
    assert count > 10


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("and i16 %a0, 120", "and i16 %b0, 112"),  # other bits
        ("add i16 %a0, 3", "add i16 %b0, 3"),  # carries
        ("and i16 %a0, -1", "and i16 %b0, -1"),  # of both halves, since %a0 is of bits 8 to 23
    ],
)
def test_others_are_left(low: str, high: str) -> None:
    lines = ["%aw = lshr i32 %a, 8", "%bw = lshr i32 %b, 8"]
    lines += ["%a0 = trunc i32 %aw to i16", "%b0 = trunc i32 %bw to i16"]
    lines += [f"%a1 = {low}", f"%b1 = {high}"]
    lines += ["%p = insertelement <2 x i16> poison, i16 %a1, i32 0"]
    lines += ["%q = insertelement <2 x i16> %p, i16 %b1, i32 1"]
    text = "define void @f() {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    assert pack_halves(text, lambda *_, **__: None) == text
