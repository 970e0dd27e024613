"""wide - the wide-area network of deploy/multi-region, for clusters of several regions."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "multi-region" / "wan.py"

spec = importlib.util.spec_from_file_location("wan", PATH)
wan = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wan)
