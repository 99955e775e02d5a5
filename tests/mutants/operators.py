"""Small changes of a program, each of which a test should notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATIONS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "sin": "cos", "cos": "sin", "any": "all", "all": "any"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one file; `lines` are those whose tests can notice it."""

    path: str
    function: str
    lines: tuple[int, ...]
    start: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        """The file, the function and the change, which stay the same when lines move."""
        return f"{self.path} {self.function}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + f"({self.new})".encode() + source[self.end :]


def mutants_of(root: Path, path: str) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    source = (root / path).read_bytes()
    firsts = [0]  # where lines begin, in bytes like the columns of `ast`
    for line in source.splitlines(keepends=True):
        firsts.append(firsts[-1] + len(line))
    for function, statement, node in _expressions(ast.parse(source), ""):
        start, end = firsts[node.lineno - 1] + node.col_offset, firsts[node.end_lineno - 1] + node.end_col_offset
        old = source[start:end].decode()
        lines = tuple(sorted({statement.lineno, *range(node.lineno, node.end_lineno + 1)}))
        for new in _changed(node):
            yield Mutant(path=path, function=function, lines=lines, start=start, end=end, old=old, new=ast.unparse(new))


def _expressions(
    node: ast.AST, function: str, statement: ast.AST | None = None
) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield the expressions that run, each with the names of its functions and its statement."""
    if isinstance(node, ast.expr) and statement is not None:
        yield function, statement, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_for_types(child):
                continue  # a message may say what it likes
            named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
            inside = f"{function}.{child.name}".strip(".") if named else function
            yield from _expressions(child, inside, child if isinstance(child, ast.stmt) else statement)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node with each change that applies to it."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                new = deepcopy(node)
                new.ops[index] = COMPARISONS[type(op)]()
                yield new
        case ast.BinOp(op=op) if type(op) in OPERATIONS:
            yield ast.BinOp(node.left, OPERATIONS[type(op)](), node.right)
        case ast.BoolOp(op=op):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name]), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            yield ast.Call(ast.Attribute(node.func.value, NAMES[name]), node.args, node.keywords)
