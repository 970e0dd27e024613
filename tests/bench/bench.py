#!/usr/bin/python3
"""bench.py - the promises S1 to S9, each figure beside a peer that was measured in the same rounds; `make bench`.

Usage: bench.py [--only ROW,ROW...] [--rounds N] [--quick] [--out FILE] [--list]

Prints one table in Markdown, and writes everything, every round and every histogram, to bench.json beside the programs
(build/release/bench.json). A line says which promise falls short. Exit status: 0, whatever the figures are, for a busy
machine is no defect; 1 when something could not be measured that this build should be able to do.

1. What is compared is measured in turns: a round is one run of each side, and a line the median of its rounds.
2. Whatever runs is ended, whatever happens: contexts here, a death signal where this process is killed.
3. Nothing is set differently from what a user gets, but for --memory, which has to hold the keys.

--quick runs every row but `memory` once, for a moment, among few keys: it says that the benchmarks work, and nothing of
speed.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

import rows_box  # noqa: E402 - they need the harness of the cluster tests
import rows_gubernator  # noqa: E402
import rows_http  # noqa: E402
import rows_node  # noqa: E402
import rows_overload  # noqa: E402
import rows_program  # noqa: E402
import rows_redis  # noqa: E402
import rows_rls  # noqa: E402
from harness import program  # noqa: E402
from report import Report  # noqa: E402

ROUNDS = 5
ROWS = {**rows_program.ROWS, **rows_node.ROWS, **rows_redis.ROWS, **rows_http.ROWS, **rows_rls.ROWS, **rows_gubernator.ROWS,
        **rows_overload.ROWS, **rows_box.ROWS}
ORDER = ["engine", "core", "scaling", "memory", "sync", "batches", "resp64", "resp1", "http", "auth", "rls", "gubernator",
         "lease", "workloads", "forwarded", "replicas", "writeback", "shards", "overload", "small"]


class Bench:
    """What a row needs: where to put things, how long to measure, whom to tell."""

    def __init__(self, report, stack, folder, rounds, quick):
        self.report = report
        self.stack = stack
        self.folder = folder
        self.rounds = rounds
        self.quick = quick
        self.keys = 20000 if quick else 1000000
        self.memory = ["--memory", "64M" if quick else "512M"]

    def seconds(self, usual):
        """How long one side of a round is measured."""
        return 0.05 if self.quick else usual

    def in_turns(self, sides):
        """Runs each side once a round: name -> what its rounds found."""
        found = {name: [] for name in sides}
        for _ in range(self.rounds):
            for name, run in sides.items():
                found[name].append(run())
        return found


def run_row(name, report, options):
    """One row with processes of its own. Returns whether it could be measured."""
    start = time.monotonic()
    print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
    try:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-"))
            ROWS[name](Bench(report, stack, folder, options.rounds, options.quick))
    except (RuntimeError, AssertionError, OSError, ValueError) as error:
        report.absent(name, "failed", str(error).replace("\n", " ")[:300])
        print(f"FAILED: {error}", file=sys.stderr, flush=True)
        return False
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="rows, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="each row once, for a moment: do the benchmarks work?")
    parser.add_argument("--out", help="where the JSON goes")
    parser.add_argument("--list", action="store_true", help="names the rows")
    options = parser.parse_args()
    usual = [name for name in ORDER if not (options.quick and name == "memory")]
    wanted = options.only.split(",") if options.only else usual
    unknown = [name for name in wanted if name not in ROWS]
    if options.list or unknown:
        print("\n".join([f"no row {name}" for name in unknown] + [f"{name:10} {ROWS[name].__doc__}" for name in ORDER]))
        return 64 if unknown else 0
    options.rounds = 1 if options.quick else options.rounds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    report = Report(ROOT, options.rounds, options.quick)
    measured = [run_row(name, report, options) for name in wanted]
    report.about["load_after"] = os.getloadavg()[0]
    path = options.out or os.path.join(os.path.dirname(os.path.realpath(program("tidegated"))), "bench.json")
    report.write(path)
    print(report.table())
    print(f"written to {os.path.relpath(path)}")
    return 0 if all(measured) else 1


if __name__ == "__main__":
    sys.exit(main())
