"""A C program launches kernels on a GPU by the driver, without Python."""

from __future__ import annotations

from pathlib import Path

from tests.c_library.library import library_of_kernels, link_program, run_program


def test_a_c_program_launches_on_a_gpu(tmp_path: Path) -> None:
    library_of_kernels(gpu=True).write(tmp_path)
    shown = run_program(link_program(tmp_path, "on_gpu", tmp_path / "on_gpu"))
    assert shown.splitlines() == [
        f"{name}: success right" for name in ("axpy", "sum_blocks", "share_of_all")
    ]
