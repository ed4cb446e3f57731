"""A progress bar for chains."""

import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["ChainProgress"]

REFRESH_SECONDS = 0.1


class ChainProgress:
    """One line per chain: iterations made, of all; a context manager.

    Parameters
    ----------
    chains : int
    total : int
        Iterations of each chain.
    visible : bool
    """

    def __init__(self, chains, total, visible=True):
        self._progress = Progress(
            TextColumn("Chain {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            disable=not visible,
        )
        self._total = total
        self._tasks = [self._progress.add_task(str(c), total=total) for c in range(chains)]
        self._shown = [-1.0] * chains

    def __enter__(self):
        """Start drawing."""
        self._progress.start()
        return self

    def __exit__(self, *exception):
        """Stop drawing."""
        self._progress.stop()

    def update(self, chain, done):
        """Show that ``done`` iterations of a chain are made."""
        now = time.monotonic()
        if done >= self._total or now - self._shown[chain] > REFRESH_SECONDS:
            self._shown[chain] = now
            self._progress.update(self._tasks[chain], completed=done)
