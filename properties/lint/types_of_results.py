"""The types of an operation's results in the text of Triton's intermediate representation."""

import re


def listed_types(text: str) -> list[str]:
    """Return the types of a list, with or without brackets.

    >>> listed_types("(i32, tensor<4x!tt.ptr<i64>>)  : i32 {")
    ['i32', 'tensor<4x!tt.ptr<i64>>', 'i32']
    """
    return re.findall(r"[\w!.]+(?:<[^()]*?>+)?(?=,|\)|\s|$)", text.strip().removeprefix("("))


def result_types(name: str, text: str) -> str:
    """Return the part of an operation's text that lists the types of its results.

    >>> result_types("arith.extsi", "arith.extsi %a : tensor<4xi32> to tensor<4xi64>")
    'tensor<4xi64>'
    >>> result_types("tt.load", "tt.load %a, %m, %b : tensor<4x!tt.ptr<i32>>")
    'tensor<4xi32>'
    """
    given = text.rpartition(" : ")[2]
    if name in ("arith.cmpi", "arith.cmpf"):
        return re.sub(r"(?:(?<=x)|^)[a-z]+\d+(?=>?$)", "i1", given)
    if name == "tt.load":
        return re.sub(r"!tt\.ptr<([^<>]*)>", r"\1", given)
    if name == "tt.addptr":
        return given.rpartition(", ")[0]
    if name == "arith.select":
        return given.rpartition(", ")[2]
    for arrow in ("-> ", " to "):
        given = given.rpartition(arrow)[2]
    return given
