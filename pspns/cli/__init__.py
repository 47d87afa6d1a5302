"""The `pspns` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors that users can mend are printed without a traceback."""
    from pspns.cli.app import app
    from pspns.cli.screen import complain
    from pspns.errors import PspnsError

    try:
        app()
    except PspnsError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader has gone (`pspns list models | head`); Unix tools end quietly then.
        sys.stderr.close()
        sys.exit(141)
