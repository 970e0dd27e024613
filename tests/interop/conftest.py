"""Hooks and fixtures of tests with nodes; the readers of documents are found here as well."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(HERE, "..", folder) for folder in ("cluster", "docs", "lint"))]

from harness.plugin import *  # noqa: E402,F401,F403 - pytest takes hooks and fixtures by their names here
