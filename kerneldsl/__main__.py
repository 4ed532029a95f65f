"""``python -m kerneldsl`` is the command line."""

from kerneldsl.cli import main

if __name__ == "__main__":
    main()
