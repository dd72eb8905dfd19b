# SPDX-License-Identifier: GPL-2.0
"""The table of kernels and what was shown on each: rows of kernels, columns of tests."""

ORDER = {"failed": 0, "skipped": 1, "passed": 2}


class Matrix:
    """Collects the outcomes of the tests that are marked matrix(column)."""

    def __init__(self):
        self._cells = {}

    def add(self, row, column, outcome):
        """A test has ended; the worst of a cell's outcomes stands."""
        before = self._cells.get((row, column), outcome)
        self._cells[row, column] = min(before, outcome, key=ORDER.get)

    def text(self):
        """The table in Markdown, or nothing without a cell."""
        if not self._cells:
            return ""
        rows = list(dict.fromkeys(row for row, _ in self._cells))
        columns = list(dict.fromkeys(column for _, column in self._cells))
        lines = [["kernel", *columns], ["---"] * (len(columns) + 1)]
        lines += [[row, *(self._cells.get((row, column), "") for column in columns)]
                  for row in rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
