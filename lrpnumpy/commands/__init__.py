"""The commands of the program `lrpnumpy`; their order here is that of the help text."""

from lrpnumpy.commands import corpus, evaluate, explain, tools

COMMANDS = {name: command for module in (explain, corpus, evaluate, tools) for name, command in module.COMMANDS.items()}
