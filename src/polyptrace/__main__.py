"""`python -m polyptrace`, which torchrun needs."""

from polyptrace.cli import main

if __name__ == "__main__":
    main()
