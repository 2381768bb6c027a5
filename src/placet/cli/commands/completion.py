"""`placet completion`: prints the script that lets a shell complete what comes after `placet`."""

from __future__ import annotations

from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import COMMANDS, Exit

app = new_app("completion")

_BASH = r"""
_placet() {
    local value about
    local -a values=() abouts=()
    COMPREPLY=()
    while IFS=$'\t' read -r value about; do
        values+=("$value")
        abouts+=("$about")
    done < <("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "${#values[@]}" -eq 1 ]; then
        COMPREPLY=("${values[0]}")
        return
    fi
    local index
    for index in "${!values[@]}"; do
        COMPREPLY+=("${values[index]}${abouts[index]:+  -- ${abouts[index]}}")
    done
}
complete -o bashdefault -o default -o nosort -F _placet placet 2>/dev/null ||
    complete -o bashdefault -o default -F _placet placet
"""
_ZSH = r"""
#compdef placet
_placet() {
    local line
    local -a found
    for line in "${(@f)$(command placet completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#found )); then
        _describe -V placet found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_placet" ]; then
    _placet "$@"
else
    compdef _placet placet
fi
"""
_FISH = r"""
function __placet_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command placet completion words -- $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c placet -f -a '(__placet_complete)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def _add(shell: str, does: str) -> None:
    def show(session: Session) -> Exit:
        session.screen.raw(_SCRIPTS[shell].lstrip("\n"))
        return Exit.OK

    app.command(shell, help=does, epilog=epilog())(with_session(show))


for _shell, _does in COMMANDS["completion"].verbs.items():
    _add(_shell, _does)
