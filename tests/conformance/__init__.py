"""One suite over the targets; the cases are in ``kernels``.

``KERNELDSL_CONFORMANCE_TARGETS=mine`` runs it on a target of a third party, by the name it has in
the entry-point group ``kerneldsl.targets``. ``KERNELDSL_REQUIRE_GPU=1`` makes a missing GPU a
failure. ``KERNELDSL_TEST_SEED`` gives the random inputs of a failed run again.
"""
