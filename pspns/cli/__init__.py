"""The `pspns` command."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command line; errors that users can mend are printed without a traceback."""
    # Before anything imports torch: on a shared machine, threads that spin while waiting stall each other (measured
    # on two cores with one busy neighbour: 12 ms a step spinning, 4 ms sleeping).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Like Ctrl-C, a polite request to end leaves nothing half written; 143 is what a shell expects then.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        _run()
    except KeyboardInterrupt:
        print("pspns: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader has gone (`pspns list models | head`): end quietly, and let the interpreter flush into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _run() -> None:
    from pspns.cli.app import app
    from pspns.cli.screen import complain
    from pspns.errors import PspnsError

    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that is not UTF-8 gets \xe9 for é, not a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except PspnsError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    finally:
        # Here, and not when the interpreter ends: only here a closed pipe can still be met with silence.
        sys.stdout.flush()
