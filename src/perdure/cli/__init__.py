"""The command `perdure`. It meets the library through `operations` and `views` only.

Importing this costs next to nothing: the verbs' signatures come with `application`, everything else when a verb runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code; docs/reference/cli.md lists them."""
    from perdure.cli import exits, leaving, terminal

    terminal.prepare()
    sys.excepthook = exits.report_bug
    try:
        from perdure.cli.application import app

        given = map(terminal.as_text, sys.argv[1:]) if arguments is None else arguments
        app(args=list(given), prog_name="perdure")
    except exits.EXPECTED as error:
        return exits.report(error)
    except KeyboardInterrupt:
        return exits.PAUSED
    except SystemExit as ended:
        return exits.code_of_exit(ended)
    finally:
        leaving.wait_for_threads()
    return exits.DONE
