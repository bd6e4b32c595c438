"""One pattern a file; every module of this package is loaded by the registry.

The package can be called: ``mpicoll.algorithms("allreduce")`` gives all of a collective by name.
"""

from mpicoll.schedule import algorithms, callable_package

callable_package(__name__, algorithms)
