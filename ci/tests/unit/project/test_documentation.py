"""README and docs: short where they are to be, whole in their links,
and every command they show is one that exists.
"""

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import typer
from reframe.frontend import cli

import synthetic_site
from folders import PRODUCT
from mpibench.cli import app
from reframe_tests.harness import command_line
from reframe_tests.harness.vocabulary import ROOT

COMMAND = typer.main.get_command(app)


def shown_code(text):
    """Lines of code blocks, joined where they end in a backslash, and
    code within sentences, of a page of Markdown.
    """
    fences = re.split(r"^```.*$", text, flags=re.MULTILINE)
    blocks = [*fences[1::2]]
    for prose in fences[::2]:
        indented = re.findall(r"(?:^    .*\n?)+", prose, re.MULTILINE)
        blocks += ["\n".join(line[4:] for line in block.splitlines()) for block in indented]
        yield from re.findall(
            r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^    .*$", "", prose, flags=re.MULTILINE)
        )
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()


def commands(text, program):
    """The words behind a program's name, of each command of it that a page shows; comments,
    synopsis brackets and ``...`` are left out.
    """
    shown = []
    for line in shown_code(text):
        code = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ")
        for part in re.split(r"&&|;|\||(?<!-)-- ", code):
            without = re.sub(r"^\s*(\w+=\S+\s+)*", "", part)
            if re.match(rf"{re.escape(program)}(\s|$)", without):
                shown.append(_words(re.sub(r"[\[\]]", " ", without)))
    return shown


def _words(code):
    try:
        return shlex.split(code)[1:]
    except ValueError:
        return code.split()[1:]


def fault_of(words):
    """What no ``mpibench`` would take, or an empty text.

    :param words: behind ``mpibench``, as shown.
    """
    node = COMMAND
    rest = list(words)
    while hasattr(node, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in node.commands:
            return "" if name.isupper() else f"there is no command {name!r}"
        node = node.commands[name]
    if node.hidden:  # of a tool that is not installed
        return ""
    options = {"--help", "-h"}
    for parameter in node.params:
        options.update(parameter.opts, parameter.secondary_opts)
    given = (word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word))
    return next((f"{node.name} has no {word}" for word in given if word not in options), "")


SHOWN = [
    (synthetic_site.name_of(path), words)
    for path in (*synthetic_site.PAGES, *synthetic_site.BESIDE)
    for words in commands(path.read_text(), "mpibench")
]


def test_each_shown_command_exists_with_its_options():
    assert len(SHOWN) > 80
    assert [(page, words) for page, words in SHOWN if fault_of(words)] == []


@cache
def said(path):
    """Texts of a source file that may reach a user: all but docstrings,
    of which those of commands are their help. Read once for both programs.

    What is put into a text when it is said is a capital letter, but
    for the beginning of ReFrame's commands.
    """
    nodes = list(ast.walk(ast.parse(path.read_text())))
    made = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    left_out = {id(part) for node in made for part in ast.walk(node)}
    if path.parent.name != "commands":
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        bodies = (node.body[:1] for node in nodes if isinstance(node, kinds))
        left_out |= {id(one.value) for body in bodies for one in body if isinstance(one, ast.Expr)}
    found = []
    for text in made:
        parts = (
            str(part.value)
            if isinstance(part, ast.Constant)
            else command_line.REFRAME
            if "REFRAME" in ast.unparse(part)
            else " X "
            for part in text.values
        )
        found.append("".join(parts))
    return found + [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in left_out
    ]


def pasted(program):
    """Commands in quotes or backticks in what the product says: file,
    and the words behind the program's name.
    """
    quoted = re.compile(rf"""(?<!\w)(['`])({program}(?:\s[^'`]*)?)\1""")
    paths = [
        path
        for top in PRODUCT
        for path in sorted(top.rglob("*.py"))
        if re.search(r"['`](mpibench|reframe)\b|REFRAME", path.read_text())
    ]
    found = [
        (path, match[2])
        for path in paths
        for text in said(path)
        for match in quoted.finditer(" ".join(text.split()))
    ]
    return [
        (str(path.relative_to(ROOT)), _words(re.sub(r"[|>].*", "", code))) for path, code in found
    ]


def test_each_command_that_a_sentence_gives_to_be_pasted_is_one():
    """ReFrame lists and runs nothing without ``-c``: its search
    path is the folder it is started in.
    """
    faults = {(path, fault) for path, words in pasted("mpibench") if (fault := fault_of(words))}
    options = set(re.findall(r"\'(--?[A-Za-z][\w-]*)\'", Path(cli.__file__).read_text()))
    hints = pasted("reframe")
    assert len(hints) > 8
    for path, words in hints:
        given = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
        faults |= {
            (path, f"ReFrame has no {word}")
            for word in given
            if word not in options and word[:2] not in options
        }
        if not {"-c", "--checkpath", "--detect-host-topology"} & set(given) and given:
            faults.add((path, f"reframe {' '.join(words)} has no -c"))
    assert faults == set()
