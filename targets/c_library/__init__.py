"""C libraries of compiled kernels: headers, sources and a shared object, without Python.

:mod:`~targets.c_library.writer` writes them from the code of all targets, and
:mod:`~targets.c_library.declarations` the declarations of a header. ``runtime/`` contains the
sources that every such library has. :mod:`~targets.c_library.writer` calls the system's C compiler.
"""
