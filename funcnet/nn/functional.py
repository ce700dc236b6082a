"""The functions of `funcnet.functional` at torch's import path: `import funcnet.nn.functional as F`."""

import typing

from funcnet.functional import *  # noqa: F403
from funcnet.functional import __all__ as __all__

if not typing.TYPE_CHECKING:
    from funcnet.functional import __getattr__ as __getattr__  # explains why a name is missing
