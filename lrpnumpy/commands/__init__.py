"""The commands of the program `lrpnumpy`; their order here is that of the help text."""

from lrpnumpy.commands import corpus, evaluate, explain, files, page, serve, tools

COMMANDS = {
    name: command
    for module in (explain, serve, corpus, page, evaluate, files, tools)
    for name, command in module.COMMANDS.items()
}
