"""`python -m pspns` is the `pspns` command."""

from pspns.cli import main

main()
