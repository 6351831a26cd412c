"""Every sentence that a module may record, found in its source: f-strings with a stand-in for each value."""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Collection, Iterator
from pathlib import Path

_MOST = 64


def sentences_of(module_name: str, callees: Collection[str]) -> list[str]:
    """What stands as an argument of a call of one of `callees`, as often as its parts have alternatives.

    A value is `'V'` where Python's quotes are around it, else `V`; module constants and what is assigned in the same
    function are put in.
    """
    module = importlib.import_module(module_name)
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    found: dict[str, None] = {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        reading = _Reading(function, vars(module))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name(node.func) in callees:
                for argument in node.args[:2]:
                    if _is_sentence(argument):
                        found |= dict.fromkeys(reading.texts(argument))
    return list(found)


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".")


class _Reading:
    """The texts that an expression of a function may come to."""

    def __init__(self, function: ast.FunctionDef, constants: dict[str, object]) -> None:
        self.constants = constants
        self.assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.assigned.setdefault(node.targets[0].id, []).append(node.value)

    def texts(self, node: ast.expr) -> list[str]:
        return list(dict.fromkeys(itertools.islice(self._texts(node, 0), _MOST)))

    def _texts(self, node: ast.expr, depth: int) -> Iterator[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [list(self._texts(part, depth)) for part in node.values]
            yield from map("".join, itertools.product(*parts))
        elif isinstance(node, ast.IfExp):
            yield from self._texts(node.body, depth)
            yield from self._texts(node.orelse, depth)
        elif isinstance(node, ast.FormattedValue):
            quoted = node.conversion == ord("r")
            yield from ["'V'"] if quoted else self._texts(node.value, depth)
        elif isinstance(node, ast.Name) and isinstance(self.constants.get(node.id), str):
            yield str(self.constants[node.id])
        elif isinstance(node, ast.Name) and node.id in self.assigned and depth < 3:
            for value in self.assigned[node.id]:
                yield from self._texts(value, depth + 1)
        else:
            yield "V"
