"""A function of someone else, named as `module:function`, from the current folder or installed."""

import importlib


def make(name):
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
