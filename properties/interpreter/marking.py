"""Marks in the code of interpreted kernels: before each statement, in each loop, around each condition."""

import ast
import os
from typing import Any

from cumae.properties.interpreter.coverage import Outline, add, next_number
from cumae.properties.results.coverage import Condition, Kind

_AT = "_cumae_at"
"""The local variable that holds the line of the last statement."""
_MASK_AT = {"load": 1, "store": 2}
"""Position of the mask of an access; that of an atomic is 2."""


def rewriter(inner: Any) -> property:
    """Return the attribute of the interpreter's class of rewriters: its rewriter of one kernel."""
    return property(lambda function: _Rewriter(inner, function))


class _Rewriter:
    """Marks code after another rewriter. ``function``: what the interpreter knows of the kernel."""

    def __init__(self, inner: Any, function: Any) -> None:
        self._inner = inner
        self._function = function

    def visit(self, tree: ast.Module) -> Any:
        """Return the rewritten code, with marks unless it is Triton's own."""
        tree = self._inner.visit(tree)
        is_theirs = self._function.fn.__module__.partition(".")[0] == "triton"
        for node in () if is_theirs else tree.body:
            if isinstance(node, ast.FunctionDef):
                _Marking(self._function, node).mark()
        return tree


class _Marking:
    """The marks of one function. Lines are those of the file in the marks, and those of the tree in it."""

    def __init__(self, function: Any, node: ast.FunctionDef) -> None:
        code = function.fn.__code__
        self._file, self._first = os.path.abspath(code.co_filename), code.co_firstlineno
        self._shift = function.def_file_lineno - 1
        self._node = node
        self._kernel = next_number()
        self._lines: set[int] = set()
        self._loops: list[int] = []

    def mark(self) -> None:
        """Mark the function and add its outline."""
        node, docstring = self._node, ast.get_docstring(self._node, clean=False) is not None
        conditions = _Conditions(self._kernel, self._shift)
        node.body = [conditions.visit(statement) for statement in node.body]
        statements = node.body[docstring:]
        if statements:
            enter = _code(f"{_AT} = {-self._first}", statements[0].lineno)
            statements = self._block(statements)
            self._leave(statements)
            node.body = [*node.body[:docstring], enter, *statements]
        lines, loops = tuple(sorted(self._lines)), tuple(self._loops)
        add(Outline(self._file, node.name, self._first, lines, tuple(conditions.found), loops))

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [marked for statement in statements for marked in self._statement(statement)]

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        at, line = statement.lineno, statement.lineno + self._shift
        self._lines.add(line)
        marks = [self._code("{at} = _cumae_ran({kernel}, {at}, {line})", line, at)]
        if isinstance(statement, ast.Return):
            marks.append(self._code("_cumae_ran({kernel}, {at}, {line})", -self._first, at))
        elif isinstance(statement, (ast.For, ast.While)):
            marks.append(self._turning(statement, line))
        elif isinstance(statement, (ast.If, ast.With)):
            statement.body = self._block(statement.body)
            if isinstance(statement, ast.If):
                statement.orelse = self._block(statement.orelse)
        return [*marks, statement]

    def _turning(self, loop: ast.For | ast.While, line: int) -> ast.stmt:
        """Mark a loop's body and end; return the statement that starts its count of turns."""
        number, turns = len(self._loops), f"_cumae_turns_{len(self._loops)}"
        self._loops.append(line)
        turn = _code(f"{turns} = _cumae_turn({self._kernel}, {number}, {turns})", loop.lineno)
        back = "{at} = _cumae_back({kernel}, {at}, {line})"
        loop.body = [turn, self._code(back, line, loop.lineno), *self._block(loop.body)]
        loop.orelse = [self._code(back, line, loop.lineno), *self._block(loop.orelse)]
        return _code(f"{turns} = 0", loop.lineno)

    def _leave(self, block: list[ast.stmt]) -> None:
        """Mark the end of the function wherever its last statement ends, on a line that runs there anyway."""
        last = block[-1]
        if isinstance(last, (ast.If, ast.For, ast.While)):
            if isinstance(last, ast.If):
                self._leave(last.body)
            if last.orelse:
                self._leave(last.orelse)
                return
            block = last.orelse
        elif isinstance(last, ast.With):
            self._leave(last.body)
            return
        if not isinstance(last, ast.Return):
            block.append(self._code("_cumae_ran({kernel}, {at}, {line})", -self._first, last.lineno))

    def _code(self, text: str, line: int, at: int) -> ast.stmt:
        return _code(text.format(at=_AT, kernel=self._kernel, line=line), at)


class _Conditions(ast.NodeTransformer):
    """Marks masks of accesses, conditions of ``where``, and those of ``if`` without ``else``."""

    def __init__(self, kernel: int, shift: int) -> None:
        self.found: list[Condition] = []
        self._kernel = kernel
        self._shift = shift

    def visit_If(self, node: ast.If) -> ast.If:
        if not node.orelse:
            node.test = self._marked("if", node, node.test)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        kind: Kind = "where" if name == "where" else "mask"
        place = (
            0 if kind == "where" else 2 if name.startswith("atomic_") else _MASK_AT.get(name, len(node.args))
        )
        if name and place < len(node.args) and not isinstance(node.args[place], ast.Starred):
            node.args[place] = self._marked(kind, node, node.args[place])
        for keyword in node.keywords:
            if keyword.arg == "mask" or (kind == "where" and keyword.arg == "condition"):
                keyword.value = self._marked(kind, node, keyword.value)
        self.generic_visit(node)
        return node

    def _marked(self, kind: Kind, node: ast.If | ast.Call, condition: ast.expr) -> ast.expr:
        marked = _code(f"_cumae_asked({self._kernel}, {len(self.found)}, 0)", condition.lineno)
        assert isinstance(marked, ast.Expr) and isinstance(marked.value, ast.Call)
        self.found.append(Condition(node.lineno + self._shift, node.col_offset, kind))
        marked.value.args[2] = condition
        return marked.value


def _code(text: str, line: int) -> ast.stmt:
    """Return one statement, placed at a line."""
    statement = ast.parse(text).body[0]
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return statement
