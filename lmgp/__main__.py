"""Lets ``python -m lmgp`` stand for the command ``lmgp``."""

import sys

from lmgp.cli import main

sys.exit(main())
