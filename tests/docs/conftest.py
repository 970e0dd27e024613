"""Where tests of documents find the reader of Markdown, which is lint's."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lint"))
sys.path.insert(0, HERE)
