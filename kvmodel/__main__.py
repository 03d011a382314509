"""`python -m kvmodel`: see :mod:`kvmodel.cli`."""

import sys

from kvmodel.cli import main

if __name__ == "__main__":
    sys.exit(main())
