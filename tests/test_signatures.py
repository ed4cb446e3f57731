"""Public functions say which types they take and return."""

import inspect
from pathlib import Path

import pytest

import pymc_dshdp as dshdp

PUBLIC = [name for name in dshdp.__all__ if not inspect.ismodule(getattr(dshdp, name))]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_has_a_type(name):
    thing = getattr(dshdp, name)
    signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
    untyped = [
        p.name
        for p in signature.parameters.values()
        if p.annotation is p.empty and p.name != "self"
    ]
    assert not untyped
    assert signature.return_annotation is not signature.empty


def test_no_module_has_the_name_of_a_public_function():
    modules = {path.stem for path in Path(dshdp.__file__).parent.rglob("*.py")}
    assert not modules & set(dshdp.__all__) - {"datasets"}
