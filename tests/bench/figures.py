"""What a bench has measured: for each figure the values of ours, of the machine's limit and of a peer, a
round at a time; as a table for people and as JSON. Measures nothing itself."""

import json
import pathlib
import statistics

SCHEMA = 1  # of the JSON; goes up when a field changes its meaning or goes away


class Figure:
    """Ours beside the limit and the peer of the same round, all in `unit`. More is better for GB/s alone."""

    def __init__(self, suite, name, unit):
        self.suite, self.name, self.unit = suite, name, unit
        self.ours, self.limit, self.peer = [], [], []

    def ratio(self):
        """Ours to the limit: the median over the rounds, since a disk changes between one and the next."""
        pairs = [ours / limit for ours, limit in zip(self.ours, self.limit)]
        return statistics.median(pairs) if pairs else None

    def json(self):
        described = {"suite": self.suite, "figure": self.name, "unit": self.unit, "ratio": self.ratio()}
        for column in ("limit", "ours", "peer"):
            values = getattr(self, column)
            described[column] = values and {
                "median": statistics.median(values), "lowest": min(values), "highest": max(values), "values": values
            } or None
        return described


class Figures:
    def __init__(self):
        self._figures = {}  # by suite and name, in the order of their first value

    def add(self, suite, name, unit, *, ours=None, limit=None, peer=None):
        """One round's values of a figure."""
        figure = self._figures.setdefault((suite, name), Figure(suite, name, unit))
        for column, value in (("ours", ours), ("limit", limit), ("peer", peer)):
            if value is not None:
                getattr(figure, column).append(value)

    def print_table(self):
        head = ("figure", "unit", "limit", "ours", "lowest", "highest", "ratio", "peer")
        rows = [head] + [self._row(figure) for figure in self._figures.values()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        for row in rows:
            print("  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))

    @staticmethod
    def _row(figure):
        def median(values):
            return f"{statistics.median(values):.2f}" if values else "-"

        shown = figure.ours or figure.limit or figure.peer
        ratio = figure.ratio()
        return (
            f"{figure.suite}: {figure.name}", figure.unit, median(figure.limit), median(figure.ours),
            f"{min(shown):.2f}", f"{max(shown):.2f}", f"{ratio:.3f}" if ratio else "-", median(figure.peer),
        )

    def write_json(self, path, machine):
        figures = [figure.json() for figure in self._figures.values()]
        text = json.dumps({"schema": SCHEMA, "machine": machine, "figures": figures}, indent=2)
        pathlib.Path(path).write_text(text + "\n")
