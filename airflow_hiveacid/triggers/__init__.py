"""Triggers of deferred tasks, and event triggers of assets."""

from hiveacid.public_names import loaders

__getattr__, __dir__ = loaders(__name__)
