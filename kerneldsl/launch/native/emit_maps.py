"""Native code that writes tensor maps after the packed arguments of a launch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.contract.tensor_maps import L2_PROMOTION, MAX_MAP_RANK, TENSOR_MAP_BYTES
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.launch.native.map_records import KEY_WORDS, MAP_WORDS, MapWord

__all__ = ["emit_maps"]

_DOUBLE_WORDS = TENSOR_MAP_BYTES // 8


def emit_maps(module: ir.Module) -> Any:
    """Emit ``i32 maps(ptr records, i64 count, i64 encode, ptr buffer)``: 1 where all are written.

    A map is encoded if its array is not the one that it was encoded for last.
    """
    f = Function(module, "maps", I32, [POINTER, I64, I64, POINTER], is_internal=True)
    records, count, encode, buffer = f.args
    bad = f.block("bad")
    key, room = f.b.alloca(I64, size=KEY_WORDS), f.b.alloca(I64)
    with f.loop(count) as i:
        record = f.at(records, f.b.mul(i, I64(8 * MAP_WORDS)))
        _read_key(f, record, buffer, key, room)
        known = f.load(record, 8 * MapWord.KEY, POINTER)
        image = f.load(record, 8 * MapWord.IMAGE, POINTER)
        anew, ready = f.block("anew"), f.block("ready")
        f.b.cbranch(_are_equal(f, key, known, room), ready, anew)
        f.b.position_at_end(anew)
        f.store(I64(0), known)  # no array is at that address
        extents, strides = f.at(key, 8), f.at(key, 8 * (1 + MAX_MAP_RANK))
        status = f.call(
            encode,
            I32,
            image,
            *(_number(f, record, which) for which in (MapWord.DTYPE, MapWord.RANK)),
            *(f.load(key, 0, POINTER), extents, strides),
            *(f.load(record, 8 * which, POINTER) for which in (MapWord.BOX, MapWord.ONES)),
            *(I32(0), _number(f, record, MapWord.SWIZZLE), I32(L2_PROMOTION), I32(0)),
        )
        f.require(f.equal(status, I32(0)), bad)
        f.copy_words(known, key, I64(KEY_WORDS))
        f.b.branch(ready)
        f.b.position_at_end(ready)
        place = f.at(buffer, f.load(record, 8 * MapWord.PLACE))
        f.copy_words(place, image, I64(_DOUBLE_WORDS))
    return f.accept(bad)


def _number(f: Function, record: Any, which: MapWord) -> Any:
    return f.b.trunc(f.load(record, 8 * which), I32)


def _read_key(f: Function, record: Any, buffer: Any, key: Any, step: Any) -> None:
    """Write address, extents and strides of a map's array; what it has no axis for is 0."""
    with f.loop(I64(KEY_WORDS)) as i:
        f.store(I64(0), key, f.b.mul(i, I64(8)))
    f.store(f.load(f.at(buffer, f.load(record, 8 * MapWord.POINTER))), key)
    extents, strides = f.at(key, 8), f.at(key, 8 * (1 + MAX_MAP_RANK))
    f.store(f.load(record, 8 * MapWord.ITEM_BYTES), step)
    rank = f.load(record, 8 * MapWord.RANK)
    last = f.b.sub(rank, I64(1))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        extent = f.load(f.at(buffer, f.load(f.at(record, at), 8 * MapWord.EXTENTS)))
        f.store(extent, extents, at)
        f.store(f.b.mul(f.load(step), extent), step)
        with f.b.if_then(f.b.icmp_signed("<", i, last)):
            offset = f.load(f.at(record, at), 8 * MapWord.STRIDES)
            passed = f.load(f.at(buffer, offset))
            is_passed = f.b.icmp_unsigned("!=", offset, I64(0))
            f.store(f.b.select(is_passed, passed, f.load(step)), strides, at)


def _are_equal(f: Function, one: Any, other: Any, difference: Any) -> Any:
    """Return whether two keys are equal."""
    f.store(I64(0), difference)
    with f.loop(I64(KEY_WORDS)) as i:
        at = f.b.mul(i, I64(8))
        found = f.b.xor(f.load(one, at), f.load(other, at))
        f.store(f.b.or_(f.load(difference), found), difference)
    return f.equal(f.load(difference), I64(0))
