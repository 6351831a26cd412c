"""`dcc completion`: the script with which a shell completes commands, options and values."""

from __future__ import annotations

import click

from dcc.cli.shell.group import command

_SHELLS = ("bash", "zsh", "fish")


@command(
    examples=[
        "echo 'eval \"$(dcc completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(dcc completion zsh)\"' >> ~/.zshrc",
        "dcc completion fish > ~/.config/fish/completions/dcc.fish",
    ],
    offline=True,
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options and their choices, and from the tracker submissions, centres and sources; rules too.
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"Nothing is known of the shell {shell}.")
    click.echo(made(root.command, {}, "dcc", "_DCC_COMPLETE").source())
