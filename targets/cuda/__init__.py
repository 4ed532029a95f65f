"""NVIDIA GPUs: Numba types and lowers, LLVM's NVPTX back end writes PTX, the driver runs it.

The way of a kernel: :mod:`~targets.cuda.compile.compiler` drives
:mod:`~targets.cuda.compile.region_code`. It reads a kernel into the region IR, runs the passes of
:mod:`~targets.cuda.compile.regions`, and writes entry and body with
:mod:`~targets.cuda.intrinsics` as its vocabulary.
:mod:`~targets.cuda.compile.ptx` links, optimizes and writes it,
:mod:`~targets.cuda.compile.artifact` holds the result. :mod:`~targets.cuda.driver.driver` calls
the driver, :mod:`~targets.cuda.device.executable` is a kernel there, and
:mod:`~targets.cuda.target` fulfils the core's contract with all of it.
"""
