"""compute-sanitizer over a subset of the conformance suite, and one planted fault for each tool.

``make sanitize`` runs :mod:`tests.sanitizer.run` on a machine with a GPU. A tool that finds nothing
in :mod:`tests.sanitizer.planted` finds nothing anywhere, so that is a failure too.
"""
