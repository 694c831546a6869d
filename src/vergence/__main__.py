"""``python -m vergence``: the command line."""

import sys

from vergence.cli import main

sys.exit(main())
