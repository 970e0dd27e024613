"""bench_replay.py - how fast `tidegate replay` reads a log of a million lines that nginx wrote under wrk.

Usage: tests/bench/bench_replay.py [LINES]

Beside it, on the same file and in turns, what people do by hand: awk counting requests by address, which decides
nothing. Medians of five rounds; the promise is a million lines in less than 5 s.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import nginx_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("TIDEGATE_BUILD", "build") / "tidegate"
ROUNDS = 5
PROMISE_S = 5.0

RULES = """
rules:
  - {name: static, priority: 9, match: {api: /static/*}, action: allow}
  - {name: signup, match: {api: /user/v1/*}, key: [ip], limits: [{rate: 50/h, algorithm: sliding_log}, {rate: 300/24h}]}
  - {name: search, match: {api: /search/*}, key: [ip], limits: [{rate: 100/min, burst: 20}]}
  - {name: all, shadow: true, key: [ip, method], limits: [{rate: 1000/h, algorithm: sliding_window}]}
"""


def measure(command):
    """Wall seconds, processor seconds and peak memory in MiB of one run."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1000000
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        log, rules = pathlib.Path(name) / "access.log", pathlib.Path(name) / "rules.yaml"
        nginx_log.make_log(log, lines)
        rules.write_text(RULES)
        size = log.stat().st_size / (1 << 20)
        commands = {"replay": [PROGRAM, "replay", log, "--rules", rules],
                    "replay --suggest": [PROGRAM, "replay", log, "--rules", rules, "--suggest", "0.1%"],
                    "awk, counting": ["awk", "{n[$NF]++} END {for (a in n) print n[a], a}", log]}
        runs = {what: [] for what in commands}
        for _ in range(ROUNDS):
            for what, command in commands.items():
                runs[what].append(measure(command))
    print(f"replay of {lines:,} lines of nginx, {size:.0f} MiB, medians of {ROUNDS}:")
    medians = {what: [statistics.median(column) for column in zip(*found)] for what, found in runs.items()}
    for what, (wall, processor, memory) in medians.items():
        print(f"  {what:18} {wall:6.2f} s   processor {processor:6.2f} s   {lines / wall / 1e6:5.2f} M lines/s   "
              f"{memory:6.0f} MiB   {wall / medians['awk, counting'][0]:5.2f} x awk")
    if lines == 1000000 and medians["replay"][0] >= PROMISE_S:
        print(f"  falls short of the promise: {PROMISE_S:.0f} s")


if __name__ == "__main__":
    main()
