"""test_documents.py - what documents show works, and what they name is there.

Every fenced block of every Markdown file is run (session.py), checked (samples.py), or named in EXEMPT.
"""

import concurrent.futures
import json
import os
import re
import subprocess

import pytest

import claims
import markdown
import samples
import session

PAGES_AT_ONCE = 3
EXEMPT_MAX = 10
# NAME of a block (`sh name=NAME`) that is not run, and why.
EXEMPT = {
    "two-commands": "they run the tests that this one is part of; test_demo.py runs the demo",
    "kubernetes": "it needs Kubernetes; test_deploy.py reads what is applied",
    "npm": "it installs from npm; the block behind it needs that, and tests/interop runs it",
    "clients-of-node": "tests/interop runs it with the packages of npm",
    "install": "it installs on this machine; the block behind it installs below a folder",
}


def documents():
    """(path, text) of every Markdown file of the tree."""
    listed = subprocess.run(["git", "-C", session.ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=True).stdout.split("\n")
    found = []
    for path in sorted(set(p for p in listed if p)):
        full = os.path.join(session.ROOT, path)
        if os.path.exists(full):
            with open(full, encoding="utf-8") as file:
                found.append((path, file.read()))
    return found


DOCUMENTS = documents()
SESSIONS = [(path, text) for path, text in DOCUMENTS if session.has_session(text)]
WORLD = claims.World(session.ROOT, session.build_folder())


def blocks_of(*kinds):
    return [(path, block) for path, text in DOCUMENTS for block in markdown.blocks(text) if block.kind in kinds]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What became of each page: all are run once, some at a time, as they wait more than they compute."""
    with concurrent.futures.ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
        running = {path: pool.submit(session.run, path, text, tmp_path_factory.mktemp("page"), EXEMPT)
                   for path, text in SESSIONS}
        return {path: job.result() for path, job in running.items()}


@pytest.mark.parametrize("path", [path for path, _ in SESSIONS])
def test_a_page_does_what_it_shows(path, results):
    result = results[path]
    assert result.failure is None, result.failure
    print(f"measured: {path}: {result.ran} blocks run, {result.compared} outputs compared, {result.seconds:.1f} s")


@pytest.mark.parametrize("path, block", blocks_of(*samples.CHECKS), ids=lambda v: getattr(v, "line", v))
def test_a_sample_is_what_its_reader_takes(path, block, tmp_path):
    wrong = samples.CHECKS[block.kind](block, str(tmp_path), session.build_folder())
    assert wrong is None, f"{path}:{block.line}: {wrong}"


@pytest.mark.parametrize("path, text", DOCUMENTS, ids=[path for path, _ in DOCUMENTS])
def test_what_a_document_names_is_there(path, text):
    wrong = [f"{path}:{line}: {message}" for check in claims.CHECKS for line, message in check(path, text, WORLD)]
    assert not wrong, "\n".join(wrong)


def test_code_that_a_page_shows_as_a_file_is_used_by_that_page():
    for path, text in DOCUMENTS:
        shells = [block for block in markdown.blocks(text) if block.kind == "sh"]
        for block in markdown.blocks(text):
            name = markdown.word_value(block, "file")
            later = [shell for shell in shells if shell.line > block.line and name and name in shell.text]
            assert not name or later, f"{path}:{block.line}: no block behind it uses {name}"


def test_an_output_follows_the_block_that_prints_it():
    for path, text in DOCUMENTS:
        before = None
        for block in markdown.blocks(text):
            if block.kind == "output":
                assert before == "sh", f"{path}:{block.line}: no sh block stands before it"
            before = block.kind


def test_every_page_is_in_the_index_of_its_folder():
    pages = [path for path, _ in DOCUMENTS if path.startswith("deploy/docs/") and not path.endswith("README.md")]
    texts = dict(DOCUMENTS)
    for page in pages:
        folder, name = os.path.split(page)
        assert f"({name}" in texts[f"{folder}/README.md"], f"{folder}/README.md does not lead to {name}"


def test_few_blocks_are_exempt_and_each_exists_once():
    names = [markdown.word_value(block, "name") for _, block in blocks_of("sh")]
    assert len(EXEMPT) <= EXEMPT_MAX
    assert sorted(n for n in names if n) == sorted(EXEMPT)


def table_words(page):
    """The code spans in the first cells of a page's tables."""
    with open(os.path.join(session.ROOT, page), encoding="utf-8") as file:
        text = file.read()
    found = set()
    for piece in markdown.pieces(text):
        if piece.type == "table":
            for row in piece.text.split("\n"):
                found.update(re.findall(r"`([^`]+)`", row.strip().strip("|").split("|")[0]))
    return found


# (page, source, pattern, form): each word that the pattern finds in the source stands in a table of the page.
TOLD = [
    ("reference/errors.md", "base/error.h", r"X\((\w+), -\d+,", "TG_E{}"),
    ("reference/errors.md", "base/vocabulary.h", r"#define OUTCOME_MAP((?:.*\\\n)+.*)", "{}"),
    ("reference/redis-commands.md", "node/gateway/resp_command.c", r'^    \{"([A-Z.]+)",', "{}"),
    ("reference/status.md", "node/cluster/model/health.c", r'\.code = "(\w+)"', "{}"),
    ("reference/status.md", "node/cluster/conditions/conditions.c", r'(?:\bcode = |RANK_[A-Z_+ ]+, )"(\w+)"', "{}"),
    ("reference/json.md", "client/cli/commands/ask.c", r'put_\w+\(writer, "(\w+)"', "{}"),
    ("internals/testing.md", "base/failpoint.h", r'^    X\(\w+, "([\w-]+)"\)', "{}"),
]


@pytest.mark.parametrize("page, source, pattern, form", TOLD, ids=[f"{t[1]}-{t[0]}" for t in TOLD])
def test_every_word_of_a_table_in_the_code_has_its_line(page, source, pattern, form):
    with open(os.path.join(session.ROOT, source), encoding="utf-8") as code:
        found = re.findall(pattern, code.read(), re.MULTILINE)
    if "MAP" in pattern:
        found = re.findall(r'"(\w+)"', found[0])
    words = {word.split()[0] for word in table_words(f"deploy/docs/{page}") if word.strip()}
    assert len(found) > 4
    assert sorted({form.format(name) for name in found} - words) == []


def test_every_counter_is_told_in_the_words_of_the_command_line():
    with open(os.path.join(session.ROOT, "client/cli/status/counters.c"), encoding="utf-8") as source:
        counters = re.findall(r'\{"\w+", "(\w+)", "([^"]*)"\}', source.read())
    with open(os.path.join(session.ROOT, "deploy/docs/reference/status.md"), encoding="utf-8") as page:
        rows = page.read().split("\n")
    assert len(counters) > 50
    assert [name for name, meaning in counters if f"| `{name}` | {meaning} |" not in rows] == []


def test_every_metric_has_its_line_in_the_words_of_the_table():
    with open(os.path.join(session.ROOT, "build/docs/reference/tidegate-metrics.md"), encoding="utf-8") as made:
        listed = made.read().split("## Metrics")[1].split("## Labels")[0].replace("\n  ", " ")
    metrics = re.findall(r"^- `(\w+)`: A (\w+)(?: by ([\w, ]+))?\. (.*)$", listed, re.MULTILINE)
    rows = [f"| `{name}` | {kind} | {labels or '-'} | {meaning} |" for name, kind, labels, meaning in metrics]
    with open(os.path.join(session.ROOT, "deploy/docs/reference/metrics.md"), encoding="utf-8") as page:
        told = page.read().split("## Every metric")[1]
    assert len(rows) > 60
    assert re.findall(r"^\| `.*$", told, re.MULTILINE) == rows


def test_every_alert_has_a_section_that_tells_what_to_do():
    with open(os.path.join(session.ROOT, "deploy/monitoring/alerts.yaml"), encoding="utf-8") as rules:
        text = rules.read()
    with open(os.path.join(session.ROOT, "deploy/docs/operations/alerts.md"), encoding="utf-8") as page:
        sections = re.findall(r"^### (\w+)\n\n(Page|Ticket)\. ", page.read(), re.MULTILINE)
    alerts = re.findall(r"- alert: (\w+)\n(?:.*\n)*?.*severity: (\w+)", text)
    runbooks = re.findall(r"runbook_url: deploy/docs/operations/alerts\.md#(\w+)", text)
    assert len(alerts) > 25
    assert sections == [(name, severity.capitalize()) for name, severity in alerts]
    assert runbooks == [name.lower() for name, _ in alerts]


def test_every_field_of_status_has_its_line(tmp_path):
    """The fields that a node gives now, to the deepest map, and those that the command line has a line for."""
    script = ("ip link set lo up; build/tidegated --ephemeral 2>log & build/tidegate status --wait healthy >/dev/null; "
              "build/tidegate status -o json; kill %1; wait")
    status, said = session.run_script(script, session.folder_of(str(tmp_path)))
    assert status == 0, said
    names = set()

    def gather(value):
        for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
            gather(item)
        if isinstance(value, dict):
            names.update(value)

    gather(json.loads(said))
    assert len(names) > 100
    told = table_words("deploy/docs/reference/status.md")
    assert not names - told, f"not in status.md: {sorted(names - told)}"
