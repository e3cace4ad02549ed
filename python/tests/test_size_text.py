"""Size expressions as text: what they say is what sympy says."""

import itertools

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

from pipestage.export.errors import ExportError
from pipestage.export.size_text import (
    DATA_DEPENDENT,
    evaluate,
    linear_in,
    named_size,
    size_text,
)

ROWS, SEQ = named_size("rows"), named_size("seq")


@pytest.mark.parametrize("size, text", [
    (sympy.Integer(128), 128),
    (ROWS, "rows"),
    (4 * ROWS + 1, "rows*4+1"),
    (FloorDiv(SEQ - 1, 2), "(seq-1)//2"),
    (Mod(SEQ, 8), "seq%8"),
    (2 * FloorDiv(SEQ, 3), "(seq//3)*2"),
    (ROWS * SEQ, "rows*seq"),
    (10 - SEQ, "0-seq+10"),
    (SEQ**2, "seq*seq"),
    (DATA_DEPENDENT, "?"),
])
def test_text_of_a_size(size, text):
    assert size_text(size) == text


SIZES = [
    ROWS - SEQ, 3 - 2 * ROWS + SEQ, FloorDiv(ROWS, FloorDiv(SEQ, 2) + 1),
    Mod(ROWS * 3, SEQ + 1) * 2, FloorDiv(ROWS * SEQ, 2) - Mod(SEQ, 3),
    (ROWS + 1) * (SEQ - 2), (ROWS + 1)**2, -(ROWS + SEQ) * 3 + 50,
    FloorDiv(FloorDiv(ROWS, 2), FloorDiv(SEQ, 2) + 1), 5 * Mod(SEQ, 4) * ROWS,
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_text_means_what_the_size_means(size):
    for rows, seq in itertools.product(range(1, 9), range(1, 9)):
        meant = size.subs({ROWS: rows, SEQ: seq})
        assert evaluate(size, {"rows": rows, "seq": seq}) == int(meant)


@pytest.mark.parametrize("size", [ROWS / 2, sympy.Max(ROWS, SEQ), sympy.sqrt(ROWS)])
def test_sizes_beyond_the_grammar_are_refused(size):
    with pytest.raises(ExportError, match="cannot be written in a contract"):
        size_text(size)


def test_linear_sizes_are_recognised():
    assert linear_in(2 * ROWS + 3) == (2, ROWS, 3)
    assert linear_in(ROWS * SEQ) is None
    assert linear_in(FloorDiv(ROWS, 2)) is None
