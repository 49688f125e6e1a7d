"""`python -m flows.cli` is `uttermill`."""

import sys

from flows.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
