"""The version, and those of other packages that it is tested with; the build reads the first."""

__version__ = "0.1.0"

#: Distribution to the first version that serves and the first that is untested, as in the
#: project's metadata (a test compares the two).
TESTED_RANGES: dict[str, tuple[str, str | None]] = {
    "numba": ("0.68", "0.69"),
    "llvmlite": ("0.50", "0.51"),
    "numpy": ("2.0", "2.6"),
    "typer": ("0.16", None),
    "rich": ("13.9", None),
    "psutil": ("6.0", None),
    "platformdirs": ("4.3", None),
}
