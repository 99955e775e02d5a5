"""Graphs: the core's own steps over symbols, for blocks that are hybridized.

A symbol tells neither its sizes nor how many axes it has. A layer knows the latter, so that `ranked` has symbols with as many
axes, whose sizes are known, or known once the graph runs, as `sizes` says them; `namespace` is what the core asks of arrays;
`traced` are the layers.
"""
