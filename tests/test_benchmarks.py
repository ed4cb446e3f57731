"""What the benchmarks say and keep."""

import json

from benchmarks import peers, timing


def test_a_peer_that_fails_is_named_and_left_out(capsys):
    """Fails if one package's error ends the measurement of the others."""

    def broken():
        raise RuntimeError("no such device")

    def absent():
        import a_package_that_nobody_has  # noqa: F401

    makers = {"one": lambda: lambda: 1, "two": broken, "three": lambda: broken, "four": absent}
    found = peers._that_work(makers)
    assert list(found) == ["one"] and found["one"]() == 1
    said = capsys.readouterr().out
    assert "two is left out: RuntimeError: no such device" in said and "three" in said
    assert "four" not in said


def test_tables_are_kept_with_their_circumstances(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "RESULTS", tmp_path / "today")
    timing.table("Two rows (of a test)", [("a", 1.0)], ("what", "ms"))
    assert (tmp_path / "today" / "two_rows.csv").read_text() == "what,ms\na,1\n"
    about = json.loads((tmp_path / "today" / "two_rows.json").read_text())
    assert about["table"] == "Two rows (of a test)"
    assert {"date", "cpu", "python", "pymc", "numba", "command"} <= set(about)
