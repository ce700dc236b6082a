"""Which tests cover a module that has no test file of its own: {pattern below the package: files below tests}."""

COVERED_BY = {}
