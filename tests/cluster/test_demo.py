"""The demo as users run it, and its judgement fed with figures that no limiter may produce."""

import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "deploy", "demo")
BUILD = os.path.join(ROOT, os.environ.get("TIDEGATE_BUILD", "build"))
SECONDS, LOAD = 3, 20  # all rules are asked for more than they allow, by clients that leave other tests some room
END_WITHIN_S = 300
ATTEMPTS = 8
NS = 1_000_000_000
START = 1_700_000_000 * NS  # at the beginning of a window of 10 s


@pytest.fixture(scope="module")
def demo():
    """deploy/demo as a module."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader = importlib.machinery.SourceFileLoader("tidegate_demo", DEMO)
    spec = importlib.util.spec_from_loader("tidegate_demo", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


# --- the program -----------------------------------------------------------------------------------


class Run:
    """One demo whose processes are known by a mark in their environment, which children inherit."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = f"TIDEGATE_DEMO_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen([sys.executable, "-u", DEMO, "--seconds", str(SECONDS), "--load", str(LOAD), BUILD], text=True,
                                        env={**os.environ, name: value, "TMPDIR": str(folder)},
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.watchdog = threading.Timer(END_WITHIN_S, self.process.terminate)
        self.watchdog.start()

    def end(self):
        """(exit status, the rest of its output)."""
        try:
            output, _ = self.process.communicate(timeout=END_WITHIN_S + 30)
            return self.process.returncode, output
        finally:
            self.watchdog.cancel()

    def processes(self):
        """The command lines of everything it started that still runs."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    marked = self.mark.encode() in file.read().split(b"\0")
                if marked:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        found.append(file.read().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it ended meanwhile
        return found


def test_the_demo_shows_every_promise_kept_and_leaves_nothing(tmp_path, demo):
    for _ in range(ATTEMPTS):
        run = Run(tmp_path)
        status, output = run.end()
        if status != demo.STARVED:
            break
    assert status == 0, output
    assert "Every key of every rule got what its rule promises." in output
    assert max(map(len, output.splitlines())) <= 100
    assert "\033" not in output
    assert run.processes() == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(tmp_path, number):
    run = Run(tmp_path)
    line = ""
    while "clients ask" not in line:
        line = run.process.stdout.readline()
        assert line != "", "the demo ended before its load began"
    assert len(run.processes()) >= 4
    run.process.send_signal(number)
    status, output = run.end()
    assert status == 130, output
    assert run.processes() == []
    assert os.listdir(tmp_path) == []


def test_the_demo_fails_without_programs(tmp_path):
    done = subprocess.run([sys.executable, DEMO, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not built" in done.stderr


# --- the judgement -----------------------------------------------------------------------------------


def key_of(demo, sent, allowed, last_s=8.0, denied_s=None, gap_s=0.01, undecided=0, first_s=0.0):
    """A key asked from `first_s` to `last_s`, and denied from denied_s[0] to denied_s[1]."""
    key = demo.Key()
    denied = sent - allowed - undecided
    first, last = denied_s or (0, 0)
    key.add(sent, allowed, denied, undecided, START + int(first_s * NS), START + int(last_s * NS),
            START + int(first * NS), START + int(last * NS), int(gap_s * NS))
    return key


def accepted(demo, limits, sent, **arguments):
    """The numbers of allowed requests that pass as kept."""
    lowest = 0 if "denied_s" in arguments else sent
    return [allowed for allowed in range(lowest, sent + 1)
            if not demo.broken_keys(limits, {0: key_of(demo, sent, allowed, **arguments)})]


def test_a_rolling_log_allows_its_count_exactly(demo):
    limits = [demo.limit("sliding_log", 5, "h"), demo.limit("token_bucket", 30, "24h")]
    assert accepted(demo, limits, 40, denied_s=(0.1, 7.9)) == [5]


def test_a_bucket_gains_its_rate_and_no_more(demo):
    limits = [demo.limit("token_bucket", 50, "s", burst=100)]
    assert accepted(demo, limits, 900, denied_s=(0.5, 7.5)) == list(range(100 + 350 - 1, 100 + 400 + 1))


def test_a_bucket_that_could_fill_between_denials_must_only_have_been_emptied(demo):
    limits = [demo.limit("token_bucket", 50, "s", burst=100)]
    assert accepted(demo, limits, 900, denied_s=(0.5, 7.5), gap_s=1.98)[0] == 100


def test_denials_that_several_clients_saw_join_into_one_span(demo):
    key = demo.Key()
    for first, last in ((5, 8), (1, 4), (3, 6)):
        key.add(10, 0, 10, 0, START, START + 8 * NS, START + first * NS, START + last * NS, 0)
    assert key.saturated_ns(NS) == 7 * NS
    key.denials.remove((START + 3 * NS, START + 6 * NS, 0))
    assert key.saturated_ns(NS) == 3 * NS


def test_a_fixed_window_allows_its_count_in_each_window(demo):
    limits = [demo.limit("fixed_window", 20, "10s")]
    inside = {"first_s": 1, "last_s": 9}
    assert accepted(demo, limits, 90, denied_s=(2, 8.9), **inside) == [20]
    across = {"first_s": 6, "last_s": 14}
    assert accepted(demo, limits, 90, denied_s=(7, 13.9), **across) == [40]
    assert accepted(demo, limits, 90, denied_s=(7, 9.5), **across) == list(range(20, 41))


def test_a_sliding_window_frees_what_the_previous_weight_loses(demo):
    limits = [demo.limit("sliding_window", 100, "10s")]
    assert accepted(demo, limits, 300, denied_s=(2, 8.9), first_s=1, last_s=9) == [100]
    assert accepted(demo, limits, 300, denied_s=(7, 13.9), first_s=6, last_s=14) == [138, 139, 140]


def test_a_key_below_its_limit_may_not_be_denied(demo):
    limits = [demo.limit("token_bucket", 50, "s", burst=100)]
    assert demo.broken_keys(limits, {0: key_of(demo, 60, 59, denied_s=(3, 3))})
    assert not demo.broken_keys(limits, {0: key_of(demo, 60, 60)})


def test_a_request_without_a_decision_may_have_been_charged(demo):
    limits = [demo.limit("sliding_log", 5, "h")]
    assert accepted(demo, limits, 40, denied_s=(0.1, 7.9), undecided=1)[:2] == [4, 5]
    assert 6 not in accepted(demo, limits, 40, denied_s=(0.1, 7.9), undecided=1)


def test_a_count_that_does_not_add_up_is_broken(demo):
    limits = [demo.limit("sliding_log", 5, "h")]
    key = key_of(demo, 40, 5, denied_s=(0.1, 7.9))
    key.denied -= 1
    assert demo.broken_keys(limits, {0: key})


def report_with(demo, allowed_of_one_phone):
    """Two clients' reports in which every rule is kept, but for one phone perhaps."""
    report = demo.Report([rule.name for rule in demo.RULES])
    for client in range(2):
        lines = [f"key {rule.name} 1 2 2 0 0 {START} {START + NS} 0 0 0" for rule in demo.RULES]
        if client:
            denied = 9 - allowed_of_one_phone
            lines.append(f"key signup-per-phone 0 9 {allowed_of_one_phone} {denied} 0 {START} {START + NS} "
                         f"{START} {START + NS} {NS}")
        report.add("\n".join([*lines, "latency 100 7", f"run {START} {START + NS} 0"]))
    return report


@pytest.mark.parametrize("allowed, kept", [(4, False), (5, True), (6, False)])
def test_one_wrong_key_breaks_the_verdict(demo, capsys, allowed, kept):
    assert demo.verdict(report_with(demo, allowed)) is kept
    assert ("1 BROKEN" in capsys.readouterr().out) is not kept


def test_a_client_that_was_cut_short_is_noticed(demo):
    with pytest.raises(demo.DemoFailed):
        demo.Report([rule.name for rule in demo.RULES]).add(f"key upload 0 1 1 0 0 {START} {START} 0 0 0\n")
