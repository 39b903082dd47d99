"""Shell lines with which a job records its loaded modules, and stops before measuring if one is
missing.

ReFrame writes ``module load`` as separate lines, and bash continues if one fails: the ranks would
run with whatever they find.
"""

from __future__ import annotations

import shlex

from ...stacks.stack import END, Stack, log_of
from ...vocabulary import BadInput

#: ReFrame's name of the module system that a site has not configured; it warns, and loads nothing.
NO_SYSTEM = "nomod"


def require_system(stack: Stack, configured: str) -> None:
    """Refuse a stack of modules on a system that loads none.

    :raises BadInput: with what to configure.
    """
    if stack.modules and configured == NO_SYSTEM:
        raise BadInput(
            "not-comparable",
            f"stack {stack.name} needs {stack.modules_text}, but this system's configuration names "
            f"no module system: add 'modules_system': '{stack.loaded.system or 'lmod'}' to it.",
        )


def write_check(stack: Stack, *, paired: bool = False) -> list[str]:
    """Shell lines that write the log of a stack's modules and end the job
    where one is not loaded; none without modules.
    """
    if not stack.modules:
        return []
    names = dict.fromkeys([*stack.loaded.sets, *stack.loaded.prepends, *stack.loaded.appends])
    files = [
        *([] if paired else ["${_LMFILES_-}"]),
        *(shlex.quote(row.file) for row in stack.loaded.loaded if row.file),
    ]
    state = list[str]()
    after = list[str]()
    if not paired:
        state = ['        printf "%s\\0" "loaded=${LOADEDMODULES-}" "files=${_LMFILES_-}"']
        state += [f'        printf "%s\\0" "value={name}=${{{name}-}}"' for name in names]
        after = [
            "    for module in "
            f"{' '.join(shlex.quote(row.name) for row in stack.loaded.loaded)}; do",
            '        case ":${LOADEDMODULES-}:" in *":$module:"*) ;; *) lacking="$lacking '
            '$module" ;; esac',
            "    done",
            '    [ -z "$lacking" ] || {',
            '        echo "mpibench: not loaded:$lacking; loaded are: ${LOADEDMODULES:-none}" >&2',
            "        exit 1",
            "    }",
        ]
    return [
        "log_modules() {",
        "    local file sum module lacking= IFS=:",
        "    {",
        *state,
        f"        for file in {' '.join(files)}; do",
        '            sum=$(sha256sum 2>/dev/null <"$file")',
        '            printf "%s\\0" "sha256=${sum%% *}=$file"',
        "        done",
        f'        printf "%s\\0" {END}',
        f"    }} >{shlex.quote(log_of(stack))}",
        *after,
        "}",
        "log_modules",
    ]
