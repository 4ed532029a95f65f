"""Compiled kernels that a package ships: written by ``kerneldsl build``, found by `load_package`.

``docs/adr/0037-shipped-code-is-keyed-by-what-it-depends-on.md`` describes the format. Code is found
by a :mod:`~kerneldsl.shipping.key`. A :mod:`~kerneldsl.shipping.manifest` lists the files, which
:mod:`~kerneldsl.shipping.writer` writes. :mod:`~kerneldsl.shipping.packages` has the packages of
this process.
"""
