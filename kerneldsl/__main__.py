"""``python -m kerneldsl`` is the command line."""

from kerneldsl.tools.cli import main

if __name__ == "__main__":
    main()
