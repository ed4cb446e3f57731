"""Reports that print well in a terminal and in a notebook."""

import io
import shutil

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Report", "interval", "number", "rounded", "table"]

WIDTH = 80  # where there is no terminal
GAP = 2  # columns between two columns of a table
SMALL = 0.001
HTML = '<pre style="white-space: pre; overflow-x: auto; line-height: normal">{code}</pre>'


class Report:
    """Base of reports: a subclass yields rich renderables in ``__rich_console__``.

    They are as wide as the terminal, and carry no escape codes where they become a string.
    """

    def _console(self, **kwargs):
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        console = Console(file=io.StringIO(), width=width, force_jupyter=False, **kwargs)
        console.print(self)
        return console

    def __str__(self):
        lines = self._console(color_system=None).file.getvalue().splitlines()
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self):
        return self._console(record=True).export_html(code_format=HTML, inline_styles=True)


def number(x, digits=3):
    """Format a number to some significant digits."""
    if not np.isfinite(x):
        return "-" if np.isnan(x) else ("∞" if x > 0 else "-∞")
    if abs(x) >= 10**digits:
        return f"{x:,.0f}" if abs(x) < 1e7 else f"{x:.2e}"
    if x == 0 or abs(x) >= SMALL:
        return f"{x:.{digits}g}"
    return f"{x:.0e}"


def interval(middle, lower, upper):
    """Format columns of estimates and of the bounds of their intervals.

    Beside a number of another order, one below 0.001 is said to be that.
    """
    out = []
    for values in zip(middle, lower, upper, strict=True):
        finite = [abs(x) for x in values if np.isfinite(x)]
        small = bool(finite) and max(finite) >= SMALL
        m, a, b = (
            ("<0.001" if x > 0 else ">-0.001")
            if small and 0 < abs(x) < SMALL
            else number(x, digits)
            for x, digits in zip(values, (3, 2, 2), strict=True)
        )
        out.append(f"{m} [{a}, {b}]")
    return out


def rounded(diagnostics):
    """Format the columns of ``invariant.diagnostics``."""
    out = diagnostics.copy()
    for column in ("ess_bulk", "ess_tail"):
        out[column] = ["-" if np.isnan(x) else f"{x:.0f}" for x in out[column]]
    out["r_hat"] = ["-" if np.isnan(x) else f"{x:.3f}" for x in out["r_hat"]]
    return out


def table(frame, title, options, justify="right"):
    """Yield a title and a rich table of a DataFrame of strings and numbers, its index first.

    Columns that do not fit beside each other in ``options.max_width`` go below, in tables with the
    same index. What is too wide by itself is folded, never cut.
    """
    texts = frame.map(lambda x: x if isinstance(x, str) else number(x))
    name = str(frame.index.name or "")
    first = max([cell_len(name), *(cell_len(str(label)) for label in frame.index)])
    first = min(first, options.max_width // 2)
    widths = [
        GAP + max([cell_len(str(c)), *(cell_len(x) for x in texts[c])]) for c in frame.columns
    ]
    yield Text(title, style="bold underline")
    low = 0
    while low < max(1, len(widths)):
        high, used = low + 1, first + sum(widths[low : low + 1])
        while high < len(widths) and used + widths[high] <= options.max_width:
            used += widths[high]
            high += 1
        out = Table(box=None, pad_edge=False)
        out.add_column(Text(name), style="bold", overflow="fold", max_width=first)
        for column in frame.columns[low:high]:
            out.add_column(Text(str(column)), justify=justify, overflow="fold")
        for label, row in zip(frame.index, texts.iloc[:, low:high].values, strict=True):
            out.add_row(*(Text(str(x)) for x in (label, *row)))  # [wake] is no markup
        yield out
        yield Text()
        low = high
