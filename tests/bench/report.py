"""report - lines of figures, each beside its peer, as a table and as JSON.

A line is about one thing: what was measured, the peer of the same rounds, the ratio of the two, what is promised of
either, and whether that was so. Values are medians of the rounds; latencies are those of the median round.
"""

import datetime
import json
import os
import platform
import statistics
import subprocess

WHY_LEN = 60  # of a reason in the table; the JSON has it whole
KEPT, SHORT, NONE, ABSENT = "kept", "FALLS SHORT", "", "not measured"


def median(values):
    return statistics.median(values)


def commit(root):
    """The commit that was measured, with a mark when files differ from it."""
    found = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=root, check=False,
                           capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def number(value):
    """Three digits that matter, with a letter for the thousands."""
    if value is None:
        return ""
    for factor, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= factor:
            scaled = value / (1e3 if letter == " k" else factor)
            return f"{scaled:.3g}{letter}" if scaled < 1000 else f"{scaled:.0f}{letter}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def latency(found):
    """p50, p99 and p99.9 in microseconds."""
    if not found:
        return ""
    return " / ".join("-" if found.get(name) is None else number(found[name]) for name in ("p50", "p99", "p999"))


class Report:
    """What one run found."""

    HEAD = ["row", "what", "found", "p50 / p99 / p99.9 us", "peer", "peer's", "ratio", "promised", ""]

    def __init__(self, root, rounds, quick):
        self.lines = []
        self.notes = []
        self.about = {
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": commit(root), "processor": processor(), "cores": os.cpu_count(),
            "kernel": platform.release(), "rounds": rounds, "quick": quick,
            "load_before": os.getloadavg()[0],
        }

    def add(self, row, what, values, unit, *, peer=None, peer_values=None, ratio=None, promised="", kept=None,
            latencies=None, peer_latencies=None, **more):
        """One line. `values`: one a round; `kept`: None when nothing is promised."""
        self.lines.append({
            "row": row, "what": what, "found": median(values), "unit": unit, "rounds": values,
            "latency_us": self.middle(values, latencies), "peer": peer,
            "peer_found": median(peer_values) if peer_values else None, "peer_rounds": peer_values,
            "peer_latency_us": self.middle(peer_values, peer_latencies), "ratio": ratio, "promised": promised,
            "verdict": NONE if kept is None else KEPT if kept else SHORT, **more,
        })

    def absent(self, row, what, why, promised=""):
        """A line for what could not be measured, with the reason."""
        self.lines.append({"row": row, "what": what, "found": None, "unit": "", "rounds": [], "latency_us": None,
                           "peer": None, "peer_found": None, "peer_rounds": None, "peer_latency_us": None, "ratio": None,
                           "promised": promised, "verdict": ABSENT, "why": why})

    @staticmethod
    def middle(values, latencies):
        """The latencies of the round whose value is the median."""
        if not values or not latencies or len(values) != len(latencies):
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        return latencies[order[(len(order) - 1) // 2]]

    def cells(self, line):
        found = "" if line["found"] is None else f"{number(line['found'])} {line['unit']}".strip()
        ratio = "" if line["ratio"] is None else f"{line['ratio']:.2f} x" if line["ratio"] < 10 else f"{line['ratio']:.0f} x"
        verdict = line["verdict"] if line["verdict"] != ABSENT else f"{ABSENT}: {line['why'][:WHY_LEN]}"
        return [line["row"], line["what"], found, latency(line["latency_us"]), line["peer"] or "",
                number(line["peer_found"]), ratio, line["promised"], verdict]

    def headline(self):
        about = self.about
        return (f"{about['date']}, commit {about['commit']}, {about['cores']} x {about['processor']}, Linux "
                f"{about['kernel']}; medians of {about['rounds']} interleaved rounds, nodes, peers and load on the one "
                f"machine; load average before {about['load_before']:.2f}")

    def table(self):
        """The whole as Markdown, in columns that can be read as they are."""
        rows = [self.HEAD] + [self.cells(line) for line in self.lines]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEAD))]
        text = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
        text.insert(1, " | ".join("-" * width for width in widths))
        short = [f"{line['row']} ({line['what']})" for line in self.lines if line["verdict"] == SHORT]
        end = ["falls short: " + "; ".join(short)] if short else ["nothing that was measured falls short of a promise"]
        return "\n".join([self.headline(), "", *[f"| {line} |" for line in text], "", *self.notes, *end])

    def write(self, path):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({**self.about, "lines": self.lines, "notes": self.notes}, file, indent=1)
        os.replace(path + ".new", path)
