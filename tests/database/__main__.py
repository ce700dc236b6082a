"""The command: see the package's head."""

import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_default_matmul_precision", "highest")


def main() -> int:
    what, *names = sys.argv[1:] or [""]
    if what == "coverage":
        from tests.database import coverage

        return coverage.main(names)
    if what == "modules":
        from tests.database import modules as family

        known = family.MODULES
    elif what == "functions":
        from tests.database import functions as family

        known = family.FUNCTIONS
    elif what == "refusals":
        from tests.database import refusals as family

        known = family.KNOWN
    else:
        raise SystemExit(__doc__)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"not in the database: {unknown}; expected some of {sorted(known)}")
    bad = 0
    for name in names or sorted(known):
        for dtype in ("float32",) if what == "refusals" else ("float32", "float64"):
            start = time.perf_counter()
            result = family.run(name, dtype)
            bad += bool(result.failures)
            seconds = time.perf_counter() - start
            failed = f"{len(result.failures)} FAILED" if result.failures else "ok"
            print(f"{name:40} {dtype} {result.inputs:4} inputs, worst {result.worst:.1e}, {seconds:5.1f} s: {failed}")
            for line in result.failures[:8]:
                print("   ", line)
    print(f"{bad} entries with failures")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
