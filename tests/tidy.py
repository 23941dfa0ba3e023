"""The checker behind `tests/unit/test_tidy.py`: reads source text, reports what breaks the house's limits.

Not a linter of style (ruff is): it counts what no linter counts, and holds the bans that no `noqa` may lift.
Every function takes text or parsed modules and returns values, so that bad snippets test the checker itself.
"""

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

LIMITS = {
    "file-lines": 500,  # without the docstring at its head
    "function-lines": 60,  # from `def` to the end, without the docstring
    "nesting": 3,  # blocks within blocks inside one function; `elif` and `case` add none
    "parameters": 6,  # `self` and `cls` do not count
    "public-methods": 15,  # of one class; dunder methods, properties and overloads do not count
    "docstring": 0,  # the rules from here on allow none at all
    "broad-except": 0,
    "print": 0,
    "stored-code": 0,
    "time-and-chance": 0,
}

TIME_AND_CHANCE = (
    "time.time",
    "time.time_ns",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "random",
    "secrets",
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "os.getrandom",
)
STORED_CODE = ("pickle", "marshal", "shelve", "dill", "cloudpickle")

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


@dataclass(frozen=True, kw_only=True)
class Module:
    """One source file, parsed."""

    path: str  # from the package's folder: "engine/task.py"
    name: str  # "perdure.engine.task"
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """True of an `__init__.py`."""
        return self.path.rpartition("/")[2] == "__init__.py"


@dataclass(frozen=True, kw_only=True, order=True)
class Finding:
    """A measured thing, `place`, and how large it is under `rule`."""

    rule: str
    place: str  # "engine/task.py" or "engine/task.py::Task.act"
    size: int

    @property
    def is_over(self) -> bool:
        """True when it is larger than the rule allows."""
        return self.size > LIMITS[self.rule]


def parse(path: str, text: str, package: str = "perdure") -> Module:
    """The module that stands at `path` inside the folder of `package`."""
    parts = [package, *path.removesuffix(".py").split("/")]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(path=path, name=name, text=text, tree=ast.parse(text))


def read(folder: Path) -> list[Module]:
    """All modules of the package in `folder`, sorted by path."""
    files = sorted(folder.rglob("*.py"))
    return [parse(file.relative_to(folder).as_posix(), file.read_text("utf-8"), folder.name) for file in files]


def measure(module: Module) -> Iterator[Finding]:
    """Every number that a rule limits, of one module; also those within the limit."""
    yield Finding(rule="file-lines", place=module.path, size=_count_file_lines(module))
    yield Finding(rule="docstring", place=module.path, size=int(not ast.get_docstring(module.tree)))
    yield Finding(rule="broad-except", place=module.path, size=sum(map(_swallows, ast.walk(module.tree))))
    yield Finding(rule="print", place=module.path, size=_count_named(module, ("print",)))
    yield Finding(rule="stored-code", place=module.path, size=_count_named(module, STORED_CODE))
    yield Finding(rule="time-and-chance", place=module.path, size=_count_named(module, TIME_AND_CHANCE))
    for name, node, is_method in definitions(module):
        place = f"{module.path}::{name}"
        if isinstance(node, ast.ClassDef):
            yield Finding(rule="public-methods", place=place, size=len(_public_methods(node)))
        else:
            yield Finding(rule="function-lines", place=place, size=count_lines(node))
            yield Finding(rule="nesting", place=place, size=_count_nesting(node.body))
            yield Finding(rule="parameters", place=place, size=_count_parameters(node, is_method=is_method))


def definitions(module: Module) -> Iterator[tuple[str, Function | ast.ClassDef, bool]]:
    """Each function and class at any depth: qualified name, node, whether it is a method."""
    pending: deque[tuple[str, ast.AST]] = deque([("", module.tree)])
    while pending:
        prefix, scope = pending.popleft()
        for node in _inside(scope):
            name = f"{prefix}{node.name}"
            yield name, node, isinstance(scope, ast.ClassDef)
            pending.append((f"{name}.", node))


