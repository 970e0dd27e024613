"""test_run.py - proves that tests/run counts what happened and takes nothing bad for good.

Each case stands a small shell script in for a unit program.
"""

import importlib.machinery
import importlib.util
import os
import subprocess

import pytest

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../run")
LOADER = importlib.machinery.SourceFileLoader("tests_run", PATH)
RUN = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", LOADER))
LOADER.exec_module(RUN)


def outcome(tmp_path, script, variant="release"):
    """(passed, failed, skipped, why) of a program that is `script`."""
    program = tmp_path / "test_script"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    _, _, passed, failed, skipped, why, _ = RUN.run_unit_program(str(program), variant, dict(os.environ))
    return passed, failed, skipped, why


def test_cases_are_counted_over_several_groups(tmp_path):
    assert outcome(tmp_path, "echo '1..1\nok 1 - a\n# ok - x\n1..2\nok 1 - b\nok 2 - c'") == (3, 0, 0, "")


def test_a_failed_case_is_a_failure(tmp_path):
    assert outcome(tmp_path, "echo '1..2\nok 1 - a\nnot ok 2 - b'; exit 1") == (1, 1, 0, "")


def test_a_skipped_case_is_neither(tmp_path):
    assert outcome(tmp_path, "echo '1..2\nok 1 - a\nnot ok 2 # SKIP b'") == (1, 0, 1, "")


@pytest.mark.parametrize("script", ["true", "echo done", "exit 1", "kill -SEGV $$"])
def test_a_program_that_reports_nothing_has_failed(tmp_path, script):
    assert "reported no case" in outcome(tmp_path, script)[3]


@pytest.mark.parametrize("script", ["echo 'ok 1 - a'; exit 66", "echo 'ok 1 - a'; kill -ABRT $$"])
def test_a_bad_end_after_good_cases_is_a_failure(tmp_path, script):
    assert "ended with status" in outcome(tmp_path, script)[3]


def test_a_program_that_stops_before_its_plan_has_failed(tmp_path):
    assert "2 of 3 cases" in outcome(tmp_path, "echo '1..3\nok 1 - a\nok 2 - b'; exit 0")[3]


def test_a_program_that_does_not_end_has_failed(tmp_path, monkeypatch):
    monkeypatch.setitem(RUN.PROGRAM_TIMEOUT_S, "release", 0.2)
    assert "no end after" in outcome(tmp_path, "echo 'ok 1 - a'; exec sleep 5")[3]


def counted(output, status=0):
    """(passed, failed, skipped, notes) of a stage that another process ran."""
    tally = RUN.Tally()
    RUN.count_stage(tally, "unit", status, output)
    return tally.passed, tally.failed, tally.skipped, tally.notes


def test_what_another_process_counted_is_added():
    assert counted("== unit\n\nin 3 s\n5 passed, 0 failed\n") == (5, 0, 0, [])
    assert counted("== unit\n\nin 3 s\n1 skipped\nfailed: x: 2 failed\n5 passed, 2 failed\n", 1) == (5, 2, 1, ["x: 2 failed"])


@pytest.mark.parametrize("output, status", [("", 0), ("Traceback", 1), ("== unit\n\nin 3 s\n5 passed, 0 failed\n", -9),
                                            ("== unit\n\nin 3 s\n5 passed, 1 failed\n", 0)])
def test_another_process_that_did_not_end_well_has_failed(output, status):
    passed, failed, _, notes = counted(output, status)
    assert (passed, failed, len(notes)) == (0, 1, 1)


def test_what_runs_aside_has_the_lowest_priority_and_ends_with_it(tmp_path):
    with RUN.Aside() as aside:
        assert aside.run(["nice"]) == (0, b"19\n")
        aside.hurry()
        assert aside.run(["nice"]) != (0, b"19\n")
        with RUN.concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(aside.run, ["sh", "-c", f"touch {tmp_path}/begun; sleep 60"])
            while not (tmp_path / "begun").exists():
                assert not done.done()
            aside.__exit__()
            assert done.result(30)[0] == -9
    assert aside.run(["true"]) == (-1, b"")


def test_a_sanitizer_report_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(RUN, "ROOT", str(tmp_path))
    reports = tmp_path / RUN.BUILD / "asan" / "reports"
    reports.mkdir(parents=True)
    tally = RUN.Tally()
    RUN.take_reports(tally, "asan")
    assert tally.failed == 0
    (reports / "report.12").write_text("heap-use-after-free")
    RUN.take_reports(tally, "asan")
    assert tally.failed == 1


PARTS = {"a": 300, "b": 200, "c": 150, "d": 700}


@pytest.mark.parametrize("number, chosen", [(0, ["a", "b"]), (1, ["b", "c"]), (2, ["c"]), (3, ["d"]), (4, ["a", "b"])])
def test_parts_take_turns_and_as_many_as_fit(number, chosen):
    assert RUN.rotating(PARTS, number) == chosen


def test_every_part_has_its_turn_once_at_the_most():
    assert RUN.rotating({"a": 1, "b": 1, "c": 1}, 1) == ["b", "c", "a"]


@pytest.mark.parametrize("only, chosen, failed", [("", ["a", "b"], 0), ("b", ["b"], 0), ("b,x", ["b"], 1),
                                                  ("b,b", ["b"], 0)])
def test_a_part_that_is_not_there_has_failed(only, chosen, failed):
    tally = RUN.Tally()
    assert RUN.interop_chosen(tally, {"a": 1, "b": 1}, only) == chosen
    assert tally.failed == failed


def test_a_part_that_tells_no_time_has_failed():
    tally = RUN.Tally()
    assert RUN.interop_chosen(tally, {"a": 1, "b": None}, "rotating") == []
    assert tally.failed == 1


CI = os.path.join(os.path.dirname(PATH), "../.ci/run")


@pytest.mark.parametrize("test, interop, status, told", [
    ("echo '5 passed, 0 failed'", "echo '2 passed, 0 failed'", 0, "7 passed, 0 failed"),
    ("echo '4 passed, 1 failed'; exit 1", "echo '2 passed, 0 failed'", 1, "6 passed, 1 failed"),
    ("echo '5 passed, 0 failed'", "echo '1 passed, 1 failed'; exit 2", 1, "6 passed, 1 failed"),
    ("echo '5 passed, 0 failed'; exit 1", "echo '2 passed, 0 failed'", 1, "7 passed, 1 failed"),
    ("echo '5 passed, 0 failed'", "true", 1, "5 passed, 1 failed"),
    ("kill -9 $$", "echo '2 passed, 0 failed'", 1, "2 passed, 1 failed"),
])
def test_continuous_integration_hides_no_failure_of_either_goal(tmp_path, test, interop, status, told):
    make = tmp_path / "make"
    make.write_text(f"#!/bin/sh\nif [ $1 = test ]; then {test}; else {interop}; fi\n")
    make.chmod(0o755)
    done = subprocess.run(["bash", CI], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, told)
