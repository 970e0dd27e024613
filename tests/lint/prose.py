"""prose.py - the rules `prose` and `blocks`: documents that can be read, and tried.

prose: lines of Markdown have at most 100 columns, but for tables, what programs print, and a line that
only the address of a link makes long. In every README.md and in deploy/docs a sentence has at most 45
words, and those of a file at most 25 on average. A code span counts as one word; tables and headings are
no sentences. The README.md of a folder is one page, of 60 lines; that of the root has 150, and one of
deploy/docs, which is an index, may have as many as that.

blocks: every fenced block says what it is (BLOCKS), so that tests/docs can run it or check it; code that
is only indented says nothing, and is refused.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import markdown  # pylint: disable=wrong-import-position

COLUMNS_MAX = 100
WORDS_MAX = 45
WORDS_AVERAGE_MAX = 25
README_LINES_MAX = 60
ROOT_README_LINES_MAX = 150
# Kinds of blocks, and what may stand behind each; tests/docs/README.md says what is done with them.
BLOCKS = {
    "sh": {"name"},
    "output": set(),
    "yaml": {"rules", "config", "file"},
    "json": {"file"},
    "c": {"file"},
    "python": {"file"},
    "js": {"file"},
    "text": {"file"},
    "diagram": set(),
}
YAML_KINDS = {"rules", "config"}
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])")
NO_END = re.compile(r"\b(e\.g|i\.e|cf|vs|etc)\.")
WORD = re.compile(r"[^\W_]")


def sentences(text):
    """Yields (words, beginning) of each sentence of a paragraph or item."""
    words = " ".join(NO_END.sub(r"\1", markdown.plain(text)).split())
    for sentence in END_OF_SENTENCE.split(words):
        count = sum(1 for word in sentence.split(" ") if WORD.search(word))
        if count:
            yield count, " ".join(sentence.split(" ")[:6])


def is_held_to_sentences(path):
    return os.path.basename(path) == "README.md" or path.startswith("deploy/docs/")


def lines_max(path):
    """How many lines a file may have, or None."""
    if path == "README.md" or path.startswith("deploy/docs/"):
        return ROOT_README_LINES_MAX if path.endswith("README.md") else None
    return README_LINES_MAX if os.path.basename(path) == "README.md" else None


def wide_lines(text):
    """Yields (line, columns) of lines that are too long for no reason."""
    allowed = set()
    for piece in markdown.pieces(text):
        if piece.type == "table" or (piece.type == "block" and piece.kind == "output"):
            allowed.update(range(piece.line, piece.line + piece.text.count("\n") + 2))
    for number, line in enumerate(text.split("\n"), 1):
        bare = markdown.LINK.sub(r"[\1]()", line)
        bare = re.sub(r"<https?://[^>]*>|^\[[^\]]*\]: .*", "", bare)
        if len(bare) > COLUMNS_MAX and number not in allowed:
            yield number, len(line)


def prose_of(path, text):
    """Yields (line, message) of what the rule `prose` finds in one file."""
    for line, columns in wide_lines(text):
        yield line, f"has {columns} columns, more than {COLUMNS_MAX}"
    if lines_max(path) and text.count("\n") > lines_max(path):
        yield lines_max(path) + 1, f"has {text.count(chr(10))} lines, more than {lines_max(path)}"
    if not is_held_to_sentences(path):
        return
    counts = []
    for piece in markdown.pieces(text):
        if piece.type not in ("paragraph", "item"):
            continue
        for count, beginning in sentences(piece.text):
            counts.append(count)
            if count > WORDS_MAX:
                yield piece.line, f'"{beginning} ..." has {count} words, more than {WORDS_MAX}'
    if counts and sum(counts) > WORDS_AVERAGE_MAX * len(counts):
        yield 1, f"its sentences have {sum(counts) / len(counts):.1f} words on average, more than {WORDS_AVERAGE_MAX}"


def blocks_of(text):
    """Yields (line, message) of what the rule `blocks` finds in one file."""
    for piece in markdown.pieces(text):
        if piece.type == "unclosed":
            yield piece.line, "opens a block that nothing closes"
        if piece.type == "indented":
            yield piece.line, "is an indented block: put it in a fence that says what it is"
        if piece.type != "block":
            continue
        if piece.kind not in BLOCKS:
            yield piece.line, f"says it is `{piece.kind}`, expected one of {', '.join(BLOCKS)}"
            continue
        for word in piece.words:
            if word.split("=")[0] not in BLOCKS[piece.kind]:
                yield piece.line, f"`{word}` means nothing of a block of kind {piece.kind}"
        if piece.kind == "text" and markdown.word_value(piece, "file") is None:
            yield piece.line, "is text that nothing checks: expected file=NAME, for a block that uses it"
        if piece.kind == "yaml" and not YAML_KINDS.intersection(piece.words):
            yield piece.line, f"is yaml of which kind? expected {' or '.join(sorted(YAML_KINDS))}"


def rules(finding):
    """The rules of this file for lint.py, which makes its findings by `finding`."""

    def prose(tree):
        """Markdown has at most 100 columns, its sentences at most 45 words, and 25 on average."""
        for path in (p for p in tree.files if p.endswith(".md")):
            for line, message in prose_of(path, tree.text(path)):
                yield finding(path, line, message)

    def blocks(tree):
        """Every block of a Markdown file says what it is, so that it is run or checked."""
        for path in (p for p in tree.files if p.endswith(".md")):
            for line, message in blocks_of(tree.text(path)):
                yield finding(path, line, message)

    return {"prose": prose, "blocks": blocks}
