"""Help, man pages, reference pages and completion tell of every command, flag and option, and of no other.

All of them are made of the tables of the programs; what is checked here is what a user gets of them."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TIDEGATE_BUILD", str(ROOT / "build"))).resolve()
DOCS = BUILD / "docs"
PAGES = ["tidegate.1", "tidegated.8", "tidegated.yaml.5", "tidegate-rules.5", "tidegate-metrics.7"]
GROUPS = {"rules", "apikey", "token", "credential", "quota", "pools"}


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def tidegate(*words):
    return run(BUILD / "tidegate", *words)


def commands_of_help():
    text = tidegate("help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    found = []
    for line in text.splitlines():
        first, second = line.split()[:2]
        found.append(f"{first} {second}" if first in GROUPS else first)
    return found


COMMANDS = commands_of_help()


def test_the_overview_names_the_commands():
    assert len(COMMANDS) == len(set(COMMANDS)) > 40
    assert {"check", "rules apply", "quota set", "version", "help"} <= set(COMMANDS)


def flags_of_help(topic):
    """The long flags that the help on a command names, without those it only mentions in examples."""
    text = tidegate("help", *topic.split()).stdout.split("\nExamples:")[0]
    return set(re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


# --- pages ---------------------------------------------------------------------------------------


def man_sections(name):
    """The text of each .SS of a man page, without roff's escapes."""
    text = (DOCS / "man" / name).read_text().replace("\\-", "-")
    parts = re.split(r'^\.SS "(.*)"$', text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def reference_sections(name):
    parts = re.split(r"^### `(.*)`$", (DOCS / "reference" / name).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("page", PAGES)
def test_a_man_page_is_built_without_a_warning(page):
    path = DOCS / "man" / page
    linted = run("mandoc", "-Tlint", "-Wwarning", path)
    assert linted.returncode == 0 and linted.stdout + linted.stderr == ""
    shown = run("man", "-l", "--warnings", path, env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert shown.returncode == 0 and shown.stderr == ""
    assert "NAME" in shown.stdout


def test_the_pages_have_an_entry_for_every_command_and_for_no_other():
    assert list(man_sections("tidegate.1")) == COMMANDS
    assert list(reference_sections("tidegate.md")) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_the_entries_of_a_command_name_its_flags(command):
    common = flags_of_help("version")
    own = flags_of_help(command) - common
    man = re.findall(r"^\.B (?:-\w, )?(--[a-z-]+)", man_sections("tidegate.1")[command].split(".SH")[0], re.MULTILINE)
    reference = re.findall(r"^- `(?:-\w, )?(--[a-z-]+)", reference_sections("tidegate.md")[command], re.MULTILINE)
    assert set(man) == own and set(reference) == own


def test_the_pages_of_the_daemon_tell_every_option():
    text = run(BUILD / "tidegated", "--help").stdout
    options = re.findall(r"^  --([a-z-]+)", text, re.MULTILINE)
    told = re.findall(r"^\.B --([a-z-]+)", (DOCS / "man" / "tidegated.8").read_text().replace("\\-", "-"), re.MULTILINE)
    assert told == options and len(options) > 30
    keys = re.findall(r"^- `([a-z_]+)`", (DOCS / "reference" / "tidegated.yaml.md").read_text(), re.MULTILINE)
    of_flags_only = {"config", "check-config", "help", "version", "cluster-secret"}
    of_lists = {"trusted-proxy": "trusted_proxies"}  # a list in the file has its own name
    assert keys == [of_lists.get(option, option.replace("-", "_")) for option in options if option not in of_flags_only]


@pytest.mark.parametrize("option", ["client", "peer", "gossip", "resp", "http", "grpc"])
def test_what_may_be_off_is_said_to_be(option):
    entries = " ".join((DOCS / "reference" / "tidegated.md").read_text().split()).split("- `--")
    entry = next(e for e in entries if e.startswith(option + " "))
    expected = re.search(r"Expected: (.*?)\.( Default|$)", entry).group(1)
    taken = run(BUILD / "tidegated", "--check-config", f"--{option}", "off").returncode == 0
    assert taken == bool(re.search(r"\boff$", expected)), entry


def test_the_example_is_a_configuration_with_every_key(tmp_path):
    text = (DOCS / "tidegated.yaml.example").read_text()
    keys = re.findall(r"^- `([a-z_]+)`", (DOCS / "reference" / "tidegated.yaml.md").read_text(), re.MULTILINE)
    assert re.findall(r"^#?([a-z_]+):", text, re.MULTILINE) == keys
    file = tmp_path / "tidegated.yaml"
    file.write_text(text)
    done = run(BUILD / "tidegated", "--config", file, "--check-config")
    assert done.returncode == 0, done.stderr


# --- completion ----------------------------------------------------------------------------------


def complete(*words):
    """What bash would offer for the last word."""
    script = (f'source "{DOCS}/completion/tidegate.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
              'COMPREPLY=(); _tidegate; printf "%s\\n" "${COMPREPLY[@]}"')
    done = run("bash", "-c", script, "bash", "tidegate", *words)
    assert done.returncode == 0 and done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_offers_the_flags_of_each_command(command):
    assert complete(*command.split(), "--") == flags_of_help(command)


def test_bash_offers_commands_and_values():
    first = {command.split()[0] for command in COMMANDS}
    assert complete("") == first and complete("-o", "json", "") == first and complete("help", "") == first
    assert complete("rules", "") == {"list", "show", "validate", "explain", "import", "diff", "apply", "delete", "history",
                                      "rollback"}
    assert complete("help", "pools", "") == {"list", "set", "report"} and complete("st") == {"status"}
    assert complete("members", "-o", "") == {"table", "json", "yaml"}
    assert complete("status", "--wait", "") == {"healthy"}
    assert complete("check", "--algorithm", "sl") == {"sliding_window", "sliding_buckets", "sliding_log"}


def test_bash_offers_files_where_a_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "rules.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    for words in [("rules", "apply"), ("-o", "json", "rules", "diff"), ("replay",), ("replay", "a.log"), ("replay", "--rules"),
                  ("rules", "explain", "a=b", "--rules")]:
        assert complete(*words, "ru") == {"rules.yaml"}
    assert complete("block", "ru") == set()


def zsh_specifications(command):
    """What the function hands to _arguments for a command, or to _describe."""
    words = command.split()
    script = f"""
        _arguments() {{ if [[ "$*" == *'->command'* ]]; then state=rest; return 1; fi; print -rl -- "$@"; }}
        _describe() {{ print -rl -- DESCRIBE ${{(P)${{@[-1]}}}}; }}
        _files() {{ :; }}
        compdef() {{ :; }}
        words=({' '.join(words)} '')
        CURRENT={len(words) + 1}
        curcontext=
        source {DOCS}/completion/_tidegate
    """
    done = run("zsh", "-f", "-c", script)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "help"])
