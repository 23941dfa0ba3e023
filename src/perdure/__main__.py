"""`python -m perdure`: the command, where no `perdure` is on the path. Nothing else is in here."""

from __future__ import annotations

import sys

from perdure.cli import main

if __name__ == "__main__":
    sys.exit(main())
