"""The benchmarks work: a few rows, for a moment, and nothing about how fast."""

import json
import os
import subprocess
import sys

from harness import scaled

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "tests", "bench", "bench.py")
ATTEMPTS = 8


def bench(*arguments, within_s=300):
    return subprocess.run([sys.executable, "-B", BENCH, *arguments], capture_output=True, text=True, check=False,
                          timeout=scaled(within_s))


def test_the_benchmarks_measure_each_row_beside_its_peer(tmp_path):
    """Echo, checks at their decider and elsewhere, batches and libtidegate: all are answered, and told in both forms."""
    out = tmp_path / "bench.json"
    for _ in range(ATTEMPTS):
        done = bench("--quick", "--only", "sync,workloads", "--out", str(out))
        lines = {line["what"].split(" (")[0].split(",")[0]: line for line in json.loads(out.read_text())["lines"]}
        if done.returncode == 0 and all(line["found"] > 0 for line in lines.values()):
            break  # else this machine did not run them for the moment that a row lasts
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(lines) == {"p50 at the decider", "p50 not at the decider", "uniform", "Zipf 0.99", "one hot key",
                          "all denied", "libtidegate"}
    for what, line in lines.items():
        assert line["found"] > 0, what
        assert 0 < line["latency_us"]["p50"] <= line["latency_us"]["p99"] <= line["latency_us"]["p999"], what
        assert line["verdict"] in ("", "kept", "FALLS SHORT"), what
        assert f"| {line['row']} " in done.stdout and what in done.stdout
    assert lines["p50 at the decider"]["ratio"] == lines["p50 at the decider"]["found"] / lines["p50 at the decider"]["peer_found"]


def test_a_row_that_nobody_knows_is_named_with_those_that_there_are():
    """A mistyped row is no empty table."""
    done = bench("--only", "sinc")
    assert done.returncode == 64
    assert "no row sinc" in done.stdout and "sync" in done.stdout