def count_lines(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    return function.end_lineno - function.lineno + 1 - _count_docstring_lines(function)


def profile(modules: Iterable[Module]) -> tuple[float, float]:
    """Median and 95th percentile of the lengths of functions that do something (properties do not)."""
    lengths = [
        count_lines(node)
        for module in modules
        for _, node, _ in definitions(module)
        if isinstance(node, FUNCTIONS) and not _is_property(node) and not _is_stub(node)
    ]
    return median(lengths), quantiles(lengths, n=20)[-1]


def compare(found: Iterable[Finding], ratchet: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What to say: each finding over its limit and its row of the ratchet, each row not needed any more."""
    over = {(finding.rule, finding.place): finding.size for finding in found if finding.is_over}
    rows = {(rule, place): size for rule, table in ratchet.items() for place, size in table.items()}
    complaints = []
    for (rule, place), size in sorted(over.items()):
        allowed = rows.get((rule, place), LIMITS[rule])
        if size > allowed:
            complaints.append(f"{place}: {rule} is {size}, at most {allowed}")
        elif size < allowed:
            complaints.append(f"{place}: {rule} has shrunk to {size}; write that in the ratchet")
    unneeded = sorted(rows.keys() - over.keys())
    return complaints + [f"{place}: {rule} is within its limit; take it off the ratchet" for rule, place in unneeded]


def unreached(modules: Sequence[Module], entries: Iterable[str]) -> list[str]:
    """Modules that no chain of imports from `entries` leads to.

    An entry `a.*` stands for all modules inside `a`. A string that is a module's name, `a.b` or
    `a.b:attribute`, counts as an import: that is how modules are loaded late.
    """
    known = {module.name: module for module in modules}
    prefixes = tuple(entry.removesuffix("*") for entry in entries if entry.endswith(".*"))
    pending = [name for name in known if name in set(entries) or name.startswith(prefixes or ("\0",))]
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached.add(name)
        targets = {name.rpartition(".")[0], *_imported(known[name])}
        pending += sorted(targets & known.keys())
    return sorted(known.keys() - reached)


def _inside(scope: ast.AST) -> Iterator[Function | ast.ClassDef]:
    """The functions and classes that stand directly in `scope`, however deep in its blocks."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, SCOPES):
            yield child
        else:
            yield from _inside(child)


def _count_file_lines(module: Module) -> int:
    return len(module.text.splitlines()) - _count_docstring_lines(module.tree)


def _count_docstring_lines(node: ast.Module | Function) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def _decorators(node: Function) -> set[str]:
    return {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}


def _is_property(node: Function) -> bool:
    names = {name.rpartition(".")[2] for name in _decorators(node)}
    return not names.isdisjoint({"property", "cached_property", "setter", "deleter"})


def _is_stub(node: Function) -> bool:
    """True where nothing but a docstring, `...` or `pass` stands in the body."""
    return all(
        isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in node.body
    )


def _public_methods(node: ast.ClassDef) -> set[str]:
    return {
        method.name
        for method in node.body
        if isinstance(method, FUNCTIONS) and not method.name.startswith("_") and not _is_property(method)
    }


def _count_parameters(node: Function, *, is_method: bool) -> int:
    arguments = node.args
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    starred = (arguments.vararg is not None) + (arguments.kwarg is not None)
    is_bound = is_method and "staticmethod" not in _decorators(node)
    return named + starred - is_bound


def _count_nesting(body: Sequence[ast.stmt]) -> int:
    return max((1 + _count_nesting_of_block(line) for line in body if isinstance(line, BLOCKS)), default=0)


def _count_nesting_of_block(block: ast.stmt) -> int:
    """The deepest nesting inside a block; an `elif` lies beside its `if`, not in it."""
    deepest = 0
    for field in ("body", "orelse", "finalbody"):
        lines = getattr(block, field, [])
        if field == "orelse" and _is_elif(block, lines):
            deepest = max(deepest, _count_nesting_of_block(lines[0]))
        else:
            deepest = max(deepest, _count_nesting(lines))
    parts = [*getattr(block, "handlers", []), *getattr(block, "cases", [])]
    return max([deepest, *(_count_nesting(part.body) for part in parts)])


def _is_elif(block: ast.stmt, orelse: Sequence[ast.stmt]) -> bool:
    return (
        isinstance(block, ast.If)
        and len(orelse) == 1
        and isinstance(orelse[0], ast.If)
        and orelse[0].col_offset == block.col_offset
    )


def _swallows(node: ast.AST) -> bool:
    """True of what catches everything: a handler that does not end by raising again, a `suppress`."""
    if isinstance(node, ast.ExceptHandler):
        last = node.body[-1]
        is_raised_again = isinstance(last, ast.Raise) and last.exc is None
        return (node.type is None or _is_broad(node.type)) and not is_raised_again
    is_suppress = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress"
    return is_suppress and any(map(_is_broad, node.args))


def _is_broad(caught: ast.expr) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds)


def _count_named(module: Module, banned: Sequence[str]) -> int:
    """How many places import or use one of the dotted names `banned`, or something inside one."""
    origins = _origins(module)
    used = [_dotted(node, origins) for node in ast.walk(module.tree)]
    imported = [target for node in ast.walk(module.tree) for target in _targets(node, module)]
    return sum(any(f"{name}.".startswith(f"{ban}.") for ban in banned) for name in used + imported)


def _origins(module: Module) -> dict[str, str]:
    """Local name → the dotted name that it was imported from."""
    origins = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            origins |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return origins


def _dotted(node: ast.AST, origins: Mapping[str, str]) -> str:
    """`a.b.c` of such an expression when it is read, its first name traced to its import; else ""."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, node.id) if isinstance(node.ctx, ast.Load) else ""
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, origins)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _imported(module: Module) -> set[str]:
    """The dotted names that a module imports or names in a string, and the packages they lie in."""
    names = {target for node in ast.walk(module.tree) for target in _targets(node, module)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(_absolute(node.value.partition(":")[0], module))
    return names


def _targets(node: ast.AST, module: Module) -> list[str]:
    """The dotted names that an import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        source = _absolute("." * node.level + (node.module or ""), module)
        return [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return []


def _absolute(name: str, module: Module) -> str:
    """`name` without leading dots, each of which stands for one package upwards."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    home = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    upwards = home[: len(home) - level + 1]
    return ".".join([*upwards, name.lstrip(".")]).rstrip(".")
