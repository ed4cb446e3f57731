"""What is compiled beforehand."""

import sys

import pytest

from pymc_dshdp import warm


def test_every_model_is_used_and_the_time_told(monkeypatch, capsys):
    used = []
    monkeypatch.setattr(warm, "_use", lambda *what: used.append(what))
    monkeypatch.setattr(sys, "argv", ["warm"])
    warm.main()
    assert len(used) == len(warm.MODELS) + 2  # both samplers where there is self-persistence
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(used) + 1 and lines[-1].startswith("Compiled in 0 s")


@pytest.mark.slow
def test_a_model_is_sampled_and_read():
    warm._use(*warm.MODELS["DSHDP"], warm.dshdp.WeakLimitFFBS)
