"""Settings, locks, text and imports, for every other package; nothing of kernels."""
