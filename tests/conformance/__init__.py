"""One suite over the targets; see ``kernels`` for the cases and ``docs`` for running it on yours."""
