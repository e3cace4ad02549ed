"""Sizes of axes: sympy expressions in named sizes, and their text in contracts.

The text is docs/formats.md's: integers, names, + - * // % and parentheses with
Python's meaning.
"""

from collections.abc import Mapping
from typing import Final, Union

import sympy
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod

from pipestage.export.errors import ExportError


class DataDependent:
    """A size known only when the tensor is there: "?"."""

    def __repr__(self) -> str:
        return "?"


DATA_DEPENDENT: Final = DataDependent()

SizeExpr = Union[sympy.Expr, DataDependent]

# How tightly an operator binds; what binds less is put in parentheses.
_SUM, _PRODUCT, _ATOM = range(3)


def named_size(name: str) -> sympy.Symbol:
    """The symbol of a named size."""
    return sympy.Symbol(name, integer=True, positive=True)


def size_text(size: SizeExpr) -> str | int:
    """A size as a contract writes it: a number, or text.

    Raises:
      ExportError: it needs more than + - * // %.
    """
    if isinstance(size, DataDependent):
        return "?"
    if size.is_Integer:
        return int(size)
    return _text(size)[0]


def evaluate(size: SizeExpr, values: Mapping[str, int]) -> int | None:
    """The size under `values`, read from its text; None for "?"."""
    text = size_text(size)
    if text == "?":
        return None
    if isinstance(text, int):
        return text
    return eval(text, {"__builtins__": {}}, dict(values))


def mentions(size: SizeExpr, name: str) -> bool:
    """Whether the size depends on the named size."""
    return (not isinstance(size, DataDependent)
            and named_size(name) in size.free_symbols)


def linear_in(size: sympy.Expr) -> tuple[int, sympy.Symbol, int] | None:
    """(a, n, b) if the size is a*n + b with integers a and b, else None."""
    if len(size.free_symbols) != 1:
        return None
    (symbol,) = size.free_symbols
    a, b = size.coeff(symbol, 1), size.coeff(symbol, 0)
    if not (a.is_Integer and b.is_Integer and a > 0):
        return None
    return (int(a), symbol, int(b)) if a * symbol + b == size else None


def _text(expr: sympy.Expr) -> tuple[str, int]:
    if expr.is_Symbol:
        return expr.name, _ATOM
    if expr.is_Integer:
        return (str(expr), _ATOM) if expr >= 0 else (f"(0-{-expr})", _ATOM)
    if expr.is_Add:
        return _sum_text(expr)
    if expr.is_Mul:
        return _product_text(expr)
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return "*".join([_within(expr.base, _ATOM)] * int(expr.exp)), _PRODUCT
    if isinstance(expr, (FloorDiv, CleanDiv)):
        return _binary(expr, "//")
    if isinstance(expr, (Mod, PythonMod)):
        return _binary(expr, "%")
    raise ExportError(
        f"the size {expr} cannot be written in a contract, which knows only "
        "whole numbers, named sizes, + - * // % and parentheses")


def _within(expr: sympy.Expr, at_least: int) -> str:
    text, binding = _text(expr)
    return text if binding >= at_least else f"({text})"


def _binary(expr: sympy.Expr, operator: str) -> tuple[str, int]:
    left, right = expr.args
    return f"{_within(left, _ATOM)}{operator}{_within(right, _ATOM)}", _PRODUCT


def _sum_text(expr: sympy.Expr) -> tuple[str, int]:
    # Names first, so that it reads "rows*4+1"; the order is sympy's, which is fixed.
    terms = sorted(expr.args, key=lambda t: (t.is_Integer, _negative(t), str(t)))
    if _negative(terms[0]):
        first = f"0-{_within(-terms[0], _PRODUCT)}"
    else:
        first = _within(terms[0], _PRODUCT)
    rest = [
        f"-{_within(-t, _PRODUCT)}" if _negative(t) else f"+{_within(t, _PRODUCT)}"
        for t in terms[1:]
    ]
    return first + "".join(rest), _SUM


def _negative(term: sympy.Expr) -> bool:
    return bool(term.as_coeff_Mul()[0] < 0)


def _product_text(expr: sympy.Expr) -> tuple[str, int]:
    coefficient, rest = expr.as_coeff_Mul()
    if not coefficient.is_Integer:
        raise ExportError(
            f"the size {expr} cannot be written in a contract: it has the "
            f"fraction {coefficient}")
    if coefficient < 0:
        return f"0-{_within(-expr, _PRODUCT)}", _SUM
    factors = list(sympy.Mul.make_args(rest))
    if coefficient != 1:
        factors.append(coefficient)
    # A factor that is itself a // or % needs its own parentheses: 2*(n//2).
    return "*".join(_within(f, _ATOM) for f in factors), _PRODUCT
