"""Run the examples of the gallery and write their pages: question, script, output, answer.

    python examples/gallery.py                 # all of them, some six minutes
    python examples/gallery.py tracks visits   # these

Each runs as ``python examples/NAME.py`` and prints its answer last. Writes ``docs/gallery/NAME.md``
and ``NAME.png``, and ``docs/gallery.md``, which lists all pages. A page holds the digest of its
script and the version that ran it: the tests fail where it is older, or where it took longer than
two minutes.
"""

import argparse
import ast
import datetime
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pymc as pm
from PIL import Image

import pymc_dshdp as dshdp

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "gallery"

EXAMPLES = {
    "earthquakes": ("Rates of earthquakes, and how many regimes there were", "../tutorial.md"),
    "volatility": ("Monthly returns, and their scale with its interval", "../howto/regimes.md"),
    "choices": (
        "Coefficients of each strategy, and its share by session",
        "../howto/regression.md",
    ),
    "tracks": ("Share on the move by the hour, and the track", "../howto/persistence.md"),
    "labelled": ("Growth and unemployment by state, and P(recession)", "../howto/labelled.md"),
    "subjects": ("Share of time in haste, and one person", "../howto/sequences.md"),
    "places": ("Where a mouse is and faces, by the states of its cells", "../howto/counts.md"),
    "behaviour": ("A trial with the states found, and scores", "../howto/autoregression.md"),
    "conditions": ("Transition matrices under placebo and drug", "../howto/sequences.md"),
    "seasons": ("P(onset) by week, and of an outbreak ahead", "../howto/own_matrix.md"),
    "stages": ("Stages of two machines, and their vibration", "../howto/own_matrix.md"),
    "visits": ("Weeks of a relapse, and one patient", "../howto/own_matrix.md"),
}
"""What each picture shows, and the page about such models."""

INTRODUCTION = """<!-- python examples/gallery.py -->

# Gallery

Complete analyses in one short script each, the question first and the answer last, with what they
print and draw. Each takes under two minutes, and its script is in the folder
[examples](https://github.com/pymc-dshdp/pymc-dshdp/tree/main/examples). The first seven have
[data that come along](data.md), or come with matplotlib; the others are simulated, so that what is
found stands beside the truth: the paper's recording of movement is not ours to pass on, and the
script reads your copy of it."""


def digest(name):
    """Digest of a script and of the modules beside it that it imports."""
    found, seen = [name], []
    while found:
        seen.append(found.pop())
        tree = ast.parse((HERE / f"{seen[-1]}.py").read_text())
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            found += [n for n in names if (HERE / f"{n}.py").exists() and n not in seen + found]
    text = "\n".join((HERE / f"{name}.py").read_text() for name in [seen[0], *sorted(seen[1:])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamp(name):
    """First line of a page, by which the tests know whether it is of the present script."""
    return f"<!-- python examples/gallery.py {name}: {digest(name)}, {dshdp.__version__} -->"


def page(name, output, seconds):
    """Write a page: what was printed, but for where the picture is, and the answer last."""
    shown, howto = EXAMPLES[name]
    tree = ast.parse((HERE / f"{name}.py").read_text())
    question, _, about = ast.get_docstring(tree).split("\n\n", 2)
    output = re.sub(r"^saved .*\n", "", output, flags=re.MULTILINE).rstrip()
    printed, answer = output.rsplit("\nanswer: ", 1)
    if "\n" in answer:
        raise SystemExit(f"{name}.py prints after its answer:\n{answer}")
    about = re.sub(r"``(\S+)``", r"`\1`", about)
    return f"""{stamp(name)}

# {question}

{about}

How such models are written is [a page of its own]({howto}); the script is
[{name}.py](https://github.com/pymc-dshdp/pymc-dshdp/blob/main/examples/{name}.py).

```{{literalinclude}} ../../examples/{name}.py
:language: python
:lines: {tree.body[1].lineno}-
```

## Output

```text
{printed}
```

![{shown}]({name}.png)

## Answer

{answer[0].upper()}{answer[1:]}.

*`python examples/{name}.py`, {seconds:.0f} s on one core; pymc_dshdp {dshdp.__version__}, PyMC
{pm.__version__}, {datetime.date.today()}.*
"""


def index():
    """Write the list of all pages: question, picture, answer."""
    parts = [INTRODUCTION]
    for name, (shown, _) in EXAMPLES.items():
        text = (PAGES / f"{name}.md").read_text()
        question = re.search(r"^# (.*)$", text, re.MULTILINE)[1]
        answer = re.search(r"^## Answer\n\n(.*)$", text, re.MULTILINE)[1]
        parts += ["", f"## [{question}](gallery/{name}.md)", ""]
        parts += [f"![{shown}](gallery/{name}.png)", "", answer]
    toc = ["", "```{toctree}", ":hidden:", "", *(f"gallery/{name}" for name in EXAMPLES), "```", ""]
    return "\n".join(parts + toc)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *EXAMPLES], metavar="NAME")
    for name in parser.parse_args(arguments).names or EXAMPLES:
        print(f"{name} ...", flush=True)
        picture = PAGES / f"{name}.png"
        before = os.times()
        command = [sys.executable, HERE / f"{name}.py", "--out", picture]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        after = os.times()  # of processor time, whatever else the machine does
        seconds = after.children_user + after.children_system
        seconds -= before.children_user + before.children_system
        Image.open(picture).convert("RGB").quantize(256).save(picture, optimize=True)
        (PAGES / f"{name}.md").write_text(page(name, run.stdout, seconds))
        print(f"{name}: {seconds:.0f} s", flush=True)
    (PAGES.parent / "gallery.md").write_text(index())


if __name__ == "__main__":
    main()
