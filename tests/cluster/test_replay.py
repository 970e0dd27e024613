"""test_replay.py - `tidegate replay` as people run it: logs and rules in, a report out; no node is asked.

`data/replay.log` is small enough to be worked out by hand: `data/replay.txt` and `data/replay.json` are what it must
give. `data/nginx_xff.log.gz` was written by nginx under wrk (tests/bench/nginx_log.py; every 160th line of a million),
and is compared with models written here.
"""

import collections
import datetime
import fcntl
import gzip
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "cluster" / "data"
PROGRAM = ROOT / os.environ.get("TIDEGATE_BUILD", "build") / "tidegate"
OK, INVALID, USAGE, UNWRITTEN = 0, 3, 64, 74


def replay(*arguments, text=None, cwd=DATA, locale="C.UTF-8"):
    """Runs `tidegate replay`; there is no node at the endpoint that the environment names."""
    environment = dict(os.environ, LC_ALL=locale, TIDEGATE_ENDPOINT="tcp://127.0.0.1:1")
    return subprocess.run([PROGRAM, "replay", *map(str, arguments)], cwd=cwd, env=environment, input=text,
                          capture_output=True, check=False, timeout=120)


def report(*arguments, **options):
    done = replay(*arguments, "-o", "json", **options)
    assert done.returncode == OK, done.stderr
    return json.loads(done.stdout)


def rules_file(folder, text):
    path = folder / "rules.yaml"
    path.write_text(text)
    return path


def nginx_lines():
    with gzip.open(DATA / "nginx_xff.log.gz", "rt") as file:
        return file.readlines()


def nginx_requests():
    """(second, address, path) of each line, in the order of time, lines of one second as they are."""
    found = []
    for line in nginx_lines():
        when, target, address = re.match(r'\S+ - - \[(.*?)\] "GET (\S+) HTTP/1.1" .* "(.*?)"$', line).groups()
        second = datetime.datetime.strptime(when, "%d/%b/%Y:%H:%M:%S %z").timestamp()
        found.append((int(second), address, target.split("?")[0]))
    return sorted(found, key=lambda request: request[0])


# --- the whole report ---------------------------------------------------------------------------


def test_the_report_for_people_is_as_it_was_worked_out():
    done = replay("replay.log", "--rules", "replay.yaml", "--suggest", "10%")
    assert done.returncode == OK and done.stderr == b""
    assert done.stdout.decode() == (DATA / "replay.txt").read_text()


def test_the_json_report_is_as_it_was_worked_out():
    found = report("replay.log", "--rules", "replay.yaml", "--suggest", "10%")
    assert found == json.loads((DATA / "replay.json").read_text())


def test_yaml_says_what_json_says():
    done = replay("replay.log", "--rules", "replay.yaml", "-o", "yaml")
    assert done.returncode == OK
    assert yaml.safe_load(done.stdout) == report("replay.log", "--rules", "replay.yaml")


def test_a_terminal_without_utf8_gets_ascii_and_a_log_moves_no_cursor():
    done = replay("replay.log", "--rules", "replay.yaml", locale="C")
    assert done.returncode == OK
    assert all(byte == 10 or 32 <= byte < 127 for byte in done.stdout)


def test_plots_are_as_wide_as_the_terminal():
    for columns, widest in ((60, 60), (200, 95), (10, 39)):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = dict(os.environ, LC_ALL="C.UTF-8", NO_COLOR="1")
        process = subprocess.Popen([PROGRAM, "replay", "replay.log", "--rules", "replay.yaml"], cwd=DATA,
                                   env=environment, stdout=slave, stderr=subprocess.DEVNULL)
        os.close(slave)
        shown = b""
        with open(master, "rb", buffering=0) as screen:
            while True:
                try:
                    piece = screen.read(65536)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                shown += piece
        assert process.wait(30) == OK
        plots = [line for line in shown.decode().splitlines() if "\u2502" in line]
        assert plots and widest * 3 / 4 < max(map(len, plots)) <= widest


# --- a log of nginx, against models -------------------------------------------------------------


