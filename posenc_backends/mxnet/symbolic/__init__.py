"""Graphs of hybridized blocks: the core's methods, run on symbols.

A symbol tells neither its sizes nor its number of axes. A layer knows the latter. `array` has symbols with a known
number of axes, `sizes` has sizes that only a running graph knows, `namespace` has the functions that the core needs of
arrays, and `views` are the layers.
"""