def test_zsh_offers_the_flags_of_each_command(command):
    found = re.findall(r"^(?:\([^)]*\)|\*)?(--[a-z-]+)", zsh_specifications(command), re.MULTILINE)
    assert set(found) == flags_of_help(command)


def test_zsh_offers_commands():
    for group in GROUPS:
        words = re.findall(r"^([a-z]+):", zsh_specifications(group), re.MULTILINE)
        assert [f"{group} {word}" for word in words] == [command for command in COMMANDS if command.startswith(group + " ")]
    first = re.findall(r"^([a-z]+):", zsh_specifications("help"), re.MULTILINE)
    assert set(first) == {command.split()[0] for command in COMMANDS}


# --- words -----------------------------------------------------------------------------------------


def test_no_document_names_a_command_that_does_not_exist():
    firsts = {command.split()[0] for command in COMMANDS}
    for path in sorted(ROOT.rglob("*.md")):
        if "build" in path.relative_to(ROOT).parts:
            continue
        for words in re.findall(r"`tidegate((?: [a-z]+){1,2})[^`]*`", path.read_text()):
            first, *second = words.split()
            known = first in firsts and (first not in GROUPS or not second or f"{first} {second[0]}" in COMMANDS)
            assert known, f"{path}: `tidegate {first} {' '.join(second)}`"
