"""Tile operations. An expression of elements is a region with an argument for each tile."""

from __future__ import annotations

import ast

from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.reader import NotReadError, Reader
from kerneldsl.ir.operations import Effect, Region, Value
from kerneldsl.lowering.tile_types import NumbaTile
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.typing_rules import typing_rule

__all__ = ["read_tile"]


def read_tile(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value | None:
    assert isinstance(node.func, ast.Name)
    reserved = node.func.id
    kind, static = use.intrinsic.name.partition(".")[2], use.static
    match kind:
        case "load":
            array, other, *at = (reader.value(each) for each in node.args)
            dtype = element_type(static["dtype"]) if "dtype" in static else array.type.dtype
            made = reader.add(
                "tile.load",
                [array, reader.cast(other, dtype), *at],
                (NumbaTile(static["shape"], dtype),),
                {"shape": static["shape"], "reserved": reserved},
                effect=Effect.READ | Effect.BLOCK,
            )
            return made.result
        case "element":
            tile = reader.value(node.args[0])
            assert reader.elements is not None
            assert reader.element_region is not None
            if tile not in reader.elements:
                argument = Value(tile.type.dtype, reader.element_region, tile.name)
                reader.element_region.arguments.append(argument)
                reader.elements[tile] = argument
            return reader.elements[tile]
        case "cast":
            return reader.cast(reader.value(node.args[0]), element_type(static["dtype"]))
        case "each":
            tiles, region, value = each_element(reader, node.args[0])
            reader.into(region, lambda: [value])
            made = reader.add(
                "tile.map",
                tiles,
                (NumbaTile(static["shape"], value.type),),
                {"shape": static["shape"], "reserved": reserved},
                [region],
                Effect.BLOCK,
            )
            return made.result
        case "sum" | "max" | "min":
            if static["axis"] is not None:
                raise NotReadError("a fold along an axis")
            tiles, region, value = each_element(reader, node.args[0])
            result = typing_rule(use.intrinsic)((value.type,), static).return_type
            reader.into(region, lambda: [reader.cast(value, result)])
            made = reader.add(
                "tile.fold",
                tiles,
                (result,),
                {"fold": kind, "shape": static["shape"], "reserved": reserved},
                [region],
                Effect.BLOCK,
            )
            return made.result
        case "store":
            array, *at = (reader.value(each) for each in node.args[:-1])
            tiles, region, value = each_element(reader, node.args[-1])
            reader.into(region, lambda: [reader.cast(value, array.type.dtype)])
            reader.add(
                "tile.store",
                [array, *at, *tiles],
                (),
                {"shape": static["shape"], "reserved": reserved},
                [region],
                Effect.WRITE | Effect.BLOCK,
            )
            return None
    raise NotReadError(use.intrinsic.name)


def each_element(reader: Reader, node: ast.expr) -> tuple[list[Value], Region, Value]:
    """Read an expression of elements into a region with an argument for each tile."""
    region = Region()
    outer = reader.elements, reader.element_region
    reader.elements, reader.element_region = {}, region
    found: list[Value] = []

    def read() -> None:
        found.append(reader.value(node))

    reader.into(region, read)
    tiles = list(reader.elements)
    reader.elements, reader.element_region = outer
    return tiles, region, found[0]
