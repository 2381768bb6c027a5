"""`python -m placet.demos.ops` is `placet demo`."""

import sys

from placet.demos.ops.program import main

sys.exit(main())
