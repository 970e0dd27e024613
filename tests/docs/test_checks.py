"""test_checks.py - the tests of documents see what they are there for: one planted mistake each."""

import os

import pytest

import claims
import markdown
import samples
import session

WORLD = claims.World(session.ROOT, session.build_folder())

CLAIMS = [
    ("See [there](no/such.md).", "links to no/such.md"),
    ("See [there](README.md#no-such-heading).", "has no such heading"),
    ("Read `base/eror.h`.", "names the file base/eror.h"),
    ("Both of `base/main.[ch]`.", "names the file base/main.[ch]"),
    ("It calls `no_such_function()`.", "names the function no_such_function()"),
    ("Ask `tidegate chek --key a`.", "`tidegate chek --key` is no command"),
    ("Ask `tidegate rules aply`.", "`tidegate rules aply` is no command"),
    ("Ask `tidegate check --kye a`.", "`tidegate check` has no flag --kye"),
    ("Ask `tidegate rules diff|aply`.", "is no command"),
    ("Start `tidegated --sed x`.", "`tidegated` has no flag --sed"),
    ("Give it `--no-such-flag`.", "names the flag --no-such-flag"),
    ("Run `make tset`.", "`make tset` is no target"),
    ("```sh\nbuild/tidegate ask x=y\n```", "`tidegate ask x=y` is no command"),
    ("```sh\ntidegated &\nif tidegate peek --chost 3; then :; fi\n```", "`tidegate peek` has no flag --chost"),
    ("```diagram\nbytes --> no_such.c --> bytes\n```", "names the file no_such.c"),
]


@pytest.mark.parametrize("text, message", CLAIMS)
def test_a_claim_that_is_false_is_found(text, message):
    found = [m for check in claims.CHECKS for _, m in check("README.md", text, WORLD)]
    assert len(found) == 1 and message in found[0]


@pytest.mark.parametrize("text", [
    "`tidegate rules diff|apply`, `tidegate apikey`, `tidegate -e tcp://a:1 status --all`, `make test unit`",
    "`--shards N`, `--suggest 0.1%`, `gossip/swim.h`, `swim_table.c`, `swim_new()`, [map](README.md#tidegate), `/etc/x.c`",
    "```sh\nx=$(tidegate peek --key a --rate 1/s) && make lint; tidegate help rules apply # --not-a-flag\n```",
])
def test_a_claim_that_is_true_is_none(text):
    assert [m for check in claims.CHECKS for _, m in check("README.md", text, WORLD)] == []


SESSIONS = [
    ("```sh\nfalse\necho on\n```", "page.md:1: ended with status 1"),
    ("```sh\necho 1\n```\n\n```output\n2\n```", "page.md:5: expected\n2"),
    ("```sh\nbuild/tidegated --ephemeral 2>log &\nbuild/tidegate status --wait healthy\n```", "its end: ended with"),
    ("```text file=a/b\nx\n```\n\n```sh\ngrep y a/b\n```", "page.md:5: ended with status 1"),
]


@pytest.mark.parametrize("text, message", SESSIONS)
def test_a_page_that_does_something_else_fails(text, message, tmp_path):
    assert message in (session.run("page.md", text, tmp_path).failure or "nothing")


def test_blocks_of_a_page_share_one_shell(tmp_path):
    text = "```sh\nx=3\n```\n\nThen:\n\n```sh\necho $x; echo more; echo end\n```\n\n```output\n3\n...\nend\n```\n"
    result = session.run("page.md", text, tmp_path)
    assert result.failure is None and result.ran == 2 and result.compared == 1


def test_what_the_shell_says_of_a_killed_job_is_no_output(tmp_path):
    text = "```sh\ncat /dev/zero >/dev/null &\nkill -9 %1; wait %1 || echo gone\n```\n\n```output\ngone\n```\n"
    assert session.run("page.md", text, tmp_path).failure is None


@pytest.mark.parametrize("expected, printed, same", [
    ("a ... c\n", "a b c\n", True), ("a ... c\n", "a b d\n", False), ("a\n...\nd\n", "a\nb\nc\nd\n", True),
    ("a\n", "a  \n", True), ("a\n", "a\nb\n", False), ("...\n", "", True), ("(a)\n", "a\n", False),
])
def test_an_output_is_compared_but_for_what_is_left_open(expected, printed, same):
    assert session.matches(expected, printed) is same


@pytest.mark.parametrize("info, text", [
    ("yaml rules", "rules: [{name: a, limit: 3}]\n"), ("yaml config", "base_prt: 7600\n"), ("json", "{\"a\": }\n"),
    ("c", "int f(void) { return tg_no_such(); }\n"), ("python", "def f(:\n"),
    ("js", "const a = ;\n"),
])
def test_a_sample_that_its_reader_refuses_is_found(info, text, tmp_path):
    block = markdown.blocks(f"```{info}\n{text}```\n")[0]
    assert samples.CHECKS[block.kind](block, str(tmp_path), session.build_folder()) is not None


def test_every_kind_of_block_has_its_check():
    import prose  # pylint: disable=import-outside-toplevel
    assert set(prose.BLOCKS) == set(samples.CHECKS) | {"sh", "output", "text", "diagram"}
    assert os.path.exists(os.path.join(session.ROOT, "tests/lint/prose.py"))
