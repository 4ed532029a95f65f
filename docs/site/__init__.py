"""The documentation site: ``python -m docs.site``, which ``make site`` runs.

:mod:`~docs.site.stage` lays the pages out, with the reference of :mod:`~docs.site.api` and the
examples of :mod:`~docs.site.examples`; Sphinx builds them by ``conf.py``; :mod:`~docs.site.links`
checks what was built.
"""