def test_a_sliding_log_denies_what_a_model_of_it_denies(tmp_path):
    rules = rules_file(tmp_path, "rules: [{name: r, match: {api: /search/*}, key: [ip], "
                                 "limits: [{rate: 5/7s, algorithm: sliding_log}]}]")
    times, denied, seen = collections.defaultdict(collections.deque), collections.Counter(), collections.Counter()
    minutes = collections.Counter()
    for second, address, path in nginx_requests():
        if path.startswith("/search/"):
            mine = times[address]
            while mine and mine[0] <= second - 7:
                mine.popleft()
            seen[address] += 1
            if len(mine) < 5:
                mine.append(second)
            else:
                denied[address] += 1
                minutes[second // 60] += 1
    found = report("nginx_xff.log.gz", "--rules", rules, "--top", "3")
    rule = found["rules"][0]
    assert found["log"]["late"] == 0 and found["log"]["unreadable"] == 0 and found["exact"]
    assert sum(denied.values()) > 100
    assert (rule["requests"], rule["denied"]) == (sum(seen.values()), sum(denied.values()))
    assert (rule["callers"], rule["callers_denied"]) == (len(seen), len(denied))
    ranked = sorted(seen, key=lambda a: (-denied[a], -seen[a], len(a).to_bytes(2, "little"), a))[:3]
    assert [(k["key"]["ip"], k["requests"], k["denied"]) for k in rule["keys"]] == \
        [(a, seen[a], denied[a]) for a in ranked]
    assert [n for n in rule["timeline"]["denied"] if n] == [minutes[m] for m in sorted(minutes)]
    assert found["all"]["denied"] == rule["denied"] and found["all"]["requests"] == len(nginx_lines())


def test_fixed_windows_and_buckets_deny_what_models_of_them_deny(tmp_path):
    rules = rules_file(tmp_path, "rules: [{name: w, shadow: true, key: [ip], limits: [{rate: 4/5s, algorithm: "
                                 "fixed_window}]}, {name: b, shadow: true, key: [ip], limits: [{rate: 2/s, burst: 9}]}]")
    windows, full = collections.Counter(), {}  # full: when the bucket is full again, in half seconds
    window_denied = bucket_denied = 0
    for second, address, _ in nginx_requests():
        windows[address, second // 5] += 1
        window_denied += windows[address, second // 5] > 4
        start = max(full.get(address, 0), 2 * second)
        if start + 1 <= 2 * second + 9:
            full[address] = start + 1
        else:
            bucket_denied += 1
    found = {rule["rule"]: rule for rule in report("nginx_xff.log.gz", "--rules", rules)["rules"]}
    assert window_denied > 100 and bucket_denied > 100
    assert found["w"]["denied"] == window_denied
    assert found["b"]["denied"] == bucket_denied


def test_calendar_days_are_those_of_the_zone_that_the_rules_name(tmp_path):
    text = ("rules: [{{name: r, key: [ip], limits: [{{rate: 3/day, algorithm: fixed_window, align: calendar, "
            "timezone: {}}}]}}]")
    lines = "".join(f'{{"ts": {1795300200 + t}, "ip": "10.0.0.1"}}\n' for t in range(0, 5400, 900)).encode()
    for zone, denied in (("Europe/Berlin", 1), ("UTC", 3)):  # from 22:30 UTC on: two before midnight in Berlin
        found = report("-", "--rules", rules_file(tmp_path, text.format(zone)), text=lines)
        assert found["rules"][0]["denied"] == denied
    done = replay("-", "--rules", rules_file(tmp_path, text.format("Europe/Nowhere")), text=lines)
    assert done.returncode == INVALID and b"Europe/Nowhere" in done.stderr


def test_a_suggested_limit_denies_as_many_as_it_says_and_one_less_denies_more(tmp_path):
    text = "rules: [{{name: r, key: [ip], limits: [{{rate: {}/10s}}]}}]"
    rule = report("nginx_xff.log.gz", "--rules", rules_file(tmp_path, text.format(50)), "--suggest", "1%")["rules"][0]
    suggested, nobody = rule["limits"][0]["suggested"], rule["limits"][0]["denies_nobody"]
    assert 0 < suggested["callers_denied"] <= rule["callers"] / 100 and nobody["callers_denied"] == 0
    denied = {}
    for count in (suggested["count"], suggested["count"] - 1, nobody["count"], nobody["count"] - 1):
        denied[count] = report("nginx_xff.log.gz", "--rules", rules_file(tmp_path, text.format(count)))["rules"][0][
            "callers_denied"]
    assert denied[suggested["count"]] == suggested["callers_denied"]
    assert denied[suggested["count"] - 1] > rule["callers"] / 100
    assert denied[nobody["count"]] == 0 and denied[nobody["count"] - 1] > 0


# --- where logs come from -----------------------------------------------------------------------


def test_a_log_is_the_same_plain_compressed_from_a_pipe_and_in_pieces_of_any_order(tmp_path):
    lines = nginx_lines()
    rules = rules_file(tmp_path, "rules: [{name: r, key: [ip], limits: [{rate: 5/10s, algorithm: sliding_log}]}]")
    (tmp_path / "all.log").write_text("".join(lines))
    (tmp_path / "access.log.1").write_text("".join(lines[2000:4000]))
    (tmp_path / "access.log").write_text("".join(lines[4000:]))
    with gzip.open(tmp_path / "access.log.2.gz", "wt") as file:
        file.write("".join(lines[:2000]))
    for server in range(3):  # lines of several servers side by side
        (tmp_path / f"server{server}.log").write_text("".join(lines[server::3]))
    whole = report(tmp_path / "all.log", "--rules", rules)
    assert whole["rules"][0]["denied"] > 100
    for logs, text in (([DATA / "nginx_xff.log.gz"], None), (["-"], "".join(lines).encode()),
                       (["-"], gzip.compress("".join(lines).encode())),
                       (["access.log", "access.log.2.gz", "access.log.1"], None),
                       (["server2.log", "server0.log", "server1.log"], None)):
        found = report(*logs, "--rules", rules, text=text, cwd=tmp_path)
        assert found["log"]["lines"] == len(lines) and found["log"]["late"] == 0
        assert found["rules"] == whole["rules"] and found["all"] == whole["all"]


def test_a_log_that_breaks_off_is_reported_as_far_as_it_goes(tmp_path):
    (tmp_path / "cut.log.gz").write_bytes((DATA / "nginx_xff.log.gz").read_bytes()[:9000])
    done = replay(tmp_path / "cut.log.gz", "--rules", "replay.yaml", "-o", "json")
    assert done.returncode == INVALID
    assert 100 < json.loads(done.stdout)["all"]["requests"] < 6000
    assert b"could not be read to its end: the compressed data are cut off" in done.stderr


# --- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, status, words", [
    (["replay.log"], USAGE, b"needs --rules FILE"),
    (["--rules", "replay.yaml"], USAGE, b"needs a LOGFILE"),
    (["nowhere.log", "--rules", "replay.yaml"], INVALID, b"cannot open nowhere.log: No such file or directory"),
    ([".", "--rules", "replay.yaml"], INVALID, b"cannot open .: it is a directory"),
    (["replay.log", "--rules", "nowhere.yaml"], INVALID, b"cannot open nowhere.yaml: No such file"),
    (["replay.yaml", "--rules", "replay.yaml"], INVALID, b"no line of the log could be read; replay.yaml:1:1: expected"),
    (["replay.log", "--rules", "replay.log"], INVALID, b"replay.log:"),
    (["replay.log", "--rules", "replay.yaml", "--format", "json"], OK, b""),
])
def test_mistakes_have_a_status_and_a_sentence(arguments, status, words):
    done = replay(*arguments)
    assert done.returncode == status
    assert words in done.stderr


def test_bad_rules_are_refused_with_their_place(tmp_path):
    rules = rules_file(tmp_path, "rules:\n  - {name: a, key: [ip], limits: [{rate: 5/fortnight}]}\n")
    done = replay("replay.log", "--rules", rules)
    assert done.returncode == INVALID and done.stdout == b""
    assert re.match(rb".*rules\.yaml:2:\d+: .*fortnight", done.stderr)


def test_a_report_that_cannot_be_written_is_an_error():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "replay", "replay.log", "--rules", "replay.yaml"], cwd=DATA, stdout=full,
                              stderr=subprocess.PIPE, check=False, timeout=120)
    assert done.returncode == UNWRITTEN


