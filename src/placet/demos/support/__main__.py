"""`python -m placet.demos.support` is `placet demo support`."""

import sys

from placet.demos.support.program import main

sys.exit(main())
