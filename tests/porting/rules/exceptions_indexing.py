"""Samples of the database for indexing that do not agree with torch, with the reasons.

`EXCEPTIONS` has {"name (form)": reason}. The other samples of these names agree.
"""

__all__ = ["EXCEPTIONS"]

EXCEPTIONS = {
    "where (function)": "The database passes the condition second, so the text of the call is not valid.",
    "where (method)": "The database passes the condition second, so the text of the call is not valid.",
}
