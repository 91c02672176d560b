"""``python -m benchmarks``: one cell, or a matrix of them."""

import sys

from benchmarks.run import main

sys.exit(main())
