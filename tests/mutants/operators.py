"""Small changes of a program, each of which a test should notice."""

from __future__ import annotations

import ast
import itertools
import re
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
WORD = re.compile(r"[A-Za-z_][\w.-]*")
SIBLINGS = (("half", "interleaved", "interleaved_to_half"), ("lead", "trail", "spread"))  # of which each has the next
IN_C = {
    " + ": " - ", " - ": " + ", " * ": " + ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " == ": " != ",
    " != ": " == ", " && ": " || ", " || ": " && ", " += ": " -= ", "FROM_HALF": "TO_HALF",
    "EVENS": "ODDS", "LOWS": "HIGHS",
}  # fmt: skip
FUNCTION = re.compile(rb"(\w+)\)?\((?!\w+\))")  # also one of `NAME(pairs)(…)`
# Comments, macros and strings
NO_CODE = re.compile(rb"/\*.*?\*/|^#(?:[^\n]*\\\n)*[^\n]*|\"[^\"\n]*\"", re.DOTALL | re.MULTILINE)
NAMES = {"min": "max", "max": "min", "sin": "cos", "cos": "sin", "any": "all", "all": "any"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one file.

    `lines` are those whose tests can notice it, `text` is the first that it changes; `entry` has the words of the keys
    of the dicts around it.
    """

    path: str
    function: str
    lines: tuple[int, ...]
    entry: tuple[str, ...]
    text: str
    start: int
    end: int
    old: str
    new: str

    @property
    def name(self) -> str:
        """The file, the names of function and variable, the change, and its line: they stay when lines move."""
        old, new = (" ".join(part.split()) for part in (self.old, self.new))
        return f"{self.path} {self.function}: {old} -> {new} in {self.text}"

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        new = f"({self.new})" if self.path.endswith(".py") else self.new
        return source[: self.start] + new.encode() + source[self.end :]


def mutants_of(root: Path, path: str) -> Iterator[Mutant]:
    """Yield all mutants of a file of Python or C."""
    source = (root / path).read_bytes()
    if not path.endswith(".py"):
        yield from _mutants_of_c(path, source)
        return
    texts = source.splitlines(keepends=True)
    firsts = [0, *itertools.accumulate(map(len, texts))]  # where lines begin, in bytes like the columns of `ast`
    for function, statement, entry, node in _expressions(ast.parse(source), ""):
        start, end = firsts[node.lineno - 1] + node.col_offset, firsts[node.end_lineno - 1] + node.end_col_offset
        place = {
            "path": path,
            "function": function,
            "lines": tuple(sorted({statement.lineno, *range(node.lineno, node.end_lineno + 1)})),
            "entry": entry,
            "text": texts[node.lineno - 1].decode().strip(),
        }
        for new in _changed(node):
            yield Mutant(**place, start=start, end=end, old=source[start:end].decode(), new=ast.unparse(new))


def _mutants_of_c(path: str, source: bytes) -> Iterator[Mutant]:
    """Yield changes of operators and numbers of C, outside of comments and of lines for the preprocessor."""
    begin, function, changed = 0, "", "|".join(map(re.escape, IN_C)).encode() + rb"|(?<![\w.])\d+(?![\w.])"
    blank = re.sub(NO_CODE, lambda found: re.sub(rb"[^\n]", b" ", found[0]), source)
    for number, (line, text) in enumerate(zip(blank.split(b"\n"), source.split(b"\n"), strict=True), start=1):
        if line[:1].isalpha() and (called := FUNCTION.search(line)):
            function = called[1].decode()
        for found in re.finditer(changed, line):
            old = found[0].decode()
            new = str(int(old) + 1) if old.isdigit() else IN_C[old]
            place = {"path": path, "function": function, "lines": (number,), "entry": (), "text": text.decode().strip()}
            yield Mutant(**place, start=begin + found.start(), end=begin + found.end(), old=old, new=new)
        begin += len(text) + 1


def _expressions(
    node: ast.AST, function: str, statement: ast.AST | None = None, entry: tuple[str, ...] = ()
) -> Iterator[tuple[str, ast.AST, tuple[str, ...], ast.AST]]:
    """Yield the expressions that run, each with the names around it, its statement and the words of its keys."""
    if isinstance(node, ast.expr) and statement is not None:
        yield function, statement, entry, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not _has_no_effect(child):
                named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
                inside = f"{function}.{child.name}".strip(".") if named else function or _variable(child)
                below = child if isinstance(child, ast.stmt) else statement
                words = _words(node.keys[index]) if isinstance(node, ast.Dict) and name == "values" else ()
                yield from _expressions(child, inside, below, entry + words)


def _words(key: ast.AST | None) -> tuple[str, ...]:
    """Return the words of a key that is a string."""
    return tuple(key.value.split()) if isinstance(key, ast.Constant) and isinstance(key.value, str) else ()


def _has_no_effect(node: ast.AST) -> bool:
    """Return whether a part of the program is documentation, a message, for types alone, or the `strict` of a `zip`."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Subscript(value=ast.Name(id="Literal")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.JoinedStr() | ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="strict"):
            return True
    return False


def _variable(node: ast.AST) -> str:
    """Return the name of the first variable that a statement sets; else nothing."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_]), *_]):
            return name
    return ""


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
        case ast.Constant(value=value):
            yield from map(ast.Constant, _other_values(value))
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name]), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            yield ast.Call(ast.Attribute(node.func.value, NAMES[name]), node.args, node.keywords)


def _other_values(value: object) -> tuple[object, ...]:
    """Return what a constant is changed to: a layout or placement to the next, any other word to one that nothing is.

    Texts that are not one word stay.
    """
    match value:
        case bool():
            return (not value,)
        case int() | float():
            return tuple(other for other in (value + 1, value - 1) if other != value)  # 1e30 + 1 is 1e30
        case str() if WORD.fullmatch(value):
            known = next((words for words in SIBLINGS if value in words), None)
            return (known[(known.index(value) + 1) % len(known)] if known else f"{value}_",)
    return ()
