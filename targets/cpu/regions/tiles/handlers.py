"""The handler of each operation on tiles."""

from __future__ import annotations

from targets.cpu.regions.tiles import elements, folds, memory, products, scans, sorts

__all__ = ["HANDLERS"]

HANDLERS = {
    "tile.argsort": sorts.write_argsort,
    "tile.copy": elements.write_copy,
    "tile.fold": folds.write_fold,
    "tile.load": memory.write_load,
    "tile.mma": products.write_mma,
    "tile.map": elements.write_map,
    "tile.place": memory.write_start,
    "tile.scan": scans.write_scan,
    "tile.sort": sorts.write_sort,
    "tile.store": memory.write_store,
    "tile.take": elements.write_taken,
}
