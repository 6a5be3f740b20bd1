"""What a record computes when it is first asked for, and keeps.

It is `functools.cached_property`, in Python 3.11 without its lock: a thread may hold it when the process forks, and
nobody opens it in the child. Without it two threads may both compute a value, which is the same.
"""

import sys
from functools import cached_property
from typing import TYPE_CHECKING

__all__ = ["cached_property"]

if not TYPE_CHECKING and sys.version_info < (3, 12):

    class cached_property(cached_property):
        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
