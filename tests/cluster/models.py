"""Closed-form packages for tests: what they compute can be said in one line."""

import numpy as np

from examples.closed_form.write import write_closed_form


def digits(repository, stages, name=None, **options):
    """x -> 10*x + (s+1) at stage s, on [rows, 1] float64: row i gives i12...S. No loss."""
    name = name or f"digits{stages}"
    write_closed_form(repository, name, "1", stages, module="digit", **options)
    return name


def digits_of(rows, stages):
    """What `digits` gives for rows holding these numbers."""
    out = np.asarray(rows, dtype=np.float64).reshape(-1, 1)
    for stage in range(stages):
        out = 10 * out + (stage + 1)
    return out


def rows(count, base=0):
    return (base + np.arange(count, dtype=np.float64)).reshape(-1, 1)
