"""A modulefile in Tcl (Environment Modules, and Lmod reads it, too) and in Lua (Lmod), with every value as it stands.

Sources: Environment Modules 5, modulefile(4); Lmod documentation, 'Lua Modulefile Functions'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: First line by which Environment Modules knows a modulefile.
MAGIC = "#%Module1.0"


def tcl(title: str, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """A modulefile in Tcl.

    :param title: one line for ``module whatis``; ``lines``: for ``module help``.
    """
    return "\n".join(
        [
            MAGIC,
            *(f"## {_one(line)}" for line in (title, *lines)),
            f"module-whatis {_tcl(title)}",
            "proc ModulesHelp { } {",
            *(f"    puts stderr {_tcl(line)}" for line in (title, *lines)),
            "}",
            *(f"setenv {name} {_tcl(value)}" for name, value in variables.items()),
            "",
        ]
    )


def lua(title: str, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """The same in Lua."""
    return "\n".join(
        [
            *(f"-- {_one(line)}" for line in (title, *lines)),
            f"whatis({_lua(title)})",
            f"help({_lua(chr(10).join((title, *lines)))})",
            *(f"setenv({_lua(name)}, {_lua(value)})" for name, value in variables.items()),
            "",
        ]
    )


def _one(line: str) -> str:
    """A comment must not end before its line does, nor go on after it (a backslash at the end of a Tcl line)."""
    return " ".join(line.split()).rstrip("\\")


def _tcl(text: str) -> str:
    """A word in quotes in which nothing is substituted, also inside the braces of a procedure."""
    escaped = "".join(f"\\{sign}" if sign in '\\"$[]{}' else sign for sign in text)
    return f'"{escaped}"'.replace("\n", "\\n").replace("\t", "\\t")


def _lua(text: str) -> str:
    """A string literal; control characters by their number."""
    escaped = "".join(f"\\{ord(sign):03d}" if ord(sign) < 32 else f"\\{sign}" if sign in '\\"' else sign for sign in text)
    return f'"{escaped}"'
