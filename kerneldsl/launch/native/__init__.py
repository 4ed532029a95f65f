"""Launches without Python: one native function, and a table for each launch that is repeated.

A launch is first made by :mod:`kerneldsl.launch.dispatch`. When it is repeated,
:mod:`~kerneldsl.launch.native.prepare` writes down what the dispatcher found in a table
(:mod:`~kerneldsl.launch.native.launch_table`), with everything on which that depends. From then on
the native function (:mod:`~kerneldsl.launch.native.emit`), which takes the launch's calls,
compares, packs and starts the kernel. Whatever does not fit a table goes to Python, which owns
dispatch and every error message.

The function is written with llvmlite, so that no C compiler is needed. It reads objects where
CPython and NumPy keep them (:mod:`~kerneldsl.launch.native.layout`), which is tried out at the
first use. All but :mod:`~kerneldsl.launch.native.vectorcall` is imported when a launch has been
repeated some times.
"""
