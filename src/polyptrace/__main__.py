"""`python -m polyptrace`: the same as the command `polyptrace`."""

from polyptrace.cli import main

main()
