"""A peer that is a function, named `module:function`, of the current folder or a package."""

import importlib


def make(name):
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
