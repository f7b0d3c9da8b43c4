"""Print a shell's completion of commands and sessions: eval "$(contextrender completion bash)"."""

import argparse
from collections.abc import Sequence

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender completion`."""
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the shell's completion script."""
    from contextrender_bridge.cli import SUBCOMMANDS
    from contextrender_bridge.wrap.agents import AGENTS

    help_by_command = {name: subcommand.help for name, subcommand in SUBCOMMANDS.items()}
    print(script(args.shell, help_by_command, list(AGENTS)))
    return 0


def script(shell: str, help_by_command: dict[str, str], agents: Sequence[str]) -> str:
    """Return a script that lets a shell complete words of `contextrender`.

    The first word is completed to a command, the words after `wrap` to agents. In bash and zsh, the
    words after `help` are completed to commands, too. Others are completed to files. `shell` is one
    of `SHELLS`.
    """
    if shell == "fish":
        return _fish_script(help_by_command, agents)
    names, programs = " ".join(help_by_command), " ".join(agents)
    # zsh can use the script for bash after loading `bashcompinit`.
    head = "autoload -Uz bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return (
        f"{head}_contextrender() {{\n"
        '  local word="${COMP_WORDS[COMP_CWORD]}"\n'
        '  if [ "$COMP_CWORD" -eq 1 ]; then\n'
        f'    COMPREPLY=($(compgen -W "{names} help" -- "$word"))\n'
        '  elif [ "${COMP_WORDS[1]}" = wrap ]; then\n'
        f'    COMPREPLY=($(compgen -W "{programs}" -- "$word"))\n'
        '  elif [ "${COMP_WORDS[1]}" = help ]; then\n'
        f'    COMPREPLY=($(compgen -W "{names}" -- "$word"))\n'
        "  fi\n"
        "}\n"
        "complete -o default -F _contextrender contextrender"
    )


def _fish_script(help_by_command: dict[str, str], agents: Sequence[str]) -> str:
    """Return the completion script for fish, which also shows each command's help."""
    lines = ["complete -c contextrender -f -n __fish_use_subcommand -a help"]
    for name, help_text in help_by_command.items():
        # The description is in single quotes, so it must not have any.
        description = help_text.replace("'", "")
        lines.append(
            f"complete -c contextrender -f -n __fish_use_subcommand -a {name} -d '{description}'"
        )
    condition = "'__fish_seen_subcommand_from wrap'"
    return "\n".join([*lines, f"complete -c contextrender -n {condition} -a '{' '.join(agents)}'"])
