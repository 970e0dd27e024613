"""markdown.py - a Markdown file cut into what the rules and the tests of documents look at.

A file is a sequence of pieces: headings, paragraphs, list items, tables, fenced blocks and
indented blocks. That is the part of CommonMark that this tree uses; a comment is left out.

A block that nothing closes is of the type `unclosed`, and of one line: what follows is read as ever.

1. Every line of a file belongs to one piece, or is blank; numbers of lines begin at 1.
2. A block's info string is its `kind` (the first word) and its `words` (the others).
"""

import collections
import re

Piece = collections.namedtuple("Piece", "type line text kind words")

FENCE = re.compile(r"^( *)(`{3,})(.*)$")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
ITEM = re.compile(r"^( *)([-*]|\d+[.)]) +(.*)$")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*(?:\([^()]*\))?[^()\s]*)\)")
INDENT = 4  # columns from which a line outside a list is a block


def pieces(text):
    """Yields the pieces of a Markdown text, in order."""
    lines = COMMENT.sub(lambda c: "\n" * c.group(0).count("\n"), text).split("\n")
    at, in_list = 0, False
    while at < len(lines):
        line = lines[at]
        fence = FENCE.match(line)
        if not line.strip():
            at += 1
        elif fence:
            piece, at = _fenced(lines, at, fence)
            yield piece
        elif HEADING.match(line):
            in_list = False
            yield Piece("heading", at + 1, HEADING.match(line).group(2), HEADING.match(line).group(1), [])
            at += 1
        elif line.lstrip().startswith("|"):
            piece, at = _while(lines, at, "table", lambda other: other.lstrip().startswith("|"))
            yield piece
        elif line.startswith(" " * INDENT) and not in_list:
            piece, at = _while(lines, at, "indented", lambda other: other.startswith(" " * INDENT))
            yield piece
        else:
            in_list = bool(ITEM.match(line)) or (in_list and line.startswith(" "))
            piece, at = _while(lines, at, "item" if ITEM.match(line) else "paragraph", _goes_on)
            yield piece


def _goes_on(line):
    return bool(line.strip()) and not (FENCE.match(line) or HEADING.match(line) or ITEM.match(line)
                                       or line.lstrip().startswith("|"))


def _while(lines, at, kind, goes_on):
    """The piece of `lines` from `at` on, and where the next one begins."""
    end = at + 1
    while end < len(lines) and goes_on(lines[end]):
        end += 1
    return Piece(kind, at + 1, "\n".join(lines[at:end]), "", []), end


def _fenced(lines, at, fence):
    margin, ticks, info = fence.group(1), fence.group(2), fence.group(3).split()
    end = at + 1
    while end < len(lines) and lines[end].strip() != ticks:
        end += 1
    if end == len(lines):
        return Piece("unclosed", at + 1, lines[at], info[0] if info else "", info[1:]), at + 1
    inside = [line[len(margin):] if line.startswith(margin) else line for line in lines[at + 1:end]]
    text = "".join(line + "\n" for line in inside)
    return Piece("block", at + 1, text, info[0] if info else "", info[1:]), end + 1


def blocks(text):
    """The fenced blocks of a Markdown text."""
    return [piece for piece in pieces(text) if piece.type == "block"]


def word_value(piece, name):
    """The value of the word NAME=VALUE in a block's info string, or None."""
    return next((w.split("=", 1)[1] for w in piece.words if w.startswith(name + "=")), None)


def without_code(text):
    """The text with each code span as one word."""
    return CODE.sub("Code", text)


def plain(text):
    """The words that a reader sees: no code, no marks, no addresses of links."""
    text = LINK.sub(r"\1", without_code(text))
    return ITEM.sub(r"\3", text) if "\n" not in text else "\n".join(ITEM.sub(r"\3", t) for t in text.split("\n"))


def anchors(text):
    """The anchors that GitHub gives to the headings of a text."""
    seen = collections.Counter()
    found = set()
    for piece in pieces(text):
        if piece.type != "heading":
            continue
        words = LINK.sub(r"\1", piece.text.replace("`", "")).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(slug if seen[slug] == 0 else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found
