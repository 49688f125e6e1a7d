"""`python -m uttermill.flows.cli` is `uttermill`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
