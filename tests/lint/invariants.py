"""invariants.py - the rule `invariant-ids`: what always holds has one name, and is told in one place.

An invariant is defined in a comment of a C file, as ` * TABLE-1  One place counts a key.`: a prefix that
names the module, and a number. Every other place refers to it by that id, and no file need be named. Words of
that form which are none are listed below.

The older form, a letter and a number that meant something in its own file alone, is refused: in comments of
C files and in Markdown, but for what is listed below.
"""

import os
import re

import markdown

DEFINED = re.compile(r"^ \* ([A-Z]+-\d+) {2,3}\S", re.MULTILINE)
REFERRED = re.compile(r"(?<![\w-])([A-Z]{2,})-(\d+)(?![\w-])")
DEFINED_BY_LETTER = re.compile(r"^ \* ([A-Z](?:\d  |\d\d {1,2}))(?=\S)", re.MULTILINE)
OTHER_WORDS = {"UTF-8"}
BY_LETTER = re.compile(r"(?<![\w.\"'%\\/#&-])([A-Z]\d{1,2})(?![\w(-])")
# Promises (R1 to R7, S1 to S10), terms in diagrams (T1 to T3), and what others call so.
OTHER_LETTERS = re.compile(r"[RS]\d{1,2}|T[123]|C11|Z85|P99")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
REFERRED_BY_LETTER = re.compile(r"(?<![\w-])([A-Z]\d{1,2})[\s*]+(?:of|in)[\s*]+`?\w+\.[ch]\b")
C_FILES = (".c", ".h")


def is_read(path):
    """Code and documents; but not this folder, which tells of ids that do not exist."""
    kind = os.path.splitext(path)[1]
    return not path.startswith("tests/lint/") and (kind in (".c", ".h", ".md", ".py") or path == "tests/sim/mutants")


def line_at(text, position):
    return text.count("\n", 0, position) + 1


def definitions_of(tree):
    """Yields (id, path, line) of each definition, in the order of paths."""
    for path in sorted(tree.files):
        if path.endswith(C_FILES):
            text = tree.text(path)
            for match in DEFINED.finditer(text):
                yield match.group(1), path, line_at(text, match.start())


def dangling(text, defined):
    """Yields (id, line) of each reference to what is defined nowhere."""
    for match in REFERRED.finditer(text):
        if match.group(0) not in OTHER_WORDS and match.group(0) not in defined:
            yield match.group(0), line_at(text, match.start())


def by_letter(path, text):
    """Yields (line, message) of what has the older form."""
    for match in DEFINED_BY_LETTER.finditer(text) if path.endswith(C_FILES) else ():
        name = match.group(1).strip()
        yield line_at(text, match.start()), f"{name} says nothing elsewhere: give it the prefix of its module"
    told = set()
    for match in REFERRED_BY_LETTER.finditer(text):
        told.add(match.start(1))
        yield line_at(text, match.start()), f"{match.group(1)} is the older form of an id: refer to PREFIX-number"
    for start, prose in prose_in(path, text):
        for match in BY_LETTER.finditer(prose):
            at = start + match.start(1)
            if not OTHER_LETTERS.fullmatch(match.group(1)) and at not in told:
                yield line_at(text, at), f"{match.group(1)} is the older form of an id: refer to PREFIX-number"


def prose_in(path, text):
    """Yields (where it begins, text) of what people read in a file: comments of C, and Markdown without code."""
    if path.endswith(C_FILES):
        for match in COMMENT.finditer(text):
            yield match.start(), match.group(0)
    elif path.endswith(".md"):
        yield 0, markdown.CODE.sub(lambda code: re.sub(r"[^\n]", "_", code.group(0)), text)


def rules(finding):
    """The rule of this file for lint.py, which makes its findings by `finding`."""

    def invariant_ids(tree):
        """An invariant has one id, which is defined once in the tree, and no reference to one dangles."""
        defined = {}
        for name, path, line in definitions_of(tree):
            if name in defined:
                yield finding(path, line, f"{name} is defined in {defined[name]} already")
            defined.setdefault(name, f"{path}:{line}")
        for path in filter(is_read, tree.files):
            text = tree.text(path)
            for name, line in dangling(text, defined):
                yield finding(path, line, f"{name} is defined nowhere")
            for line, message in by_letter(path, text):
                yield finding(path, line, message)

    return {"invariant-ids": invariant_ids}
