"""`python -m kvmodel`: see :mod:`kvmodel.cli.command_line`."""

import sys

from kvmodel.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
