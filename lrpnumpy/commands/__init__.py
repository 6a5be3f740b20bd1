"""The commands of the program `lrpnumpy`, a module each; their order here is that of the help text."""

from lrpnumpy.commands import corpus, evaluate, explain, files, page, tools

COMMANDS = (explain, corpus, page, evaluate, files, tools)
