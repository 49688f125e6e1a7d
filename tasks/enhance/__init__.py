"""Shelf of enhancers; `tasks.plugins.contracts.enhance` is their contract."""

from tasks.plugins.contracts.enhance import Enhancer

__all__ = ["Enhancer"]
