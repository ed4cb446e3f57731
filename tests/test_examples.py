"""The parts of the examples on real data: files read, the start handed on, scores."""

import argparse
import importlib
import re
from pathlib import Path

import numpy as np
import pytensor
import pytest
from models import python_graphs, sample

import pymc_dshdp as dshdp

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = ("stages", "volatility")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    python_graphs(monkeypatch)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def turns(rng, lengths):
    """Rotations by a small or a large angle, as trials of different lengths."""
    trials = []
    for length in lengths:
        y = np.zeros((length, 2))
        y[0] = rng.normal(size=2)
        for t in range(1, length):
            angle = 0.2 if t < length // 2 else 2.0
            R = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            y[t] = 0.98 * np.array(R) @ y[t - 1] + 0.05 * rng.normal(size=2)
        trials.append(y)
    return trials


@pytest.mark.slow
def test_models_start_from_the_parametric_path(monkeypatch):
    """Fails if the path is not handed on, or if the test data set the prior."""
    behaviour = importlib.import_module("behaviour")
    three_models = importlib.import_module("three_models")
    rng = np.random.default_rng(3)
    data = [behaviour.joined("y", turns(rng, lengths)) for lengths in ([30, 20], [24])]
    train, test = behaviour.standardised(*data)
    np.testing.assert_allclose(train.y.std(axis=0), 1.0)
    declare = behaviour.declaration(train, 1)

    def shortly(model, options):
        return sample(model, draws=4, tune=3, chains=options.chains)

    monkeypatch.setattr(behaviour, "sample", shortly)
    path = behaviour.parametric_path(declare, train, argparse.Namespace(parametric_states=3))
    assert path.shape == (50,) and path.max() < 3
    model = declare(dshdp.DSHDP, train, 4, initial_states=path)
    started = sample(model, tune=2, draws=3, discard_tuned_samples=False)
    held = started["warmup_posterior"]["z"].values
    np.testing.assert_array_equal(held[:, 0], np.tile(path, (2, 1)))

    chain = started["posterior"]
    again = declare(dshdp.DSHDP, test, 4)
    assert again["ar_Sigma"].owner.inputs[2].eval() == pytest.approx(
        model["ar_Sigma"].owner.inputs[2].eval()
    )
    score = dshdp.held_out_log_likelihood(started, model=again)
    fit = three_models.Fit(started, score, 1.0)
    row = three_models._row(fit).split()
    assert float(row[0]) == pytest.approx(float(score["total"].mean()), rel=0.01)
    assert float(row[4]) == pytest.approx(float(np.median(chain["hmm_alpha"])), rel=0.01)
    assert three_models._difference(fit, fit, "DS").endswith("2 chains: p = 1")


def test_files_of_trials(tmp_path):
    behaviour = importlib.import_module("behaviour")
    trials = turns(np.random.default_rng(1), [9, 7])
    ragged = np.empty(2, object)
    ragged[:] = trials
    np.savez(tmp_path / "ragged.npz", yt_train=ragged, yt_test=ragged)
    train, _ = behaviour.load(tmp_path / "ragged.npz", trusted=True)
    np.testing.assert_array_equal(train.y, np.concatenate(trials))
    assert train.lengths == [9, 7]
    with pytest.raises(SystemExit, match="if you trust the file, add --trust-file"):
        behaviour.load(tmp_path / "ragged.npz", trusted=False)
    np.savez(tmp_path / "other.npz", y=trials[0])
    with pytest.raises(SystemExit, match=r"lacks the arrays \['yt_test', 'yt_train'\]"):
        behaviour.load(tmp_path / "other.npz", trusted=False)
    with pytest.raises(SystemExit, match="must hold trials of shape"):
        behaviour.joined("yt_train", [trials[0], trials[1][:, :1]])


def test_map_of_places(tmp_path):
    hippocampus = importlib.import_module("hippocampus")
    rng = np.random.default_rng(2)
    counts, positions = rng.poisson(1.0, (2, 10, 3)), rng.normal(size=(2, 10, 2))
    file = tmp_path / "sample.npz"
    np.savez(file, yt_train=counts.astype(float), yt_test=counts, loc_train=positions)
    train, _, found = hippocampus.load(file)
    np.testing.assert_array_equal(train, counts)
    hippocampus.place_map(rng.integers(4, size=(2, 10)), found, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 0
    np.savez(file, yt_train=counts - 0.5, yt_test=counts, loc_train=positions)
    with pytest.raises(SystemExit, match="yt_train must hold counts"):
        hippocampus.load(file)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in (
            *("choices", "conditions", "earthquakes", "labelled", "places"),
            *("seasons", "stages", "subjects", "tracks", "visits", "volatility"),
        )
    ],
)
def test_short_examples_of_the_gallery(name, tmp_path, capsys):
    """Fails if one no longer runs, prints no answer or draws nothing."""
    module = importlib.import_module(name)
    module.main(["--quick", "--out", str(tmp_path / f"{name}.png")])
    assert "answer: " in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert module.__doc__.splitlines()[0].endswith("?"), "the question comes first"


def test_pages_of_the_gallery_are_of_their_scripts(monkeypatch):
    """Fails if a script was changed, or the version, and its page not written again."""
    gallery = importlib.import_module("gallery")
    assert (gallery.PAGES.parent / "gallery.md").read_text() == gallery.index()
    assert {page.stem for page in gallery.PAGES.iterdir()} == set(gallery.EXAMPLES)
    for name in gallery.EXAMPLES:
        page = (gallery.PAGES / f"{name}.md").read_text()
        again = f"python examples/gallery.py {name}"
        assert page.startswith(gallery.stamp(name)), f"{name}.md is old: {again}"
        assert int(re.search(r"`, (\d+) s on one core", page)[1]) <= 120, name
        assert (gallery.PAGES / f"{name}.png").stat().st_size < 60_000, name
    text = (EXAMPLES / "short.py").read_text()
    before = gallery.digest("visits"), gallery.digest("behaviour")
    read = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path: read(path) + "#" * (path.name == "short.py")
    )
    assert text != (EXAMPLES / "short.py").read_text()
    assert (gallery.digest("visits") != before[0]) and gallery.digest("behaviour") == before[1]


def test_a_page_of_the_gallery_has_what_was_printed():
    """Fails if a page does not end with the answer, or if it says where a file was saved."""
    gallery = importlib.import_module("gallery")
    page = gallery.page("visits", "state  weeks\nanswer: 6 weeks\nsaved visits.png\n", 3.2)
    assert "```text\nstate  weeks\n```" in page and "saved" not in page
    assert "\n## Answer\n\n6 weeks.\n" in page and "`, 3 s on one core" in page
    with pytest.raises(SystemExit, match="prints after its answer"):
        gallery.page("visits", "state\nanswer: 6 weeks\nmore\n", 3.2)
