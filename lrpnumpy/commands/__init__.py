"""The commands of the program `lrpnumpy`, a module each; their order here is that of the help text."""

from lrpnumpy.commands import corpus, evaluate, explain, files, page, serve, tools

COMMANDS = (explain, serve, corpus, page, evaluate, files, tools)
