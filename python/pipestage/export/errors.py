"""What can go wrong in an export, said in one plain sentence."""

import re


class ExportError(Exception):
    """The model cannot be exported as asked; the message says why.

    Where PyTorch refused something, its exception is the `__cause__`.
    """


_USER_CODE = re.compile(
    r"The following call raised this error:\s*"
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in \w+\s*\n?\s*(?P<code>[^\n]*)'
)
_SPECIALIZED = re.compile(
    r"marked (?P<name>\w+) as dynamic but your code specialized it to be a "
    r"constant \((?P<value>\d+)\)"
)
_RELATED = re.compile(r"must always be (?:equal|related)")
_UNSATISFIED = re.compile(
    r"Not all values of (?P<name>\w+) = .*? satisfy the generated guard "
    r"(?P<guard>[^\n]*)"
)
_SUGGESTION = re.compile(
    r"(?P<name>\w+) = Dim\('\w+'(?P<bounds>(?:, *(?:min|max)=\d+)+)\)"
)


def explain(what: str, error: BaseException, sizes: dict[str, str]) -> str:
    """One sentence for what torch.export raised while it traced `what`.

    `sizes` says what each dynamic dimension's name stands for in the contract.
    """
    text = str(error)
    if "data-dependent expression" in text:
        return _explain_data_dependence(what, text)
    if "Constraints violated" in text:
        return _explain_constraints(what, text, sizes)
    if ".numpy()" in text:
        return (
            f"{what} leaves PyTorch for NumPy, where torch.export cannot "
            f"follow: use torch operators{_place(text)}."
        )
    first = next((ln for ln in text.splitlines() if ln.strip()), repr(error))
    return f"torch.export refused {what}: {first.strip()}"


def _place(text: str) -> str:
    match = _USER_CODE.search(text)
    if match is None:
        return ""
    code = match["code"].strip()
    shown = f" at `{code}`" if code else ""
    return f"{shown} ({match['file']}:{match['line']})"


def _explain_data_dependence(what: str, text: str) -> str:
    return (
        f"{what} decides by the value of a tensor{_place(text)}; an exported "
        "program has no such control flow: compute both and choose with "
        "torch.where, or decide outside the model."
    )


def _explain_constraints(what: str, text: str, sizes: dict[str, str]) -> str:
    def named(name: str) -> str:
        return sizes.get(name, name)

    if match := _SPECIALIZED.search(text):
        return (
            f"{what} works only with {named(match['name'])} = {match['value']}: "
            "its code turns this size into a number; take it from x.shape, or "
            "use -1, so that it stays open."
        )
    if _RELATED.search(text):
        relation = next(ln for ln in text.splitlines() if _RELATED.search(ln))
        relation = re.sub(r" = L\[[^\s]+", "", relation.strip(" -."))
        relation = re.sub(r"\w+", lambda m: named(m[0]), relation)
        return (
            f"{what} needs sizes to agree that were declared independent "
            f"({relation}): give these axes the same name."
        )
    if match := _SUGGESTION.search(text):
        bounds = match["bounds"].lstrip(", ")
        return (
            f"{what} does not work for every {named(match['name'])}, only for "
            f"{bounds}: declare it with sizes={{'{named(match['name'])}': "
            f"Size({bounds})}}, or mend the branch that depends on it."
        )
    if match := _UNSATISFIED.search(text):
        guard = re.sub(r"L\[[^]]*\](?:\[\d+\])*\.size\(\)\[\d+\]",
                       named(match["name"]), match["guard"])
        return (
            f"{what} does not work for every {named(match['name'])}, only "
            f"where {guard.rstrip('.')}: declare narrower sizes, or rewrite "
            "what depends on it."
        )
    return f"{what} restricts its dynamic sizes: {text.splitlines()[0]}"
