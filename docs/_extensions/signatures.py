"""Makes the API reference read as the source does: its names of types, plain equations, each field listed once."""

import ast
import inspect
import re
import textwrap
from typing import Any

import jax
from sphinx.application import Sphinx

jax.Array.__name__ = "Array"  # jaxtyping's types are named by it: "jaxlib._jax.Array" otherwise

MARKUP = re.compile(r"(?<=\[)\*(?=\w)|\|(?=\w)|(?<=\w)\|")  # [*seeds, nodes] and |y_i - y|
SPACE = re.compile(r"' ([^']*)'")  # jaxtyping needs a space before a single dimension


def escape_markup(app: Sphinx, kind: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Escapes what reads as emphasis and substitution, except in formulas and examples."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((".. math::", ">>>", "...")) and "\\" not in line:
            lines[number] = MARKUP.sub(r"\\\g<0>", line)


def is_field(app: Sphinx, kind: str, name: str, member: object, skip: bool, options: Any) -> bool | None:
    """Whether a member is a field, which its class lists, or flax's; None leaves the decision to autodoc."""
    is_flax = name in ("replace", "setup", "param_dtype") or getattr(member, "__module__", "").startswith("flax")
    return True if type(member).__name__ == "_tuplegetter" or is_flax else None


def written_signature(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, arguments: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """The signature with annotations as the source writes them, where types are resolved to long names otherwise."""
    if kind not in ("function", "method", "class"):
        return None
    node = _parsed(thing)
    if isinstance(node, ast.FunctionDef):
        if kind == "method" and node.args.args[0].arg in ("self", "cls"):
            del node.args.args[0]
        return f"({_plain(node.args)})", _plain(node.returns) if node.returns else None
    return f"({', '.join(_fields(thing))})", None


def _fields(cls: type) -> list[str]:
    """The public fields of a dataclass, a flax module or a NamedTuple, in the order of its constructor."""
    fields: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        if not parent.__module__.startswith("jattn"):
            continue
        for line in _parsed(parent).body:
            if isinstance(line, ast.AnnAssign) and not _plain(line.target).startswith("_"):
                name = _plain(line.target)
                fields[name] = f"{name}: {_plain(line.annotation)}{_default(cls, name, line.value)}"
    return list(fields.values())


def _default(cls: type, name: str, value: ast.expr | None) -> str:
    if value is None:
        return ""
    text = ast.unparse(value)
    if re.match(r"(\w+\.)?[a-z]+\(", text):  # a function that describes the field
        if not hasattr(cls, name):
            return ""
        text = repr(getattr(cls, name))
    return f" = {text}"


def _parsed(thing: Any) -> ast.ClassDef | ast.FunctionDef:
    """The definition of a class or a function in its source."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    return node


def _plain(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value  # a name that is defined further down
    return SPACE.sub(r"'\1'", ast.unparse(node))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects these functions to Sphinx."""
    app.connect("autodoc-process-docstring", escape_markup, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", written_signature)
    app.connect("autodoc-skip-member", is_field)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