def test_an_empty_log_is_no_mistake():
    done = replay("-", "--rules", "replay.yaml", text=b"\n\n")
    assert done.returncode == OK and done.stdout == b"0 requests in -\n"


# --- notes --------------------------------------------------------------------------------------


def test_an_attribute_that_no_line_has_is_pointed_out(tmp_path):
    rules = rules_file(tmp_path, "rules: [{name: per-phone, key: [phone], limits: [{rate: 5/h}]}]")
    notes = report("nginx_xff.log.gz", "--rules", rules)["notes"]
    assert any("no line has 'phone', which rule per-phone counts by" in n and "--map phone=FIELD" in n for n in notes)
    found = report("nginx_xff.log.gz", "--rules", rules, "--set", "phone=one")
    assert found["rules"][0]["requests"] == 6000 and found["rules"][0]["callers"] == 1
    assert not any("phone" in n for n in found["notes"])


def test_limits_that_a_log_cannot_tell_of_are_left_out_with_a_note(tmp_path):
    rules = rules_file(tmp_path, "rules: [{name: slow, key: [ip], limits: [{algorithm: concurrency, count: 2}]}]")
    found = report("nginx_xff.log.gz", "--rules", rules)
    assert found["rules"][0]["requests"] == 6000 and found["all"]["denied"] == 0
    assert any("algorithm concurrency are left out, such as that of rule slow" in note for note in found["notes"])
    assert b"left out" in replay("nginx_xff.log.gz", "--rules", rules).stdout
    rules = rules_file(tmp_path, "pools: {p: {rate: 1/s}}\nrules: [{name: lent, key: [ip], mode: {elastic: {pool: p}}, limits: [{rate: 1/d}]}]")
    found = report("nginx_xff.log.gz", "--rules", rules)
    assert found["all"]["denied"] > 0
    assert any("mode elastic" in note and "rule lent" in note for note in found["notes"])


def test_lines_out_of_order_are_put_in_order_or_counted_as_late(tmp_path):
    lines = "".join(f'{{"ts": {1795255200 + t}, "ip": "10.0.0.1"}}\n' for t in (0, 30, 29, 25, 31, 3, 60)).encode()
    rules = rules_file(tmp_path, "rules: [{name: r, key: [ip], limits: [{rate: 9/min}]}]")
    assert report("-", "--rules", rules, text=lines)["log"]["late"] == 0
    assert report("-", "--rules", rules, "--reorder", "30s", text=lines)["log"]["late"] == 0
    late = report("-", "--rules", rules, "--reorder", "2s", text=lines)
    assert late["log"]["late"] == 1  # 25 still comes before anything of a later time was decided
    assert any("1 line came later" in note for note in late["notes"])
    assert late["log"]["from"] == "2026-11-21T10:00:00Z" and late["log"]["span_ms"] == 60000
