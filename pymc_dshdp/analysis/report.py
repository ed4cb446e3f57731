"""Reports that print well in a terminal and in a notebook."""

import io

import numpy as np
from rich.console import Console
from rich.jupyter import JupyterMixin
from rich.table import Table
from rich.text import Text

__all__ = ["Report", "interval", "number", "rounded", "table"]

WIDTH = 100


class Report(JupyterMixin):
    """Base of reports: a subclass yields rich renderables in ``__rich_console__``."""

    def __str__(self):
        console = Console(file=io.StringIO(), width=WIDTH)
        console.print(self)
        lines = console.file.getvalue().splitlines()
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def number(x, digits=3):
    """Format a number to some significant digits."""
    if not np.isfinite(x):
        return "-" if np.isnan(x) else ("∞" if x > 0 else "-∞")
    if abs(x) >= 10**digits:
        return f"{x:,.0f}" if abs(x) < 1e7 else f"{x:.2e}"
    if x == 0 or abs(x) >= 0.001:
        return f"{x:.{digits}g}"
    return f"{x:.0e}"


def interval(middle, lower, upper):
    """Format columns of estimates and of the bounds of their intervals."""
    return [
        f"{number(m)} [{number(a, 2)}, {number(b, 2)}]"
        for m, a, b in zip(middle, lower, upper, strict=True)
    ]


def rounded(diagnostics):
    """Format the columns of ``invariant.diagnostics``."""
    out = diagnostics.copy()
    for column in ("ess_bulk", "ess_tail"):
        out[column] = [f"{x:.0f}" for x in out[column]]
    out["r_hat"] = ["-" if np.isnan(x) else f"{x:.3f}" for x in out["r_hat"]]
    return out


def table(frame, title, justify="right"):
    """Yield a title and a rich table of a DataFrame of strings and numbers, its index first.

    Columns that do not fit beside each other go below, in tables with the same index.
    """
    texts = frame.map(lambda x: x if isinstance(x, str) else number(x))
    name = str(frame.index.name or "")
    first = max([len(name), *(len(str(label)) for label in frame.index)])
    widths = [max([len(str(c)), *texts[c].str.len()]) + 1 for c in frame.columns]
    yield Text(title, style="bold underline")
    low = 0
    while low < max(1, len(widths)):
        high, used = low + 1, first + sum(widths[low : low + 1])
        while high < len(widths) and used + widths[high] <= WIDTH:
            used += widths[high]
            high += 1
        out = Table(box=None, pad_edge=False)
        out.add_column(name, style="bold", no_wrap=True)
        for column in frame.columns[low:high]:
            out.add_column(str(column), justify=justify, no_wrap=True)
        for label, row in zip(frame.index, texts.iloc[:, low:high].values, strict=True):
            out.add_row(str(label), *row)
        yield out
        yield Text()
        low = high
