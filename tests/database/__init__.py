"""torch's own test databases against funcnet: every module, every function, every input that torch tests itself with.

`module_db` and `op_db` hold arguments, not answers: the answers are torch's, computed in float64.

    python -m tests.database modules                        # every entry
    python -m tests.database functions conv2d interpolate   # some
    python -m tests.database refusals Conv2d                # what both must refuse
"""
