"""The documentation site, built and walked through in a browser: ``make site-walk``."""
