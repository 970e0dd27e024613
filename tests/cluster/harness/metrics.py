"""metrics - a page of /metrics, read by its specification and not by a library."""

import re
import urllib.request

from .waiting import scaled

LINE = re.compile(r'^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
UNESCAPED = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def fetch(endpoint):
    """The text of the page, and the type that it is sent as."""
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=scaled(20)) as page:
        return page.read().decode(), page.headers["Content-Type"]


def parse(text):
    """{(name, ((label, value), ...)): number}; labels in the order of the alphabet. No series is there twice."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = LINE.match(line).groups()
        pairs = LABEL.findall(labels or "")
        assert LABEL.sub("", labels or "") == "", line
        series = (name, tuple(sorted((key, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], text)) for key, text in pairs)))
        assert series not in found, f"twice: {line}"
        found[series] = float(value)
    return found


class Page:
    """What a node tells at one moment."""

    def __init__(self, endpoint):
        self.text, self.type = fetch(endpoint)
        self.series = parse(self.text)

    def of(self, name, **labels):
        """The sum of all series of the name with these labels; there is one at least."""
        wanted = set(labels.items())
        values = [value for (known, pairs), value in self.series.items() if known == name and wanted <= set(pairs)]
        assert values, f"no {name} {labels}"
        return sum(values)

    def names(self):
        """Of metrics, without what a histogram adds."""
        return set(re.findall(r"^# TYPE (\S+) ", self.text, re.MULTILINE))
